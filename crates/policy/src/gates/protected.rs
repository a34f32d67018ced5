//! Built-in protections, for every role: `.git`, files with hooks, our records.

use crate::decision::Objection;
use crate::gates::Context;
use crate::paths::{Place, WriteTarget};
use crate::shell::WriteKind;

const RULE: &str = "bailiwick::protected";

/// Files of the CLIs in which hooks are wired, at the root of any directory.
const AGENT_CONFIG_PATHS: [&str; 15] = [
    ".mcp.json",
    ".claude/hooks",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/hooks.json",
    ".codex/config.toml",
    ".codex/rules",
    ".gemini/settings.json",
    ".gemini/policies",
    ".opencode/plugin",
    ".opencode/plugins",
    ".opencode/opencode.json",
    ".opencode/opencode.jsonc",
    "opencode.json",
    "opencode.jsonc",
];

/// Directories that hold such files.
const AGENT_CONFIG_DIRS: [&str; 4] = [".claude", ".codex", ".gemini", ".opencode"];

pub(crate) fn judge(context: &Context<'_>) -> Option<Objection> {
    let target = context.write_targets.iter().find(|target| is_protected(context, target))?;
    Some(Objection::new(
        RULE,
        format!("{} is never written by an agent", super::shown(&target.shown)),
        "leave it as it is; git, hooks and settings belong to the person who started you",
    ))
}

fn is_protected(context: &Context<'_>, target: &WriteTarget) -> bool {
    let whole = matches!(target.kind, WriteKind::DeleteTree);
    match &target.place {
        Place::Unknown => is_via_proc(&target.shown),
        Place::Inside { path, .. } => {
            in_git(path)
                || is_agent_config(path)
                || replaces_agent_config_dir(target, path)
                || (path.is_empty() && whole)
                || tree_has(target, path, whole)
        }
        Place::Outside(path) => {
            let mine = &context.policy.protected;
            in_git(path)
                || is_agent_config(path)
                || replaces_agent_config_dir(target, path)
                || mine.iter().any(|place| is_below(path, place))
                || (whole && mine.iter().any(|place| is_below(place, path)))
                || (whole && is_below(&context.facts.root, path))
                || tree_has(target, path, whole)
        }
    }
}

/// Whether a path is `.git` of some directory, or below it.
pub(crate) fn in_git(path: &str) -> bool {
    // Some file systems are not case-sensitive: `.GIT` is `.git`.
    path.split('/').any(|part| part.eq_ignore_ascii_case(".git"))
}

/// Whether a path goes by way of a process, so that it can lead to anything.
pub(crate) fn is_via_proc(path: &str) -> bool {
    path.starts_with("/proc/") || path.starts_with("/dev/fd/")
}

fn is_agent_config(path: &str) -> bool {
    let path = format!("/{}/", path.trim_matches('/').to_ascii_lowercase());
    AGENT_CONFIG_PATHS.iter().any(|wiring| path.contains(&format!("/{wiring}/")))
}

/// Whether a directory that holds wiring is moved, replaced or filled as a whole.
fn replaces_agent_config_dir(target: &WriteTarget, path: &str) -> bool {
    let name = super::base_name(path.trim_end_matches('/'));
    let holds = AGENT_CONFIG_DIRS.iter().any(|holder| name.eq_ignore_ascii_case(holder));
    holds
        && match target.kind {
            WriteKind::Change => target.by != "mkdir",
            WriteKind::Delete | WriteKind::WriteBelow => true,
            // What is below it is checked, if it could be listed.
            WriteKind::DeleteTree => target.below.is_none(),
        }
}

/// Whether a tree that is deleted has something in it that is protected.
fn tree_has(target: &WriteTarget, path: &str, whole: bool) -> bool {
    let files = target.below.iter().flatten();
    whole
        && files.into_iter().any(|file| in_git(file) || is_agent_config(&format!("{path}/{file}")))
}

pub(crate) fn is_below(path: &str, directory: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path lies in a directory for temporary files. That itself may be filled, and nothing else.
pub(crate) fn is_temporary(context: &Context<'_>, path: &str, kind: WriteKind) -> bool {
    let filled = kind == WriteKind::WriteBelow;
    let mut places = context.policy.temporary.iter();
    // A workspace can be in such a directory itself.
    let has_workspace = is_below(&context.facts.root, path);
    !has_workspace
        && places.any(|place| (filled || path != place.as_str()) && is_below(path, place))
}
