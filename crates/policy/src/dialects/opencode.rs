//! OpenCode: what our plugin passes on from `tool.execute.before`.

use serde_json::Value;

use super::{Unreadable, claude, fields, mcp};
use crate::call::{Action, Call};
use crate::tool::{Tool, ToolName};

pub(super) fn read(payload: &Value, servers: &[String]) -> Result<Call, Unreadable> {
    let payload = fields::object(payload, "the call")?;
    let native = fields::text(payload, "tool")?;
    let input = fields::input(payload, "args")?;
    let of_server = |server: &&String| {
        native.strip_prefix(server.as_str()).is_some_and(|rest| rest.starts_with('_'))
    };
    let server = servers.iter().filter(of_server).max_by_key(|server| server.len());
    let (tools, action) = match server {
        Some(server) if Tool::named(native).is_some() => {
            let text = format!("{native} is a tool of OpenCode's and of the server {server}");
            return Err(Unreadable::because(text));
        }
        Some(server) => {
            let tool = native.get(server.len() + 1..).unwrap_or_default();
            (vec![ToolName::mcp(server, tool)], mcp::touched(server, tool, input)?)
        }
        None => claude::known(native, input)?,
    };
    let started = fields::directory(payload)?.map(str::to_owned);
    let own = match action {
        Action::Shell(_) => fields::optional_text(input, "workdir")?,
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
        id: fields::optional_text(payload, "callID")?.map(str::to_owned),
        agent: None,
    })
}
