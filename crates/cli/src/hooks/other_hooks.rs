//! Other hooks for shell commands: one that changes the command replaces the change of ours.

use std::path::{Path, PathBuf};

use regex::Regex;
use toml_edit::Item;

use super::agent::{Agent, Scope};
use super::codex_trust;
use super::draft::Draft;
use super::json_text::{self, Node};
use super::places::Places;
use super::settings_entry::Shape;
use crate::failure::Failure;

/// A hook that is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// Its file.
    pub file: PathBuf,
    /// Its command.
    pub command: String,
}

/// Every hook before shell commands that is not ours.
pub fn find(
    draft: &mut Draft,
    places: &Places,
    agent: Agent,
    repository: Option<&Path>,
) -> Result<Vec<Other>, Failure> {
    let Some(shape) = Shape::of(agent) else { return Ok(Vec::new()) };
    let scopes = repository.map(|root| Scope::Repository(root.to_owned()));
    let scopes: Vec<Scope> = scopes.into_iter().chain([Scope::User]).collect();
    let mut files = places.deciding(agent, repository);
    files.extend(scopes.iter().map(|scope| places.settings(agent, scope)));
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    files.dedup();
    let mut found = Vec::new();
    for file in files {
        let Some(source) = draft.source(&file)? else { continue };
        let root = json_text::parse(&source, shape.comments())?;
        let ours: Vec<_> =
            scopes.iter().flat_map(|scope| shape.find(&root, &scope.id(agent))).collect();
        let groups = root.at(&["hooks", shape.event()]).map(Node::items).unwrap_or_default();
        for (group, node) in groups.iter().enumerate() {
            if !covers(agent, node.get("matcher").and_then(Node::text)) {
                continue;
            }
            let hooks = node.get("hooks").map(Node::items).unwrap_or_default();
            for (hook, node) in hooks.iter().enumerate() {
                if !ours.iter().any(|one| (one.group, one.hook) == (group, hook)) {
                    let command = node.get("command").and_then(Node::text).unwrap_or("a hook");
                    found.push(Other { file: file.clone(), command: command.to_owned() });
                }
            }
        }
    }
    if agent == Agent::Codex {
        found.extend(in_configuration(draft, places, shape, repository)?);
    }
    Ok(found)
}

/// Hooks in Codex's configuration itself.
fn in_configuration(
    draft: &mut Draft,
    places: &Places,
    shape: Shape,
    repository: Option<&Path>,
) -> Result<Vec<Other>, Failure> {
    let mut found = Vec::new();
    for file in places.deciding(Agent::Codex, repository) {
        let Some(source) = draft.source(&file)? else { continue };
        let config = codex_trust::parse(&source)?;
        let hooks = config.get("hooks").and_then(Item::as_table_like);
        if hooks.and_then(|hooks| hooks.get(shape.event())).is_some() {
            found.push(Other { file, command: format!("hooks.{}", shape.event()) });
        }
    }
    Ok(found)
}

/// Whether a matcher covers the shell tool; one that cannot be read may.
fn covers(agent: Agent, matcher: Option<&str>) -> bool {
    let tool = match agent {
        Agent::Gemini => "run_shell_command",
        Agent::Claude | Agent::Codex | Agent::OpenCode => "Bash",
    };
    match matcher {
        None | Some("" | "*") => true,
        Some(matcher) => Regex::new(matcher).map_or(true, |matcher| matcher.is_match(tool)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_that_include_the_shell_tool_are_recognised() {
        for matcher in [None, Some(""), Some("*"), Some(".*"), Some("Bash|Edit"), Some("(")] {
            assert!(covers(Agent::Codex, matcher), "{matcher:?}");
        }
        assert!(!covers(Agent::Codex, Some("apply_patch")));
        assert!(
            covers(Agent::Gemini, Some("run_.*")) && !covers(Agent::Gemini, Some("write_file"))
        );
    }
}
