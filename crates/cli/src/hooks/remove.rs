//! Taking the gate out of a program's settings: all that is ours, and nothing else.

use std::path::{Path, PathBuf};

use bailiwick_model::Source;
use toml_edit::DocumentMut;

use super::agent::{Agent, Scope};
use super::codex_trust::{self, Trust};
use super::draft::{Draft, Readers};
use super::json_text::{self, Node};
use super::places::Places;
use super::record::Record;
use super::settings_entry::{Made, Shape};
use super::{codex_roots, gate_command, plugin, scratch_space, shell_prefix};
use crate::failure::Failure;

/// What remains after the files are removed.
#[derive(Debug, Default)]
pub struct Left {
    /// Directories that go if they are empty, the outermost first.
    directories: Vec<PathBuf>,
    /// Scratch space of shell commands.
    scratch: PathBuf,
    /// Commands that were never run.
    commands: PathBuf,
    /// The log of decisions, which is kept.
    pub log: Option<PathBuf>,
}

impl Left {
    /// Removes the directories that are ours and empty.
    pub fn tidy(&self) {
        // What cannot be removed stays visible, and is harmless.
        let _ = scratch_space::remove(&self.scratch);
        let _ = std::fs::remove_dir_all(&self.commands);
        for directory in self.directories.iter().rev() {
            // One that still holds something stays.
            let _ = std::fs::remove_dir(directory);
        }
    }
}

/// Drafts the removal; writes nothing.
pub fn plan(
    draft: &mut Draft,
    places: &Places,
    agent: Agent,
    scope: &Scope,
) -> Result<Left, Failure> {
    let kept = places.kept(agent, scope);
    let mut left = Left::default();
    match Record::read(draft, &kept)? {
        Some(Ok(record)) => {
            settings(draft, places, &record)?;
            left.directories.clone_from(&record.made_directories);
        }
        // All our entries are removed, even without a record.
        Some(Err(_)) | None => entry(
            draft,
            places,
            &Ours {
                agent,
                scope,
                settings: &places.settings(agent, scope),
                made: Made { file: false, hooks: true, event: true, env: true, after: true },
                trust: [None, None],
                roots: &codex_roots::wanted(&kept),
            },
        )?,
    }
    for file in [kept.announcement(), kept.policy(), kept.record(), kept.shell()] {
        draft.set(&file, None, Readers::Owner)?;
    }
    let log = kept.log();
    left.log = std::fs::metadata(&log).is_ok_and(|log| log.len() > 0).then_some(log);
    left.scratch = kept.scratch();
    left.commands = kept.commands();
    left.directories.extend([kept.directory.clone(), kept.removed()]);
    Ok(left)
}

/// Removes what a record lists.
pub fn settings(draft: &mut Draft, places: &Places, record: &Record) -> Result<(), Failure> {
    let ours = Ours {
        agent: record.agent,
        scope: &record.scope(),
        settings: &record.settings,
        made: record.made,
        trust: [record.trust.as_ref(), record.after_trust.as_ref()],
        roots: &record.roots,
    };
    entry(draft, places, &ours)
}

struct Ours<'a> {
    agent: Agent,
    scope: &'a Scope,
    settings: &'a Path,
    made: Made,
    trust: [Option<&'a Trust>; 2],
    roots: &'a [PathBuf],
}

fn entry(draft: &mut Draft, places: &Places, ours: &Ours<'_>) -> Result<(), Failure> {
    for trust in ours.trust.into_iter().flatten() {
        distrust(draft, trust)?;
    }
    if ours.agent == Agent::Codex {
        let trusted = ours.trust.iter().flatten().next().map(|trust| trust.config.clone());
        let config = trusted.unwrap_or_else(|| places.codex_config());
        change_config(draft, &config, |config| codex_roots::take(config, ours.roots))?;
    }
    let Some(source) = draft.source(ours.settings)? else { return Ok(()) };
    let Some(shape) = Shape::of(ours.agent) else {
        if source.text.starts_with(plugin::HEAD) {
            draft.set(ours.settings, None, Readers::Usual)?;
        }
        return Ok(());
    };
    let after = Shape::after(ours.agent);
    if ours.agent == Agent::Codex {
        let root = json_text::parse(&source, shape.comments())?;
        for shape in [Some(shape), after].into_iter().flatten() {
            forget_positions(draft, &places.codex_config(), ours, shape, &root)?;
        }
    }
    let id = ours.scope.id(ours.agent);
    let mut text = source.text.to_string();
    // The object around both goes with the last of them.
    if let Some(after) = after {
        let made = Made { hooks: false, ..ours.made.for_after() };
        text = after.take(&source, &id, made)?;
    }
    let without_after = Source::new(source.file.to_string(), text);
    text = shape.take(&without_after, &id, ours.made)?;
    if ours.agent == Agent::Claude {
        let shell = gate_command::text(&places.kept(ours.agent, ours.scope).shell())?;
        let without = Source::new(source.file.to_string(), text);
        text = shell_prefix::take(&without, &shell, ours.made.env)?;
    }
    let empty = text.trim() == "{}";
    let after = if empty && ours.made.file { None } else { Some(text) };
    draft.set(ours.settings, after, Readers::Usual)
}

/// Removes the trust of Codex in our hook.
pub fn distrust(draft: &mut Draft, trust: &Trust) -> Result<(), Failure> {
    change_config(draft, &trust.config, |config| codex_trust::take(config, trust))
}

/// Removes all trust of Codex in our hooks at their current positions.
fn forget_positions(
    draft: &mut Draft,
    config: &Path,
    ours: &Ours<'_>,
    shape: Shape,
    root: &Node,
) -> Result<(), Failure> {
    change_config(draft, config, |config| {
        let mut groups = shape.groups(root);
        // From the end, so that each gap is closed before the next one is created.
        for position in shape.find(root, &ours.scope.id(ours.agent)).into_iter().rev() {
            codex_trust::forget(config, ours.settings, shape, position);
            if shape.stands_alone(root, position) {
                codex_trust::close_gap(config, ours.settings, shape, position.group, groups);
                groups -= 1;
            }
        }
    })
}

fn change_config(
    draft: &mut Draft,
    file: &Path,
    change: impl FnOnce(&mut DocumentMut),
) -> Result<(), Failure> {
    let Some(source) = draft.source(file)? else { return Ok(()) };
    let mut config = codex_trust::parse(&source)?;
    change(&mut config);
    let text = config.to_string();
    // A file with nothing but our trust was created for it.
    let emptied = text.trim().is_empty() && text != *source.text;
    draft.set(file, if emptied { None } else { Some(text) }, Readers::Usual)
}
