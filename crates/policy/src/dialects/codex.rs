//! Codex: `PreToolUse` on standard input, with patches and a shell that can be typed into unseen.

use serde_json::Value;

use super::{Unreadable, apply_patch, claude, fields};
use crate::call::{Action, Call, Touch};
use crate::tool::ToolName;

pub(super) fn read(payload: &Value) -> Result<Call, Unreadable> {
    let object = fields::object(payload, "the call")?;
    let native = fields::text(object, "tool_name")?;
    if native != "apply_patch" {
        let call = claude::read(payload)?;
        return Ok(Call { types_unseen: true, ..call });
    }
    claude::event(object, "PreToolUse")?;
    let input = fields::input(object, "tool_input")?;
    let patch = match fields::optional_text(input, "command")? {
        Some(patch) => patch,
        None => fields::text(input, "input")?,
    };
    let targets = apply_patch::targets(patch)?;
    let mut tools = Vec::new();
    for target in &targets {
        let tool = match target.touch {
            Touch::Change if target.made => "Write",
            Touch::Change | Touch::Delete | Touch::Read => "Edit",
        };
        let name = crate::tool::Tool::named(tool).map(ToolName::of);
        tools.extend(name.filter(|name| !tools.contains(name)));
    }
    let directory = fields::optional_text(object, "cwd")?.map(str::to_owned);
    Ok(Call {
        native: native.to_owned(),
        tools,
        action: Action::Files(targets.into_iter().map(|target| target.target()).collect()),
        directory,
        types_unseen: true,
        id: fields::optional_text(object, "tool_use_id")?.map(str::to_owned),
        agent: fields::optional_text(object, "agent_id")?.map(str::to_owned),
    })
}
