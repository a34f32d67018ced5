//! Whether dependencies were added, removed or moved to another version.

use serde_json::Value;

use crate::facts::Seen;
use crate::trace::base_name;

/// Commands whose purpose it is to change dependencies: program, then any of the first words.
const COMMANDS: [(&[&str], &[&str]); 6] = [
    (&["cargo"], &["add", "remove", "rm", "update", "upgrade", "generate-lockfile"]),
    (
        &["npm", "pnpm", "yarn", "bun"],
        &["add", "remove", "rm", "uninstall", "un", "update", "up", "upgrade", "dedupe"],
    ),
    (&["poetry", "pdm", "uv"], &["add", "remove", "update", "lock"]),
    (&["pipenv"], &["install", "uninstall", "update", "upgrade"]),
    (&["go"], &["get"]),
    (&["bundle"], &["add", "update"]),
];

/// The reason why it is forbidden, if it is.
pub(super) fn judge(seen: &Seen) -> Option<String> {
    let command = super::executed(seen).find(|(_, program)| {
        let plain = program.argv.iter().skip(1).find(|word| !word.starts_with(['-', '+']));
        COMMANDS.iter().any(|(names, verbs)| {
            let verb = plain.is_some_and(|word| verbs.contains(&word.as_str()));
            verb && names.contains(&program.name.as_str())
        })
    });
    if let Some((_, program)) = command {
        return Some(format!("executed: {}", super::words(program)));
    }
    let kept = seen.before.iter().chain(&seen.after).filter(|(_, text)| text.is_some());
    let mut paths: Vec<&String> = kept.map(|(path, _)| path).collect();
    paths.sort();
    paths.dedup();
    let text = |snapshot: &super::super::facts::Snapshot, path: &String| {
        snapshot.get(path).cloned().flatten().unwrap_or_default()
    };
    let changed = paths.into_iter().find(|path| {
        let name = base_name(std::path::Path::new(path));
        let (before, after) = (text(&seen.before, path), text(&seen.after, path));
        before != after && part(&name, &before) != part(&name, &after)
    })?;
    Some(format!("the dependencies in {changed} changed"))
}

/// The part of a manifest about dependencies; all of it if that is not known.
fn part(name: &str, text: &str) -> Value {
    let whole = || Value::String(text.to_owned());
    let parsed: Option<Value> = match name {
        "Cargo.toml" | "pyproject.toml" => toml::from_str(text).ok(),
        "package.json" if text.is_empty() => Some(Value::Object(serde_json::Map::new())),
        "package.json" => serde_json::from_str(text).ok(),
        _ => None,
    };
    let Some(Value::Object(fields)) = parsed else { return whole() };
    let is_about = |key: &str| {
        key.to_lowercase().contains("dependencies")
            || ["patch", "replace", "target", "features", "overrides", "resolutions"].contains(&key)
    };
    let mut about: serde_json::Map<String, Value> = serde_json::Map::new();
    for (key, value) in fields {
        // An empty table equals a missing one.
        let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
        if is_about(&key) && !is_empty {
            about.insert(key, value);
        } else if ["workspace", "project", "tool"].contains(&key.as_str()) {
            let inner = value.as_object().cloned().unwrap_or_default();
            let inner: serde_json::Map<String, Value> =
                inner.into_iter().filter(|(key, _)| is_about(key)).collect();
            about.insert(key, Value::Object(inner));
        }
    }
    Value::Object(about)
}
