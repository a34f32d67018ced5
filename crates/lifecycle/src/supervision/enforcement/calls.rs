//! What a call is about: commands, patches and inputs, as models, programs and hooks write them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

/// The command that a call runs, where it is one; programs and their hooks call it differently.
pub(super) fn about(input: &Value) -> Option<String> {
    let text = match input {
        Value::String(text) => Some(text.as_str()),
        Value::Object(fields) => {
            ["command", "cmd"].iter().find_map(|key| fields.get(*key)?.as_str())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    };
    text.map(|text| text.trim().to_owned())
}

/// How a patch begins, alone or inside of a command.
pub(super) const PATCH: &str = "*** Begin Patch";

/// The files that a patch names.
pub(super) fn named(patch: &str) -> impl Iterator<Item = &str> {
    const WORDS: [&str; 4] =
        ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    patch.lines().filter_map(|line| WORDS.iter().find_map(|words| line.trim().strip_prefix(words)))
}

/// Whether a name in a patch can be this path: where it is looked for from is not known.
pub(super) fn leads_to(name: &str, path: &str) -> bool {
    let mut end = PathBuf::new();
    for part in Path::new(name).components() {
        match part {
            Component::ParentDir => end = PathBuf::new(),
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => end.push(part),
        }
    }
    end.file_name().is_some() && Path::new(path).ends_with(end)
}

/// Whether a model and its hooks can be given a tool by this name. Other characters are replaced, and what
/// is too long is cut.
pub(super) fn is_name(tool: &str) -> bool {
    const MAX_LENGTH: usize = 64;
    let fits = |one: char| one.is_ascii_alphanumeric() || one == '_';
    tool.len() <= MAX_LENGTH && tool.chars().all(fits)
}

/// The input of a call: one that has none may say so or not.
pub(super) fn given(input: &Value) -> &Value {
    static NONE: Value = Value::Null;
    if input.as_object().is_some_and(serde_json::Map::is_empty) { &NONE } else { input }
}

/// A JSON text that is the same for the same value; objects are kept in the order of their keys.
pub(super) fn canonical(input: &Value) -> String {
    match input {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, String> =
                fields.iter().map(|(key, value)| (key, canonical(value))).collect();
            format!("{sorted:?}")
        }
        Value::Array(items) => format!("{:?}", items.iter().map(canonical).collect::<Vec<_>>()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => input.to_string(),
    }
}
