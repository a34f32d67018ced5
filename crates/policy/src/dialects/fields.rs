//! Reading JSON that must have a certain shape.

use serde_json::{Map, Value};

use super::Unreadable;
use crate::call::{Action, Target, Touch, command_line};

pub(super) type Object = Map<String, Value>;

pub(super) fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Object, Unreadable> {
    value.as_object().ok_or_else(|| Unreadable::because(format!("{what} is no object")))
}

/// A text that must be there.
pub(super) fn text<'a>(object: &'a Object, key: &str) -> Result<&'a str, Unreadable> {
    optional_text(object, key)?
        .ok_or_else(|| Unreadable::because(format!("the call has no `{key}`")))
}

/// A text that may be left out; anything else in its place is an error.
pub(super) fn optional_text<'a>(
    object: &'a Object,
    key: &str,
) -> Result<Option<&'a str>, Unreadable> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Unreadable::because(format!("`{key}` is no text"))),
    }
}

/// The arguments of the tool.
pub(super) fn input<'a>(payload: &'a Object, key: &str) -> Result<&'a Object, Unreadable> {
    match payload.get(key) {
        Some(value) => object(value, key),
        None => Err(Unreadable::because(format!("the call has no `{key}`"))),
    }
}

/// A command: a text, or a list of words.
pub(super) fn command(input: &Object, key: &str) -> Result<Action, Unreadable> {
    match input.get(key) {
        Some(Value::String(text)) => Ok(Action::Shell(text.clone())),
        Some(Value::Array(words)) if !words.is_empty() => {
            let words: Option<Vec<String>> =
                words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            match words {
                Some(words) => Ok(Action::Shell(command_line(&words))),
                None => Err(Unreadable::because(format!("`{key}` has something that is no text"))),
            }
        }
        Some(_) => Err(Unreadable::because(format!("`{key}` is no command"))),
        None => Err(Unreadable::because(format!("the call has no `{key}`"))),
    }
}

/// Every path under these keys, also in lists and in the objects of lists.
pub(super) fn paths(
    input: &Object,
    keys: &[&str],
    touch: Touch,
) -> Result<Vec<Target>, Unreadable> {
    let mut targets = Vec::new();
    for key in keys {
        match input.get(*key) {
            None | Some(Value::Null) => {}
            Some(value) => gather(value, key, keys, touch, &mut targets)?,
        }
    }
    Ok(targets)
}

fn gather(
    value: &Value,
    key: &str,
    keys: &[&str],
    touch: Touch,
    targets: &mut Vec<Target>,
) -> Result<(), Unreadable> {
    match value {
        Value::String(path) => {
            if path.contains('\0') {
                return Err(Unreadable::because(format!("`{key}` has a NUL in it")));
            }
            targets.push(Target { path: path.clone(), touch });
            Ok(())
        }
        Value::Array(values) => {
            values.iter().try_for_each(|value| gather(value, key, keys, touch, targets))
        }
        Value::Object(inner) => {
            for key in keys {
                if let Some(value) = inner.get(*key) {
                    gather(value, key, keys, touch, targets)?;
                }
            }
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            Err(Unreadable::because(format!("`{key}` is no path")))
        }
    }
}

/// The files that a tool writes; a tool that writes and names none is not understood.
pub(super) fn written(input: &Object) -> Result<Action, Unreadable> {
    const KEYS: [&str; 9] = [
        "file_path",
        "notebook_path",
        "filePath",
        "path",
        "file_paths",
        "paths",
        "files",
        "edits",
        "filename",
    ];
    let targets = paths(input, &KEYS, Touch::Change)?;
    if targets.is_empty() {
        return Err(Unreadable::because("the call writes a file and names none"));
    }
    if targets.iter().any(|target| target.path.is_empty()) {
        return Err(Unreadable::because("the call names an empty path"));
    }
    Ok(Action::Files(targets))
}

/// What a tool of an MCP server may touch: nothing is known of it but the names of its arguments.
pub(super) fn touched_by_mcp(tool: &str, input: &Object) -> Action {
    const KEYS: [&str; 28] = [
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
    let reads =
        ["read", "get", "list", "search", "find", "view", "show", "describe", "query", "stat"];
    // A whole word: `listen` does not list.
    let is_verb = |verb: &&str| {
        let (head, rest) = tool.split_at_checked(verb.len()).unwrap_or_default();
        head.eq_ignore_ascii_case(verb) && !rest.starts_with(|c: char| c.is_ascii_lowercase())
    };
    let touch = if reads.iter().any(is_verb) { Touch::Read } else { Touch::Change };
    // One argument that is no path does not hide the others.
    let mut targets = Vec::new();
    for key in KEYS {
        if let Some(value) = input.get(key) {
            let _ = gather(value, key, &KEYS, touch, &mut targets);
        }
    }
    if let Some(Value::String(uri)) = input.get("uri") {
        let path = uri.strip_prefix("file://").map(str::to_owned);
        targets.extend(path.map(|path| Target { path, touch }));
    }
    if targets.is_empty() { Action::Plain } else { Action::Files(targets) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tool_of_a_server_names_is_seen() {
        for (tool, input, expected) in [
            ("write", json!({"path": "a"}), Some(Touch::Change)),
            ("read_file", json!({"path": "a"}), Some(Touch::Read)),
            ("readFile", json!({"path": "a"}), Some(Touch::Read)),
            ("listen", json!({"path": "a"}), Some(Touch::Change)),
            ("write", json!({"path": "a", "file": 5}), Some(Touch::Change)),
            ("write", json!({"uri": "file:///a"}), Some(Touch::Change)),
            ("write", json!({"uri": "https://a"}), None),
            ("write", json!({"absolutePath": "/a"}), Some(Touch::Change)),
            ("send", json!({"text": "a"}), None),
        ] {
            let Value::Object(input) = input else { panic!("no object") };
            let touched = match touched_by_mcp(tool, &input) {
                Action::Files(targets) => targets.first().map(|target| target.touch),
                Action::Shell(_) | Action::Type | Action::Plain => None,
            };
            assert_eq!(touched, expected, "{tool} {input:?}");
        }
    }
}
