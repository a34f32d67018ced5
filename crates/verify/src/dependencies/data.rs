//! Values from JSON and TOML in a canonical form.

use serde_json::{Map, Value};

use super::{Dependencies, ManifestError};

pub(super) fn toml(text: &str) -> Result<Value, ManifestError> {
    toml::from_str(text).map_err(|error| ManifestError::Syntax(first_line(&error.to_string())))
}

pub(super) fn json(text: &str) -> Result<Value, ManifestError> {
    serde_json::from_str(text)
        .map_err(|error| ManifestError::Syntax(first_line(&error.to_string())))
}

/// A JSON file in which every top-level entry is a dependency.
pub(super) fn all_entries(text: &str) -> Result<Dependencies, ManifestError> {
    let mut found = Dependencies::default();
    for (name, value) in object(&json(text)?) {
        found.add(name, canonical(value));
    }
    Ok(found)
}

fn first_line(error: &str) -> String {
    error.lines().next().unwrap_or("it does not parse").to_owned()
}

/// The value under nested keys.
pub(super) fn at<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().try_fold(value, |value, key| value.get(key))
}

/// The entries of an object; none for any other value.
pub(super) fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// The entries of an array; none for any other value.
pub(super) fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// The string under a key.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// The canonical form of a value: sorted keys, no spaces.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries = entries
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => value.to_string(),
    }
}

/// The canonical form of a value, without quotes around a string.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| canonical(value), ToOwned::to_owned)
}

/// The canonical form of a dependency: a string is its version, and lists of features are sets.
pub(super) fn specification(value: &Value) -> String {
    let Some(map) = value.as_object() else { return plain(value) };
    let mut map: Map<String, Value> =
        map.iter().map(|(key, value)| (key.replace('_', "-"), value.clone())).collect();
    for key in ["features", "extras"] {
        if let Some(Value::Array(items)) = map.get_mut(key) {
            items.sort_by_key(canonical);
            items.dedup();
        }
    }
    match (map.len(), map.get("version").and_then(Value::as_str)) {
        (1, Some(version)) => version.to_owned(),
        _ => versioned(&Value::Object(map)),
    }
}

/// The canonical form of an entry, with its version first.
pub(super) fn versioned(entry: &Value) -> String {
    let version = text(entry, "version").unwrap_or_default();
    format!("{version} {}", canonical(entry)).trim_start().to_owned()
}
