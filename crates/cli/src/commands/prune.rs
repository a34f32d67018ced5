//! `bailiwick prune`: frees the disk space of agents that are finished, of build caches and of setups.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bailiwick_engine::agent_names::{self, Scope};
use bailiwick_engine::context::Context;
use bailiwick_engine::running::{enclose::SETUP_NOTE, recover};
use bailiwick_engine::verifying::cache_key;
use bailiwick_model::size::readable_size;
use bailiwick_model::{AgentId, Run, RunState};
use bailiwick_runner::checks::{build_caches, is_build_cache_in_use, remove_build_cache};
use bailiwick_runner::environment::{is_setup_in_use, kept_setups, remove_setup};
use bailiwick_runner::supervisor::RunDirectory;
use clap::Args;
use serde::Serialize;

use super::rm::{hold, private_places, remove_files, task_directory};
use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};
use crate::view::forget_typed;

/// Remove the worktrees of finished agents, build caches and installed setups
///
/// An agent is finished when its work has landed, was rolled back or was rejected. Branches, ledger
/// rows, events and verdicts stay. Running agents and the setups of unfinished ones are kept. The
/// next run of a task installs its setup again.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick prune --dry-run\n  bailiwick prune --yes\n  bailiwick \
                        prune --force fix-42 --yes"
)]
pub struct Prune {
    /// Show what would be removed and what would be kept, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove without asking
    #[arg(short, long)]
    yes: bool,
    /// Also remove the worktree of this agent, whose work has neither landed nor been rejected
    #[arg(long, value_name = "AGENT")]
    force: Vec<AgentId>,
    /// Prune all repositories; the default outside of a repository
    #[arg(long)]
    all_repos: bool,
    #[command(flatten)]
    format: FormatOption,
}

/// Something on the disk, and what becomes of it.
#[derive(Debug, Serialize)]
struct Item {
    what: String,
    bytes: u64,
    remove: bool,
    why: &'static str,
    #[serde(skip)]
    target: Target,
}

#[derive(Debug)]
enum Target {
    Agent(Box<Run>),
    Cache(PathBuf),
    Setup(PathBuf),
}

#[derive(Debug, Serialize)]
struct Pruned<'a> {
    dry_run: bool,
    items: &'a [Item],
    freed_bytes: u64,
}

impl Prune {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        recover::find(context)?;
        let items = self.plan(context)?;
        let bytes = items.iter().filter(|item| item.remove).map(|item| item.bytes).sum();
        let human = self.format.format == Format::Human;
        if human {
            show(&items);
        }
        let any = items.iter().any(|item| item.remove);
        if any && !self.dry_run {
            if !self.yes && !human {
                return Err(Failure::usage(
                    "nothing was removed: `-o json` needs --yes or --dry-run",
                ));
            }
            if !self.yes && !confirmed(bytes)? {
                output::note("nothing was removed");
                return Ok(());
            }
            items.iter().filter(|item| item.remove).try_for_each(|item| remove(context, item))?;
        }
        if !human {
            let freed_bytes = if self.dry_run { 0 } else { bytes };
            let pruned = Pruned { dry_run: self.dry_run, items: &items, freed_bytes };
            return output::json(&pruned);
        }
        match (any, self.dry_run) {
            (false, _) => output::line("nothing to remove"),
            (true, true) => output::line(format_args!("would free {}", readable_size(bytes))),
            (true, false) => output::line(format_args!("freed {}", readable_size(bytes))),
        }
        Ok(())
    }

    fn plan(&self, context: &Context) -> Result<Vec<Item>, Failure> {
        let scope = Scope::observe(context, self.all_repos)?;
        let mut forced = BTreeSet::new();
        for name in &self.force {
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
}

/// What becomes of an agent's files; nothing if it has none.
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
    // To look is not to hold: a dry run writes nothing.
    let at_work = RunDirectory::new(&context.state, run.id.as_str()).is_held().unwrap_or(true);
    let (remove, why) = judge(run.state, at_work, forced.contains(&run.id));
    let bytes = places.iter().map(|place| size(place)).sum();
    let what = format!("agent {}", run.name);
    Ok(Some(Item { what, bytes, remove, why, target: Target::Agent(Box::new(run)) }))
}

/// Whether we made a worktree: one that was recorded by other means is somebody else's.
fn is_ours(context: &Context, worktree: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(worktree).starts_with(real(&context.state.join("worktrees")))
}

/// Whether an agent's files are removed, and why.
fn judge(state: RunState, at_work: bool, forced: bool) -> (bool, &'static str) {
    if at_work {
        return (false, "at work");
    }
    match state {
        RunState::Merged => (true, "landed"),
        RunState::RolledBack => (true, "rolled back"),
        RunState::Rejected => (true, "rejected"),
        _ if forced => (true, "forced: its work has not landed"),
        RunState::Ready => (false, "never started (bailiwick rm removes it)"),
        RunState::HalfSpawned => (false, "its spawn was cut short"),
        RunState::Running | RunState::Done | RunState::Failed => {
            (false, "its work has neither landed nor been rejected")
        }
    }
}

fn cache_item(place: PathBuf, in_use: bool) -> Option<Item> {
    let bytes = size(&place);
    let mut left = std::fs::read_dir(&place).ok()?.flatten();
    let is_empty = left.all(|entry| entry.file_name() == "lock");
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

fn remove(context: &Context, item: &Item) -> Result<(), Failure> {
    match &item.target {
        Target::Agent(run) => {
            // Somebody may have started it since we looked.
            let Some(_lock) = hold(context, run)? else {
                output::note(format_args!("{} is at work, and was kept", item.what));
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

fn show(items: &[Item]) {
    if items.is_empty() {
        return;
    }
    let row = |item: &Item| {
        let action = if item.remove { "remove" } else { "keep" };
        vec![action.to_owned(), item.what.clone(), readable_size(item.bytes), item.why.to_owned()]
    };
    let rows: Vec<Vec<String>> = items.iter().map(row).collect();
    let columns = [
        Column::fixed("ACTION"),
        Column::folded("WHAT"),
        Column::number("SIZE"),
        Column::folded("WHY"),
    ];
    output::table(&columns, &rows);
}

/// Asks the person; an error where nobody can answer.
fn confirmed(bytes: u64) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage("nothing was removed: nobody can be asked here")
            .help("remove without asking: --yes; look first: --dry-run"));
    }
    forget_typed(&std::io::stdin());
    let _ = write!(anstream::stderr(), "free {}? [y/N] ", readable_size(bytes));
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
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
    fn only_finished_or_forced_agents_are_removed_and_none_at_work() {
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
    fn only_setups_that_nobody_uses_or_needs_are_removed() {
        let place = PathBuf::from("/nowhere/setup/1");
        let needed = BTreeSet::from([place.clone()]);
        for (in_use, needed, removed) in [
            (false, &BTreeSet::new(), true),
            (true, &BTreeSet::new(), false),
            (false, &needed, false),
            (true, &needed, false),
        ] {
            let item = setup_item(place.clone(), in_use, needed);
            assert_eq!(item.remove, removed, "{}", item.why);
        }
    }
}
