//! Reuses the workspace of an ended run for a later run of the same work item, and records the decision.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use bailiwick_fleet::ports::WorktreeOrigin;
use bailiwick_lifecycle::ports::{RunStore as _, Work as _};
use bailiwick_model::event::ExitReason;
use bailiwick_model::well_known::{is_rule, report_path};
use bailiwick_model::{AgentId, Run, RunStatus};
use bailiwick_policy::{PathPolicy, Policy};
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::git::{
    OperationError, WorkspaceHold, WorkspaceOperations, take_over_obstacle, untracked,
};
use bailiwick_source_control::{Repository, SpawnLock, WorktreeWorkspaces};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::context::Context;
use crate::failure::Failure;
use crate::verifying::{AgentWork, WorkOptions};
use crate::{agent_names, system};

const ORIGIN: &str = "workspace-origin.json";

/// Where the files of a new worktree come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum WorkspaceSource {
    /// The base commit.
    #[default]
    Base,
    /// The base commit, because the workspace of the work item cannot be reused; and why.
    NotReused(String),
    /// This ended run, if nothing prevents it.
    TakeOver(AgentId),
}

/// The decision, stored beside the run: a spawn that is repeated after a kill must decide the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum TakeOverDecision {
    NotReused(String),
    TakenOver(AgentId),
}

/// Why the workspace of an ended run cannot be reused.
#[derive(Debug, Error)]
enum Refusal {
    #[error("the ledger has no run `{0}`")]
    Unknown(AgentId),
    #[error("the files of `{0}` are missing")]
    FilesMissing(AgentId),
    #[error("`{0}` is still in use")]
    InUse(AgentId),
    #[error("`{0}` may have left its limits")]
    EnforcementLost(AgentId),
    #[error("the target has moved since `{0}`")]
    TargetMoved(AgentId),
    #[error("`{agent}` changed {path}, which `{capability}` forbids to this run")]
    Forbidden { agent: AgentId, path: String, capability: String },
    #[error("`{agent}` left {path} where git ignores it")]
    Hidden { agent: AgentId, path: String },
    #[error("the work of `{0}` was rejected")]
    Rejected(AgentId),
    #[error("of the workspace of `{agent}`: {why}")]
    Unfit { agent: AgentId, why: &'static str },
    #[error("{0}")]
    Failed(String),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.in_one_line())
    }
}

/// The new run.
#[derive(Clone, Copy)]
pub struct NewRun<'a> {
    pub id: &'a AgentId,
    pub base: &'a str,
    pub policy: &'a Policy,
}

/// A workspace that is reused, locked until this is dropped.
pub struct ReusedWorkspace {
    workspace: WorkspaceHold,
    _earlier: SpawnLock,
}

impl ReusedWorkspace {
    /// The directory of the earlier run.
    pub fn path(&self) -> &Path {
        &self.workspace.path
    }
}

/// Where the files of a run come from.
pub fn origin(state: &Path, id: &AgentId) -> Result<WorktreeOrigin, Failure> {
    Ok(match decided(state, id)? {
        None => WorktreeOrigin::New,
        Some(TakeOverDecision::NotReused(why)) => WorktreeOrigin::NotReused(why),
        Some(TakeOverDecision::TakenOver(earlier)) => {
            WorktreeOrigin::TakenOver(earlier.to_string())
        }
    })
}

/// The runs that had the workspace of a run before it, the last one first.
pub fn earlier_runs(state: &Path, id: &AgentId) -> Result<Vec<AgentId>, Failure> {
    let mut all = Vec::new();
    let mut run = id.clone();
    while let Some(TakeOverDecision::TakenOver(earlier)) = decided(state, &run)? {
        if all.contains(&earlier) {
            break;
        }
        all.push(earlier.clone());
        run = earlier;
    }
    Ok(all)
}

