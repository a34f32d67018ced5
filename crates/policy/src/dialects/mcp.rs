//! Tools of MCP servers, of which nothing is known but their names and those of their arguments.

use serde_json::Value;

use super::Unreadable;
use super::fields::{Object, target};
use crate::call::{Action, Target, Touch};

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

/// What a tool that only looks begins with.
const LOOKS: [&str; 10] =
    ["read", "get", "list", "search", "find", "view", "show", "describe", "query", "stat"];

/// What the name of one that does more may hold further on.
const CHANGES: [&str; 12] = [
    "write", "replace", "create", "update", "delete", "move", "rename", "edit", "append", "insert",
    "save", "patch",
];

/// What a tool may touch. What is no path is passed over, for a server may mean anything by it; a
/// path beside it still counts.
pub(super) fn touched(tool: &str, input: &Object) -> Result<Action, Unreadable> {
    let tool = tool.to_ascii_lowercase();
    let looks = LOOKS.iter().any(|verb| tool.starts_with(verb));
    let changes = CHANGES.iter().any(|verb| tool.contains(verb));
    let touch = if looks && !changes { Touch::Read } else { Touch::Change };
    let mut targets = Vec::new();
    of_object(input, touch, &mut targets)?;
    Ok(if targets.is_empty() { Action::Plain } else { Action::Files(targets) })
}

fn of_object(object: &Object, touch: Touch, targets: &mut Vec<Target>) -> Result<(), Unreadable> {
    object.iter().try_for_each(|(key, value)| of_value(key, value, touch, targets))
}

fn of_value(
    key: &str,
    value: &Value,
    touch: Touch,
    targets: &mut Vec<Target>,
) -> Result<(), Unreadable> {
    match value {
        // What lies elsewhere than in the file system is no file.
        Value::String(path) if key == "uri" && !path.starts_with("file://") => {}
        Value::String(path) if PATHS.contains(&key) => {
            let path = path.strip_prefix("file://").unwrap_or(path);
            targets.push(target(path, key, touch)?);
        }
        Value::Array(values) => {
            values.iter().try_for_each(|value| of_value(key, value, touch, targets))?;
        }
        Value::Object(inner) => of_object(inner, touch, targets)?,
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}
