//! The subjects of calls: commands, patches and inputs, as models, CLIs and hooks write them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

/// The command of a call, if it has one; CLIs and their hooks use different keys.
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

/// Whether a name in a patch can mean this path, whose base directory is not known.
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

/// Whether this is a valid tool name for models and hooks. Other characters are replaced, and long names are cut.
pub(super) fn is_name(tool: &str) -> bool {
    const MAX_LENGTH: usize = 64;
    let fits = |one: char| one.is_ascii_alphanumeric() || one == '_';
    tool.len() <= MAX_LENGTH && tool.chars().all(fits)
}

/// The input of a call; an absent input equals an empty one.
pub(super) fn given(input: &Value) -> &Value {
    static NONE: Value = Value::Null;
    if input.as_object().is_some_and(serde_json::Map::is_empty) { &NONE } else { input }
}

/// A JSON text that is equal for equal values: objects are sorted by key.
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