/// The workspace that a new run reuses, if any. The decision is recorded.
pub fn reuse_workspace(
    context: &Context,
    repository: &Repository,
    new: NewRun<'_>,
    source: &WorkspaceSource,
) -> Result<Option<ReusedWorkspace>, Failure> {
    let lock = |earlier: &AgentId| locked(context, repository, earlier);
    match decided(&context.state, new.id)? {
        Some(TakeOverDecision::NotReused(_)) => return Ok(None),
        Some(TakeOverDecision::TakenOver(earlier)) => {
            // The spawn was interrupted after this decision: it is completed in the same way.
            let again = lock(&earlier).map_err(|why| Failure::general(why.to_string()))?;
            return remove_report(again.path(), &earlier).map(|()| Some(again));
        }
        None => {}
    }
    let earlier = match source {
        WorkspaceSource::Base => return Ok(None),
        WorkspaceSource::NotReused(why) => {
            decide(&context.state, new.id, &TakeOverDecision::NotReused(why.clone()))?;
            return Ok(None);
        }
        WorkspaceSource::TakeOver(earlier) => earlier,
    };
    let examined = lock(earlier).and_then(|reused| {
        examine(context, repository, &reused, earlier, new)?;
        Ok(reused)
    });
    match examined {
        Ok(reused) => {
            decide(&context.state, new.id, &TakeOverDecision::TakenOver(earlier.clone()))?;
            remove_report(reused.path(), earlier)?;
            Ok(Some(reused))
        }
        Err(why) => {
            decide(&context.state, new.id, &TakeOverDecision::NotReused(why.to_string()))?;
            Ok(None)
        }
    }
}

/// Locks the earlier run and its workspace, so that no command and no person changes them.
fn locked(
    context: &Context,
    repository: &Repository,
    earlier: &AgentId,
) -> Result<ReusedWorkspace, Refusal> {
    let in_use = || Refusal::InUse(earlier.clone());
    let failed = |error: &dyn std::fmt::Display| Refusal::Failed(error.to_string());
    let directory = RunDirectory::new(&context.state, earlier.as_str());
    if directory.is_supervised().map_err(|error| failed(&error))? {
        return Err(in_use());
    }
    let workspaces = WorktreeWorkspaces::new(repository.clone(), &context.state);
    let lock = workspaces.lock(earlier).map_err(|_| in_use())?;
    let root = context.state.join("worktrees");
    let operations = WorkspaceOperations::new(repository.root(), &root, &context.state);
    let operations = operations.map_err(|error| failed(&error))?;
    let workspace = operations.hold(earlier.as_str()).map_err(|error| match error {
        OperationError::Refused { .. } => in_use(),
        OperationError::Git(_) | OperationError::File { .. } => failed(&error),
    })?;
    Ok(ReusedWorkspace { workspace, _earlier: lock })
}

