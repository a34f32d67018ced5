//! Tools of MCP servers, of which nothing is known but their names and those of their arguments.

use serde_json::Value;

use super::Unreadable;
use super::fields::{Object, target};
use crate::call::{Action, Target, Touch, command_line};
use crate::tool_lists::OWN_SERVER;

/// Arguments that name files, at any depth.
const PATHS: [&str; 29] = [
    "absolute_path",
    "absolutePath",
    "relative_path",
    "relativePath",
    "filepath",
    "file_name",
    "fileName",
    "old_path",
    "new_path",
    "oldPath",
    "newPath",
    "dst",
    "uri",
    "path",
    "paths",
    "file",
    "files",
    "file_path",
    "filePath",
    "file_paths",
    "filename",
    "notebook_path",
    "destination",
    "dest",
    "target",
    "source",
    "directory",
    "output",
    "output_path",
];

/// The prefixes of the names of read-only tools.
const LOOKS: [&str; 10] =
    ["read", "get", "list", "search", "find", "view", "show", "describe", "query", "stat"];

/// Words in the name of a tool that does more.
const CHANGES: [&str; 12] = [
    "write", "replace", "create", "update", "delete", "move", "rename", "edit", "append", "insert",
    "save", "patch",
];

/// Arguments that hold a command.
const COMMANDS: [&str; 10] = [
    "command",
    "cmd",
    "commands",
    "commandline",
    "command_line",
    "shell",
    "script",
    "bash",
    "argv",
    "exec",
];

/// Arguments that contain text for people or parts of files, in any form.
const TEXTS: [&str; 23] = [
    "body",
    "code",
    "comment",
    "content",
    "contents",
    "description",
    "endpoint",
    "href",
    "html",
    "message",
    "new_string",
    "old_string",
    "pattern",
    "prompt",
    "query",
    "regex",
    "route",
    "sql",
    "summary",
    "text",
    "title",
    "url",
    "value",
];

/// The commands and files that the arguments of a tool name.
#[derive(Default)]
struct McpArguments {
    commands: Vec<String>,
    targets: Vec<Target>,
}

/// The commands and files of a tool call. A known argument has a fixed meaning; any other argument that looks like a
/// path is one.
pub(super) fn touched(server: &str, tool: &str, input: &Object) -> Result<Action, Unreadable> {
    // It names the files that the new agent may write. The supervisor compares them with those of the caller.
    if server == OWN_SERVER && tool == "spawn_agent" {
        return Ok(Action::NoKnownEffect);
    }
    let tool = tool.to_ascii_lowercase();
    let looks = LOOKS.iter().any(|verb| tool.starts_with(verb));
    let changes = CHANGES.iter().any(|verb| tool.contains(verb));
    let touch = if looks && !changes { Touch::Read } else { Touch::Change };
    let mut named = McpArguments::default();
    of_object(input, touch, &mut named)?;
    let McpArguments { commands, targets } = named;
    Ok(match (commands.is_empty(), targets.is_empty()) {
        (true, true) => Action::NoKnownEffect,
        (true, false) => Action::Files(targets),
        (false, true) => Action::Shell(commands.join("\n")),
        (false, false) => Action::ShellAndFiles(commands.join("\n"), targets),
    })
}

fn of_object(object: &Object, touch: Touch, named: &mut McpArguments) -> Result<(), Unreadable> {
    for (key, value) in object {
        let words = match value {
            Value::Array(words) => words.iter().map(Value::as_str).collect::<Option<Vec<_>>>(),
            Value::String(_)
            | Value::Object(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_) => None,
        };
        let known = COMMANDS.contains(&key.to_ascii_lowercase().as_str());
        match words.filter(|words| known && !words.is_empty()) {
            // A list of words is one command, a list of lines are several: each has to be allowed.
            Some(words) => {
                let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
                named.commands.push(command_line(&words));
                named.commands.extend(words.into_iter().filter(|word| word.contains(' ')));
            }
            None => of_value(key, value, touch, named)?,
        }
    }
    Ok(())
}

fn of_value(
    key: &str,
    value: &Value,
    touch: Touch,
    named: &mut McpArguments,
) -> Result<(), Unreadable> {
    match value {
        // A URI outside the file system is not a file.
        Value::String(path) if key == "uri" && !path.starts_with("file://") => {}
        Value::String(text) if COMMANDS.contains(&key.to_ascii_lowercase().as_str()) => {
            named.commands.push(text.clone());
        }
        Value::String(path) if PATHS.contains(&key) || is_path(key, path) => {
            let path = path.strip_prefix("file://").unwrap_or(path);
            named.targets.push(target(path, key, touch)?);
        }
        Value::Array(values) => {
            values.iter().try_for_each(|value| of_value(key, value, touch, named))?;
        }
        Value::Object(inner) => of_object(inner, touch, named)?,
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// Whether a text under a name that is not known looks like a path.
fn is_path(key: &str, text: &str) -> bool {
    let rooted = ["/", "~/", "./", "../", "file://"].iter().any(|start| text.starts_with(start));
    let last = text.rsplit('/').next().unwrap_or_default();
    let ending = last.rsplit_once('.').is_some_and(|(name, ending)| {
        !name.is_empty()
            && (1..=5).contains(&ending.len())
            && ending.chars().all(char::is_alphanumeric)
    });
    let protected = text.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
    !TEXTS.contains(&key.to_ascii_lowercase().as_str())
        && !text.contains(|c: char| c.is_control())
        && text.len() <= 4096
        && (!text.contains("://") || text.starts_with("file://"))
        && (rooted || protected || (text.contains('/') && ending && !text.contains(' ')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn file_list_of_a_started_agent_is_not_a_write() {
        let input = json!({ "agent_type": "worker", "message": "do it", "files": ["src/a/**"] });
        let input = input.as_object().unwrap();
        let read = |server: &str, tool: &str| touched(server, tool, input).unwrap();
        assert_eq!(read("bailiwick", "spawn_agent"), Action::NoKnownEffect);
        for (server, tool) in [("other", "spawn_agent"), ("bailiwick", "write_files")] {
            assert!(matches!(read(server, tool), Action::Files(_)), "{server} {tool}");
        }
    }
}
