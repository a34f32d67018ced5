//! Claude Code: `PreToolUse` on standard input.

use serde_json::{Value, json};

use super::fields::{self, Object};
use super::{HookReply, Unreadable, apply_patch, mcp};
use crate::call::{Action, Call, Touch};
use crate::decision::Decision;
use crate::tool::{Class, Tool, ToolName};

const EVENT: &str = "PreToolUse";

pub(super) fn read(payload: &Value) -> Result<Call, Unreadable> {
    let payload = fields::object(payload, "the call")?;
    event(payload, EVENT)?;
    let native = fields::text(payload, "tool_name")?;
    let input = fields::input(payload, "tool_input")?;
    let directory = fields::directory(payload)?.map(str::to_owned);
    let (tools, action) = match native.strip_prefix("mcp__") {
        Some(rest) => of_server(rest, input)?,
        None => known(native, input)?,
    };
    Ok(Call {
        cli_tool_name: native.to_owned(),
        tools,
        action,
        directory,
        ungated_terminal_input: false,
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
fn of_server(rest: &str, input: &Object) -> Result<(Vec<ToolName>, Action), Unreadable> {
    match rest.split_once("__") {
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => {
            Ok((vec![ToolName::mcp(server, tool)], mcp::touched(server, tool, input)?))
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
        Class::TerminalInput => Action::TerminalInput,
        Class::Writes => fields::written(input)?,
        Class::Reads => reads(tool, input)?,
        Class::NoEffect | Class::Other => Action::NoKnownEffect,
    };
    Ok((vec![ToolName::of(tool)], action))
}

fn reads(tool: &Tool, input: &Object) -> Result<Action, Unreadable> {
    const KEYS: [&str; 7] =
        ["file_path", "path", "filePath", "notebook_path", "dir_path", "paths", "absolute_path"];
    let mut targets = fields::paths(input, &KEYS, Touch::Read)?;
    if tool.name == "Read" {
        // Older versions of Gemini CLI name many files so.
        targets.extend(fields::paths(input, &["include"], Touch::Read)?);
    }
    match targets.is_empty() {
        // A search that names no place is one of the whole directory.
        true if tool.name == "Read" => {
            Err(Unreadable::because("the call reads a file and names none"))
        }
        true => Ok(Action::NoKnownEffect),
        false => Ok(Action::Files(targets)),
    }
}

pub(super) fn allow(warned: String) -> HookReply {
    let mut said = json!({"hookEventName": EVENT, "permissionDecision": "allow"});
    add_context(&mut said, &warned);
    HookReply { exit: 0, stdout: rendered(said), stderr: warned }
}

/// Empty, or a warning for the agent; the CLI's own rules decide whether the call runs.
pub(super) fn silent(warned: String) -> HookReply {
    if warned.is_empty() {
        return HookReply { exit: 0, stdout: String::new(), stderr: warned };
    }
    let mut said = json!({"hookEventName": EVENT});
    add_context(&mut said, &warned);
    HookReply { exit: 0, stdout: rendered(said), stderr: warned }
}

fn add_context(said: &mut Value, warned: &str) {
    if let (false, Some(said)) = (warned.is_empty(), said.as_object_mut()) {
        said.insert("additionalContext".to_owned(), json!(warned.trim_end()));
    }
}

fn rendered(said: Value) -> String {
    format!("{}\n", json!({"hookSpecificOutput": said}))
}

pub(super) fn deny(message: &str) -> String {
    let stdout = json!({"hookSpecificOutput": {
        "hookEventName": EVENT,
        "permissionDecision": "deny",
        "permissionDecisionReason": message,
    }});
    stdout.to_string()
}

pub(super) fn ask(decision: &Decision) -> HookReply {
    let stdout = json!({"hookSpecificOutput": {
        "hookEventName": EVENT,
        "permissionDecision": "ask",
        "permissionDecisionReason": decision.message(),
    }});
    HookReply { exit: 0, stdout: format!("{stdout}\n"), stderr: String::new() }
}
