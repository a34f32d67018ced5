//! Settings that prevent hooks from running, and how to fix them.

use std::path::{Path, PathBuf};

use bailiwick_model::Source;
use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item};

use super::agent::{Agent, Scope};
use super::draft::Draft;
use super::json_edit::{remove, spliced};
use super::json_text::{self, Node};
use super::places::Places;
use super::record::Commands;
use super::settings_entry::{NAME, Shape};
use super::{codex_trust, shell_prefix};
use crate::failure::Failure;

/// A setting that prevents our hook from running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disarmed {
    /// Its file.
    pub file: PathBuf,
    /// The setting.
    pub what: String,
    /// The part that does not work.
    pub part: Part,
    /// The file without it; nothing where it is not this user's to change.
    pub mended: Option<String>,
}

/// A part of what was installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The gate is not called.
    Gate,
    /// Shell commands do not run in their sandbox.
    Sandbox,
}

/// Every setting here that prevents the gate of `agent` from being called.
pub fn find(
    draft: &mut Draft,
    places: &Places,
    agent: Agent,
    repository: Option<&Path>,
    commands: Commands,
) -> Result<Vec<Disarmed>, Failure> {
    let mut found = all(draft, places, agent, repository)?;
    found.retain(|one| one.part == Part::Gate || commands == Commands::Sandboxed);
    Ok(found)
}

fn all(
    draft: &mut Draft,
    places: &Places,
    agent: Agent,
    repository: Option<&Path>,
) -> Result<Vec<Disarmed>, Failure> {
    let mut sources = Vec::new();
    for path in places.deciding(agent, repository) {
        if let Some(source) = draft.source(&path)? {
            sources.push((path, source));
        }
    }
    match agent {
        Agent::Claude => {
            let scopes = repository.map(|root| Scope::Repository(root.to_owned()));
            let scopes = scopes.into_iter().chain([Scope::User]);
            let ours: Vec<PathBuf> =
                scopes.map(|scope| places.kept(agent, &scope).shell()).collect();
            claude(&json_files(agent, sources)?, &ours)
        }
        Agent::Codex => codex(sources),
        Agent::Gemini => gemini(&json_files(agent, sources)?),
        Agent::OpenCode => Ok(Vec::new()),
    }
}

/// A settings file that was read.
struct Settings {
    path: PathBuf,
    source: Source,
    root: Node,
}

fn json_files(agent: Agent, files: Vec<(PathBuf, Source)>) -> Result<Vec<Settings>, Failure> {
    let Some(shape) = Shape::of(agent) else { return Ok(Vec::new()) };
    let read = |(path, source): (PathBuf, Source)| {
        let root = json_text::parse(&source, shape.comments())?;
        Ok(Settings { path, source, root })
    };
    files.into_iter().map(read).collect()
}

impl Settings {
    fn disarmed(&self, what: String, mended: String) -> Disarmed {
        let ours = !self.path.starts_with("/etc");
        Disarmed { file: self.path.clone(), what, part: Part::Gate, mended: ours.then_some(mended) }
    }

    /// The setting at some keys, if it is this; mended to the opposite.
    fn set_to(&self, keys: &[&str], value: bool) -> Option<Disarmed> {
        let node = self.root.at(keys).filter(|node| node.is(&json!(value)))?;
        let mended = spliced(&self.source.text, node.span.clone(), &json!(!value).to_string());
        Some(self.disarmed(format!("{} is {value}", keys.join(".")), mended))
    }
}

/// The first file with one of these keys decides.
fn decided<'a>(files: &'a [Settings], keys: &[&str]) -> Option<&'a Settings> {
    files.iter().find(|file| file.root.at(keys).is_some())
}

/// Variables that start Claude Code without hooks.
const BARE: [&str; 2] = ["CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE"];

fn claude(files: &[Settings], ours: &[PathBuf]) -> Result<Vec<Disarmed>, Failure> {
    let is_ours = |program: &str| ours.iter().any(|one| one == Path::new(program));
    let mut found = Vec::new();
    let keys = ["disableAllHooks"];
    found.extend(decided(files, &keys).and_then(|file| file.set_to(&keys, true)));
    // The first file that sets it decides, and one in a repository can switch ours off.
    if let Some(file) = decided(files, &["env", shell_prefix::NAME])
        && let Some(variables) = file.root.get("env")
        && let Some(index) =
            variables.members().iter().position(|one| one.key == shell_prefix::NAME)
        && !file.root.at(&["env", shell_prefix::NAME]).and_then(Node::text).is_some_and(is_ours)
    {
        let mended = remove(&file.source.text, variables, index);
        let disarmed = file.disarmed(format!("env.{} is set", shell_prefix::NAME), mended);
        found.push(Disarmed { part: Part::Sandbox, ..disarmed });
    }
    for file in files {
        found.extend(file.set_to(&["allowManagedHooksOnly"], true));
        let Some(variables) = file.root.get("env") else { continue };
        for (index, member) in variables.members().iter().enumerate() {
            if BARE.contains(&member.key.as_str()) {
                let mended = remove(&file.source.text, variables, index);
                found.push(file.disarmed(format!("env.{} is set", member.key), mended));
            }
        }
    }
    Ok(found)
}

fn gemini(files: &[Settings]) -> Result<Vec<Disarmed>, Failure> {
    let mut found = Vec::new();
    let keys = ["hooksConfig", "enabled"];
    found.extend(decided(files, &keys).and_then(|file| file.set_to(&keys, false)));
    for file in files {
        let Some(list) = file.root.at(&["hooksConfig", "disabled"]) else { continue };
        let ours = Value::from(NAME);
        if let Some(index) = list.items().iter().position(|item| item.is(&ours)) {
            let mended = remove(&file.source.text, list, index);
            found.push(file.disarmed(format!("hooksConfig.disabled names {NAME}"), mended));
        }
    }
    Ok(found)
}

fn codex(files: Vec<(PathBuf, Source)>) -> Result<Vec<Disarmed>, Failure> {
    let mut found = Vec::new();
    for (file, source) in files {
        let config = codex_trust::parse(&source)?;
        for name in ["hooks", "codex_hooks"] {
            let mut mended = config.clone();
            if switch_on(&mut mended, name).is_some() {
                let what = format!("features.{name} is false");
                found.push(Disarmed {
                    file: file.clone(),
                    what,
                    part: Part::Gate,
                    mended: Some(mended.to_string()),
                });
            }
        }
    }
    Ok(found)
}

/// Sets a feature that is off to on.
fn switch_on(config: &mut DocumentMut, feature: &str) -> Option<()> {
    let features = config.get_mut("features").and_then(Item::as_table_like_mut)?;
    let value = features.get_mut(feature)?.as_value_mut()?;
    if value.as_bool() != Some(false) {
        return None;
    }
    let decor = value.decor().clone();
    *value = true.into();
    *value.decor_mut() = decor;
    Some(())
}
