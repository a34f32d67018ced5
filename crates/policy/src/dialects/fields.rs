//! Reading JSON that must have a certain shape.

use serde_json::{Map, Value};

use super::Unreadable;
use crate::call::{Action, Target, Touch, command_line};
use crate::paths::join;

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

/// The directory of a call, if it names one.
pub(super) fn directory(payload: &Object) -> Result<Option<&str>, Unreadable> {
    match optional_text(payload, "cwd")? {
        Some(path) if !path.starts_with('/') => Err(Unreadable::because("`cwd` is not absolute")),
        said => Ok(said),
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
            Some(value) => {
                let before = targets.len();
                gather(value, key, keys, touch, &mut targets)?;
                if value.is_object() && targets.len() == before {
                    return Err(Unreadable::because(format!("`{key}` is no path")));
                }
            }
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
            targets.push(target(path, key, touch)?);
            Ok(())
        }
        Value::Array(values) => {
            values.iter().try_for_each(|value| gather(value, key, keys, touch, targets))
        }
        Value::Object(inner) => keys.iter().try_for_each(|key| match inner.get(*key) {
            Some(value) => gather(value, key, keys, touch, targets),
            None => Ok(()),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            Err(Unreadable::because(format!("`{key}` is no path")))
        }
    }
}

/// A path as written.
pub(super) fn target(path: &str, key: &str, touch: Touch) -> Result<Target, Unreadable> {
    if path.contains('\0') {
        return Err(Unreadable::because(format!("`{key}` has a NUL in it")));
    }
    Ok(Target { path: path.to_owned(), touch })
}

/// The directory of a call: its own, relative to the CLI's, or else that.
pub(super) fn within(own: Option<&str>, started: Option<String>) -> Option<String> {
    match (own.filter(|path| !path.is_empty()), started) {
        (Some(own), Some(started)) => Some(join(&started, own)),
        (Some(own), None) => Some(own.to_owned()),
        (None, started) => started,
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
