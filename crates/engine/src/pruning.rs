//! Finds and removes files of finished agents, build caches and setups.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bailiwick_model::{AgentId, Run, RunState};
use bailiwick_runner::checks::{build_caches, is_build_cache_in_use, remove_build_cache};
use bailiwick_runner::environment::{is_setup_in_use, kept_setups, remove_setup};
use bailiwick_runner::supervisor::RunDirectory;
use serde::Serialize;

use crate::agent_names::{self, Scope};
use crate::context::Context;
use crate::failure::Failure;
use crate::removing::{lock_run, private_places, remove_files, task_directory};
use crate::running::sandbox_plan::SETUP_NOTE;
use crate::verifying::cache_key;

/// A file or directory, and whether it is removed.
#[derive(Debug, Serialize)]
pub struct Item {
    pub what: String,
    pub bytes: u64,
    pub remove: bool,
    pub why: &'static str,
    #[serde(skip)]
    target: Target,
}

#[derive(Debug)]
enum Target {
    Agent(Box<Run>),
    Cache(PathBuf),
    Setup(PathBuf),
}

/// Everything that was found, and whether it is removed.
pub fn plan(
    context: &Context,
    all_repositories: bool,
    force: &[AgentId],
) -> Result<Vec<Item>, Failure> {
    let scope = Scope::observe(context, all_repositories)?;
    let mut forced = BTreeSet::new();
    for name in force {
        forced.insert(agent_names::require(context, name)?);
    }
    let runs = context.with_store(async |store| Ok(store.list(None).await?))?;
    let mut items = Vec::new();
    for run in runs.into_iter().filter(|run| scope.includes(run) || forced.contains(&run.id)) {
        items.extend(agent_item(context, run, &forced)?);
    }
    let key = match (&scope, context.repository()) {
        (Scope::Repository(_), Some(repository)) => Some(cache_key(&repository)),
        (Scope::Repository(_), None) | (Scope::AllRepositories, _) => None,
    };
    let unread =
        |error: std::io::Error| Failure::general(format!("the caches cannot be read: {error}"));
    for place in build_caches(&context.state, key.as_deref()).map_err(unread)? {
        let in_use = is_build_cache_in_use(&place).map_err(unread)?;
        items.extend(cache_item(place, in_use));
    }
    let needed = needed_setups(context, &items);
    for place in kept_setups(&context.state, key.as_deref()).map_err(unread)? {
        let in_use = is_setup_in_use(&place).map_err(unread)?;
        items.push(setup_item(place, in_use, &needed));
    }
    Ok(items)
}

/// What becomes of an agent's files; `None` if it has none.
fn agent_item(
    context: &Context,
    run: Run,
    forced: &BTreeSet<AgentId>,
) -> Result<Option<Item>, Failure> {
    let worktree = run.worktree_path.as_ref().map(PathBuf::from);
    if !worktree.as_ref().is_none_or(|worktree| is_ours(context, worktree)) {
        return Ok(None);
    }
    let task = task_directory(context, &run)?;
    let places = private_places(context, &run).into_iter().chain(worktree).chain(task);
    let places: Vec<PathBuf> = places.filter(|place| place.exists()).collect();
    if places.is_empty() {
        return Ok(None);
    }
    // This does not lock the run, because a dry run writes nothing.
    let at_work =
        RunDirectory::new(&context.state, run.id.as_str()).is_supervised().unwrap_or(true);
    let (remove, why) = judge(run.state, at_work, forced.contains(&run.id));
    let bytes = places.iter().map(|place| size(place)).sum();
    let what = format!("agent {}", run.name);
    Ok(Some(Item { what, bytes, remove, why, target: Target::Agent(Box::new(run)) }))
}

/// Whether Bailiwick created the worktree: one that another tool recorded is not removed.
fn is_ours(context: &Context, worktree: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(worktree).starts_with(real(&context.state.join("worktrees")))
}

/// Whether an agent's files are removed, and why.
fn judge(state: RunState, at_work: bool, forced: bool) -> (bool, &'static str) {
    if at_work {
        return (false, "working");
    }
    match state {
        RunState::Merged => (true, "landed"),
        RunState::RolledBack => (true, "rolled back"),
        RunState::Rejected => (true, "rejected"),
        _ if forced => (true, "forced: its work has not landed"),
        RunState::Ready => (false, "never started (bailiwick rm removes it)"),
        RunState::HalfSpawned => (false, "its spawn was interrupted"),
        RunState::Running | RunState::Done | RunState::Failed => {
            (false, "its work has neither landed nor been rejected")
        }
    }
}