/// Whether the files of an ended run fit a new one: its base, its limits on paths, its trust.
fn examine(
    context: &Context,
    repository: &Repository,
    reused: &ReusedWorkspace,
    earlier: &AgentId,
    new: NewRun<'_>,
) -> Result<(), Refusal> {
    let agent = || earlier.clone();
    let (run, attempts) = context.with_store(async |store| {
        Ok((store.find(earlier).await?, store.attempts(Some(earlier)).await?))
    })?;
    let run = run.filter(|run| !run.half_spawned).ok_or_else(|| Refusal::Unknown(agent()))?;
    agent_names::require_here(&run, repository)?;
    if !is_worktree_of(&run, reused.path()) {
        return Err(Refusal::FilesMissing(agent()));
    }
    match run.status {
        RunStatus::Rejected => return Err(Refusal::Rejected(agent())),
        RunStatus::Running | RunStatus::Done | RunStatus::Failed | RunStatus::Merged => {}
    }
    match attempts.last().and_then(|last| last.ending) {
        Some(ExitReason::EnforcementLost | ExitReason::Denied) => {
            return Err(Refusal::EnforcementLost(agent()));
        }
        Some(
            ExitReason::Completed
            | ExitReason::Stopped
            | ExitReason::BudgetExhausted
            | ExitReason::Failed
            | ExitReason::TimedOut
            | ExitReason::CutOff,
        )
        | None => {}
    }
    let subject = AgentWork::of_agent(context, earlier, &WorkOptions::default())?;
    let work = subject.git_work()?;
    if let Some(why) = take_over_obstacle(reused.path(), work.git_dir()) {
        return Err(Refusal::Unfit { agent: agent(), why });
    }
    let failed = |error: &dyn std::fmt::Display| Refusal::Failed(error.to_string());
    let base = work.base().map_err(|error| failed(&error))?;
    let snapshot = work.snapshot(&base).map_err(|error| failed(&error))?;
    let tree = repository.git().line(["rev-parse", "--verify", &format!("{}^{{tree}}", new.base)]);
    let tree = tree.map_err(|error| failed(&error))?;
    // Work that was pushed since is the new base: then nothing is left but ignored files.
    if run.base.as_deref() != Some(new.base) && *snapshot.tree != *tree {
        return Err(Refusal::TargetMoved(agent()));
    }
    let changes = work.changes(&tree, &snapshot.tree).map_err(|error| failed(&error))?;
    let limits = PathPolicy::of(new.policy);
    let report = report_path(earlier.as_str());
    let paths = changes
        .iter()
        .flat_map(|change| [Some(&change.path), change.from.as_ref().filter(|_| !change.copied)]);
    for path in paths.flatten().filter(|path| **path != report) {
        if let Some(capability) = limits.forbids(path) {
            let (path, capability) = (path.clone(), capability.to_owned());
            return Err(Refusal::Forbidden { agent: agent(), path, capability });
        }
    }
    // Ignored files are in no snapshot, but the next agent would read them as instructions.
    let changed: BTreeSet<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    let files = untracked(reused.path(), Path::new("/dev/null"));
    for file in files.map_err(|error| failed(&error))? {
        let path = file.to_string_lossy();
        if is_rule(&path) && !changed.contains(&*path) && *path != *report {
            return Err(Refusal::Hidden { agent: agent(), path: path.into_owned() });
        }
    }
    Ok(())
}

/// Whether the recorded worktree of a run is this directory, and has its files.
fn is_worktree_of(run: &Run, path: &Path) -> bool {
    let recorded = run.worktree_path.as_ref().and_then(|path| std::fs::canonicalize(path).ok());
    recorded.as_deref() == Some(path) && path.join(".git").is_file()
}

/// Removes the report of an earlier run, which is not part of the new run's work. Links are not followed.
fn remove_report(worktree: &Path, earlier: &AgentId) -> Result<(), Failure> {
    let report = PathBuf::from(report_path(earlier.as_str()));
    let mut directories = Vec::new();
    let mut directory = worktree.to_owned();
    for part in report.parent().into_iter().flat_map(Path::components) {
        directory.push(part);
        match std::fs::symlink_metadata(&directory) {
            Ok(found) if found.is_dir() => directories.push(directory.clone()),
            Ok(_) | Err(_) => return Ok(()),
        }
    }
    match std::fs::remove_file(worktree.join(&report)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let what = format!("the report of {earlier} cannot be removed: {error}");
            return Err(Failure::general(what));
        }
    }
    for directory in directories.iter().rev() {
        // One with other files stays.
        if std::fs::remove_dir(directory).is_err() {
            break;
        }
    }
    Ok(())
}

fn file(state: &Path, id: &AgentId) -> PathBuf {
    RunDirectory::new(state, id.as_str()).path().join(ORIGIN)
}

fn decided(state: &Path, id: &AgentId) -> Result<Option<TakeOverDecision>, Failure> {
    system::read_json(&file(state, id))
}

fn decide(state: &Path, id: &AgentId, decided: &TakeOverDecision) -> Result<(), Failure> {
    let file = file(state, id);
    std::fs::create_dir_all(file.parent().unwrap_or(state)).map_err(|error| {
        Failure::general(format!("{} cannot be written: {error}", file.display()))
    })?;
    system::write_json(&file, decided)
}

#[cfg(test)]
mod tests;
