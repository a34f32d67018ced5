//! Whether a program reads the settings of a repository at all.

use std::path::Path;

use toml_edit::Item;

use super::agent::{Agent, Scope};
use super::codex_trust;
use super::draft::Draft;
use super::json_text::{self, Comments, Kind};
use super::places::Places;
use crate::failure::Failure;

/// Why the repository's settings are not read, and what to do; nothing if they are.
pub fn unread(
    draft: &mut Draft,
    places: &Places,
    agent: Agent,
    scope: &Scope,
) -> Result<Option<(String, String)>, Failure> {
    let Some(root) = scope.root() else { return Ok(None) };
    let trusted = match agent {
        Agent::Claude | Agent::OpenCode => true,
        Agent::Codex => codex(draft, &places.codex_config(), root)?,
        Agent::Gemini => gemini(draft, places, root)?,
    };
    let (name, word) = (agent.name(), agent.word());
    Ok((!trusted).then(|| {
        let text = format!("{name} does not trust {} yet, and reads no hook there", root.display());
        let advice =
            format!("start `{word}` there once and trust the folder, or install with --user");
        (text, advice)
    }))
}

fn codex(draft: &mut Draft, config: &Path, root: &Path) -> Result<bool, Failure> {
    let Some(source) = draft.source(config)? else { return Ok(false) };
    let config = codex_trust::parse(&source)?;
    let trusts = |folder: &Path| {
        let projects = config.get("projects")?.as_table_like()?;
        let project = projects.get(folder.to_str()?)?.as_table_like()?;
        project.get("trust_level").and_then(Item::as_str).map(|level| level == "trusted")
    };
    Ok(trusts(root).unwrap_or(false))
}

fn gemini(draft: &mut Draft, places: &Places, root: &Path) -> Result<bool, Failure> {
    if let Some(source) = draft.source(&places.gemini_settings())? {
        let settings = json_text::parse(&source, Comments::Allowed)?;
        let enabled = settings.at(&["security", "folderTrust", "enabled"]);
        if enabled.is_some_and(|enabled| enabled.is(&false.into())) {
            return Ok(true);
        }
    }
    let Some(source) = draft.source(&places.gemini_folders())? else { return Ok(false) };
    let folders = json_text::parse(&source, Comments::Allowed)?;
    let rules = folders.members().iter().filter_map(|member| {
        let folder = Path::new(&member.key);
        let (folder, trusted) = match &member.value.kind {
            Kind::Scalar(value) => match value.as_str()? {
                "TRUST_FOLDER" => (folder, true),
                "TRUST_PARENT" => (folder.parent()?, true),
                _ => (folder, false),
            },
            Kind::Object(_) | Kind::Array(_) => return None,
        };
        root.starts_with(folder).then(|| (folder.components().count(), trusted))
    });
    // The nearest folder decides, and distrust takes precedence.
    Ok(rules.max_by_key(|(depth, trusted)| (*depth, !trusted)).is_some_and(|(_, trusted)| trusted))
}