fn cache_item(place: PathBuf, in_use: bool) -> Option<Item> {
    let bytes = size(&place);
    let mut entries = std::fs::read_dir(&place).ok()?.flatten();
    let is_empty = entries.all(|entry| entry.file_name() == "lock");
    let why = if in_use { "checks are running in it" } else { "build cache" };
    let what = format!("cache {}", place.display());
    let target = Target::Cache(place);
    (!is_empty).then_some(Item { what, bytes, remove: !in_use, why, target })
}

/// The setups of agents that are kept.
fn needed_setups(context: &Context, items: &[Item]) -> BTreeSet<PathBuf> {
    let setup = |item: &Item| match &item.target {
        Target::Agent(run) if !item.remove => {
            let directory = RunDirectory::new(&context.state, run.id.as_str());
            std::fs::read_to_string(directory.path().join(SETUP_NOTE)).ok().map(PathBuf::from)
        }
        Target::Agent(_) | Target::Cache(_) | Target::Setup(_) => None,
    };
    items.iter().filter_map(setup).collect()
}

fn setup_item(place: PathBuf, in_use: bool, needed: &BTreeSet<PathBuf>) -> Item {
    let (remove, why) = match (in_use, needed.contains(&place)) {
        (true, _) => (false, "in use"),
        (false, true) => (false, "an open agent needs it"),
        (false, false) => (true, "installed by a setup"),
    };
    let what = format!("setup {}", place.display());
    Item { what, bytes: size(&place), remove, why, target: Target::Setup(place) }
}

/// Removes something that the plan removes.
pub fn remove(context: &Context, item: &Item) -> Result<(), Failure> {
    match &item.target {
        Target::Agent(run) => {
            // It may have been started since the plan was made.
            let Some(_lock) = lock_run(context, run)? else {
                context.notices.note(format_args!("{} is in use, and was kept", item.what));
                return Ok(());
            };
            remove_files(context, run).map(drop)
        }
        Target::Cache(place) => {
            remove_build_cache(place).map(drop).map_err(|error| unremoved(place, &error))
        }
        Target::Setup(place) => {
            remove_setup(place).map(drop).map_err(|error| unremoved(place, &error))
        }
    }
}

fn unremoved(place: &Path, error: &std::io::Error) -> Failure {
    Failure::general(format!("{} cannot be removed: {error}", place.display()))
}

/// What a file or directory takes on the disk; links are not followed.
fn size(place: &Path) -> u64 {
    let Ok(found) = std::fs::symlink_metadata(place) else { return 0 };
    let own = found.blocks().saturating_mul(512);
    if !found.is_dir() {
        return own;
    }
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    entries.fold(own, |sum, entry| sum.saturating_add(size(&entry.path())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finished_or_forced_agents_are_removed_but_not_running() {
        for state in [RunState::Merged, RunState::RolledBack, RunState::Rejected] {
            assert!(judge(state, false, false).0, "{state}");
            assert!(!judge(state, true, true).0, "{state}");
        }
        let unfinished = [
            RunState::HalfSpawned,
            RunState::Ready,
            RunState::Running,
            RunState::Done,
            RunState::Failed,
        ];
        for state in unfinished {
            assert!(!judge(state, false, false).0, "{state}");
            assert!(judge(state, false, true).0, "{state}");
            assert!(!judge(state, true, true).0, "{state}");
        }
    }

    #[test]
    fn only_unused_and_unneeded_setups_are_removed() {
        let path = PathBuf::from("/nowhere/setup/1");
        let needed = BTreeSet::from([path.clone()]);
        for (in_use, needed, removed) in [
            (false, &BTreeSet::new(), true),
            (true, &BTreeSet::new(), false),
            (false, &needed, false),
            (true, &needed, false),
        ] {
            let item = setup_item(path.clone(), in_use, needed);
            assert_eq!(item.remove, removed, "{}", item.why);
        }
    }
}
