//! Claude Code: `PreToolUse` on standard input.

use serde_json::{Value, json};

use super::fields::{self, Object};
use super::{Answer, Unreadable, apply_patch};
use crate::call::{Action, Call, Touch};
use crate::decision::Decision;
use crate::tool::{Class, Tool, ToolName};

const EVENT: &str = "PreToolUse";

pub(super) fn read(payload: &Value) -> Result<Call, Unreadable> {
    let payload = fields::object(payload, "the call")?;
    event(payload, EVENT)?;
    let native = fields::text(payload, "tool_name")?;
    let input = fields::input(payload, "tool_input")?;
    let (tools, action) = match native.strip_prefix("mcp__") {
        Some(rest) => mcp(rest, input)?,
        None => known(native, input)?,
    };
    let directory = fields::optional_text(payload, "cwd")?.map(str::to_owned);
    if directory.as_deref().is_some_and(|path| !path.starts_with('/')) {
        return Err(Unreadable::because("`cwd` is not absolute"));
    }
    Ok(Call {
        native: native.to_owned(),
        tools,
        action,
        directory,
        types_unseen: false,
        id: fields::optional_text(payload, "tool_use_id")?.map(str::to_owned),
        agent: fields::optional_text(payload, "agent_id")?.map(str::to_owned),
    })
}

/// The event must be the one before a tool runs, if it is named.
pub(super) fn event(payload: &Object, expected: &str) -> Result<(), Unreadable> {
    match fields::optional_text(payload, "hook_event_name")? {
        None => Ok(()),
        Some(event) if event == expected => Ok(()),
        Some(event) => Err(Unreadable::because(format!("the event {event} is no tool call"))),
    }
}

/// `server__tool`
pub(super) fn mcp(rest: &str, input: &Object) -> Result<(Vec<ToolName>, Action), Unreadable> {
    match rest.split_once("__") {
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => {
            Ok((vec![ToolName::mcp(server, tool)], fields::touched_by_mcp(tool, input)))
        }
        _ => Err(Unreadable::because(format!("there is no tool mcp__{rest}"))),
    }
}

pub(super) fn known(native: &str, input: &Object) -> Result<(Vec<ToolName>, Action), Unreadable> {
    if matches!(native, "apply_patch" | "patch") {
        return apply_patch::read(input);
    }
    let tool = Tool::named(native)
        .ok_or_else(|| Unreadable::because(format!("the tool {native} is not known")))?;
    let action = match tool.class {
        Class::Shell => fields::command(input, "command")?,
        Class::Typing => Action::Type,
        Class::Writes => fields::written(input)?,
        Class::Reads => reads(input)?,
        Class::Speaks | Class::Other => Action::Plain,
    };
    Ok((vec![ToolName::of(tool)], action))
}

pub(super) fn reads(input: &Object) -> Result<Action, Unreadable> {
    const KEYS: [&str; 7] =
        ["file_path", "path", "filePath", "notebook_path", "dir_path", "paths", "absolute_path"];
    let targets = fields::paths(input, &KEYS, Touch::Read)?;
    Ok(if targets.is_empty() { Action::Plain } else { Action::Files(targets) })
}

pub(super) fn allow(stderr: String) -> Answer {
    let stdout = json!({"hookSpecificOutput": {
        "hookEventName": EVENT,
        "permissionDecision": "allow",
    }});
    Answer { exit: 0, stdout: format!("{stdout}\n"), stderr }
}

pub(super) fn ask(decision: &Decision) -> Answer {
    let stdout = json!({"hookSpecificOutput": {
        "hookEventName": EVENT,
        "permissionDecision": "ask",
        "permissionDecisionReason": decision.told(),
    }});
    Answer { exit: 0, stdout: format!("{stdout}\n"), stderr: String::new() }
}
