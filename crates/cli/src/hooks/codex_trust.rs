//! The trust of Codex, which silently skips every hook whose hash is not in its configuration.

use std::path::{Path, PathBuf};

use bailiwick_model::{Problem, Sha256Hex, Source};
use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, Item, Table, TableLike, value};

use super::draft::target;
use super::settings_entry::{Position, SECONDS, Shape};

/// The trust of Codex in one hook in its current form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// The configuration that trusts it.
    pub config: PathBuf,
    /// The file and the position of the hook.
    pub key: String,
    /// The hash of the hook.
    pub hash: String,
}

#[derive(Serialize)]
struct Hashed<'a> {
    event_name: &'a str,
    hooks: [HashedHook<'a>; 1],
    matcher: &'a str,
}

#[derive(Serialize)]
struct HashedHook<'a> {
    r#async: bool,
    command: &'a str,
    timeout: u64,
    r#type: &'a str,
}

/// The trust that our hook needs. Codex hashes the keys in alphabetical order, without blanks.
pub fn trust(
    config: PathBuf,
    settings: &Path,
    shape: Shape,
    position: Position,
    command: &str,
) -> Trust {
    let hook = HashedHook { r#async: false, command, timeout: SECONDS, r#type: "command" };
    let hashed = Hashed { event_name: shape.trusted_as(), hooks: [hook], matcher: shape.matcher() };
    let text = serde_json::to_string(&hashed).unwrap_or_default();
    let key = key(settings, shape, position);
    Trust { config, key, hash: format!("sha256:{}", Sha256Hex::of(text)) }
}

fn key(settings: &Path, shape: Shape, Position { group, hook }: Position) -> String {
    format!("{}:{}:{group}:{hook}", real(settings), shape.trusted_as())
}

/// The file's real path, also when it is not there yet.
fn real(settings: &Path) -> String {
    let settings = target(settings);
    let directory = settings.parent().unwrap_or(Path::new("/"));
    let known = directory.ancestors().find_map(|above| {
        let rest = directory.strip_prefix(above).ok()?;
        Some(above.canonicalize().ok()?.join(rest))
    });
    let directory = known.unwrap_or_else(|| directory.to_owned());
    directory.join(settings.file_name().unwrap_or_default()).display().to_string()
}

/// Reads a configuration.
pub fn parse(source: &Source) -> Result<DocumentMut, Problem> {
    source.text.parse().map_err(|error: toml_edit::TomlError| {
        let place = error.span().map_or_else(|| source.whole(), |span| source.at(span));
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        Problem::error("bad-toml", place, message).help("fix the file by hand; nothing was changed")
    })
}

/// The configuration of one hook.
pub fn state<'a>(config: &'a DocumentMut, key: &str) -> Option<&'a dyn TableLike> {
    let states = config.get("hooks")?.as_table_like()?.get("state")?.as_table_like()?;
    states.get(key)?.as_table_like()
}

/// Whether the configuration trusts exactly this.
pub fn is_trusted(config: &DocumentMut, trust: &Trust) -> bool {
    let found = state(config, &trust.key).and_then(|state| state.get("trusted_hash"));
    found.and_then(Item::as_str) == Some(&trust.hash)
}

/// Whether the hook is switched off by name.
pub fn is_switched_off(config: &DocumentMut, key: &str) -> bool {
    let enabled = state(config, key).and_then(|state| state.get("enabled"));
    enabled.and_then(Item::as_bool) == Some(false)
}

/// Removes the setting that disables a hook by name.
pub fn switch_on(config: &mut DocumentMut, key: &str) {
    with_states(config, |states| {
        if let Some(state) = states.get_mut(key).and_then(Item::as_table_like_mut) {
            state.remove("enabled");
        }
    });
}

/// Trusts our hook.
pub fn put(config: &mut DocumentMut, source: &Source, trust: &Trust) -> Result<(), Problem> {
    if is_trusted(config, trust) {
        return Ok(());
    }
    let wrong = |what: &str| {
        Problem::error("bad-settings", source.whole(), format!("`{what}` should be a table"))
            .help("fix the file by hand; nothing was changed")
    };
    let hooks = config.entry("hooks").or_insert_with(implicit);
    let hooks = hooks.as_table_like_mut().ok_or_else(|| wrong("hooks"))?;
    let states = hooks.entry("state").or_insert_with(implicit);
    let states = states.as_table_like_mut().ok_or_else(|| wrong("hooks.state"))?;
    let state = states.entry(&trust.key).or_insert_with(|| Item::Table(Table::new()));
    let state = state.as_table_like_mut().ok_or_else(|| wrong("a hook's state"))?;
    state.insert("trusted_hash", value(&trust.hash));
    Ok(())
}

fn implicit() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// Removes the trust in our hook. Other entries under its key belong to another hook by now.
pub fn take(config: &mut DocumentMut, trust: &Trust) {
    if !is_trusted(config, trust) {
        return;
    }
    with_states(config, |states| {
        states.remove(&trust.key);
    });
}

/// Removes all entries for the hook at a position.
pub fn forget(config: &mut DocumentMut, settings: &Path, shape: Shape, position: Position) {
    with_states(config, |states| {
        states.remove(&key(settings, shape, position));
    });
}

/// Moves the entries for hooks behind a removed group to their new positions.
pub fn close_gap(
    config: &mut DocumentMut,
    settings: &Path,
    shape: Shape,
    gone: usize,
    groups: usize,
) {
    let prefix = |group: usize| format!("{}:{}:{group}:", real(settings), shape.trusted_as());
    with_states(config, |states| {
        for group in gone + 1..groups {
            let keys: Vec<String> = states.iter().map(|(key, _)| key.to_owned()).collect();
            for key in keys {
                let Some(hook) = key.strip_prefix(&prefix(group)) else { continue };
                let moved = format!("{}{hook}", prefix(group - 1));
                if let Some(state) = states.remove(&key) {
                    states.insert(&moved, state);
                }
            }
        }
    });
}

/// Works on all states, and leaves no empty table behind.
fn with_states(config: &mut DocumentMut, work: impl FnOnce(&mut dyn TableLike)) {
    let Some(hooks) = config.get_mut("hooks").and_then(Item::as_table_like_mut) else { return };
    let Some(states) = hooks.get_mut("state").and_then(Item::as_table_like_mut) else { return };
    work(states);
    if states.is_empty() {
        hooks.remove("state");
    }
    if hooks.is_empty() {
        config.remove("hooks");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::agent::Agent;

    /// The expected hash is what Codex 0.166.0 reports for this hook.
    #[test]
    fn hash_equals_the_one_that_codex_computes() {
        let shape = Shape::of(Agent::Codex).unwrap();
        let command = "/bin/sh -c 'exit 2; # é '\\'' \"'";
        let trust = trust(
            PathBuf::new(),
            Path::new("/x/hooks.json"),
            shape,
            Position { group: 1, hook: 0 },
            command,
        );
        assert_eq!(trust.key, "/x/hooks.json:pre_tool_use:1:0");
        assert_eq!(
            trust.hash,
            "sha256:f7410ab337bf7bda8155f2ec33f65a3e4816b601b42d05824ac1d0f65adf39cb"
        );
    }
}
