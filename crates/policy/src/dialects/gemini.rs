//! Gemini CLI: `BeforeTool` on standard input.

use serde_json::Value;

use super::{Unreadable, claude, fields, mcp};
use crate::call::{Action, Call};
use crate::tool::ToolName;

pub(super) fn read(payload: &Value) -> Result<Call, Unreadable> {
    let payload = fields::object(payload, "the call")?;
    claude::event(payload, "BeforeTool")?;
    let native = fields::text(payload, "tool_name")?;
    let input = fields::input(payload, "tool_input")?;
    let started = fields::directory(payload)?.map(str::to_owned);
    let (tools, action) = match payload.get("mcp_context") {
        Some(context) => {
            let context = fields::object(context, "mcp_context")?;
            let server = fields::text(context, "server_name")?;
            let tool = fields::text(context, "tool_name")?;
            (vec![ToolName::mcp(server, tool)], mcp::touched(server, tool, input)?)
        }
        None => claude::known(native, input)?,
    };
    let own = match action {
        Action::Shell(_) => fields::optional_text(input, "dir_path")?
            .filter(|path| !path.is_empty())
            .or(fields::optional_text(input, "directory")?),
        Action::TerminalInput
        | Action::ShellAndFiles(..)
        | Action::Files(_)
        | Action::NoKnownEffect => None,
    };
    Ok(Call {
        cli_tool_name: native.to_owned(),
        tools,
        action,
        directory: fields::within(own, started),
        ungated_terminal_input: false,
        id: None,
        agent: None,
    })
}
