//! Tool, input and command of a call, as models, CLIs and hooks write them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

/// A tool, and its input in canonical form: equal calls are the same question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) input: String,
}

impl Call {
    pub(super) fn new(tool: &str, input: &Value) -> Self {
        Self { tool: tool.to_owned(), input: canonical(input) }
    }

    /// The same, where an absent input equals an empty one.
    pub(super) fn normalized(tool: &str, input: &Value) -> Self {
        static ABSENT: Value = Value::Null;
        let is_empty = input.as_object().is_some_and(serde_json::Map::is_empty);
        Self::new(tool, if is_empty { &ABSENT } else { input })
    }
}

/// A JSON text that is equal for equal values: objects are sorted by key.
fn canonical(input: &Value) -> String {
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

/// The command of a call, if it has one; CLIs and their hooks use different keys.
pub(super) fn command_of(input: &Value) -> Option<String> {
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
pub(super) fn named_files(patch: &str) -> impl Iterator<Item = &str> {
    const WORDS: [&str; 4] =
        ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    patch.lines().filter_map(|line| WORDS.iter().find_map(|words| line.trim().strip_prefix(words)))
}

/// Whether a name in a patch can mean this path, whose base directory is not known.
pub(super) fn can_mean_path(name: &str, path: &str) -> bool {
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
pub(super) fn is_valid_tool_name(tool: &str) -> bool {
    const MAX_LENGTH: usize = 64;
    let fits = |one: char| one.is_ascii_alphanumeric() || one == '_';
    tool.len() <= MAX_LENGTH && tool.chars().all(fits)
}
