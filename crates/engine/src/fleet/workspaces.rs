//! The workspaces of this machine: where they are, and the git that works on them.

use std::path::{Path, PathBuf};

use bailiwick_fleet::ports::{
    RunWorktree, WorkspaceError, WorkspaceOperation, WorkspacePlace, WorkspaceReport,
};
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::AgentId;
use bailiwick_source_control::git::WorkspaceOperations;

use crate::context::Context;
use crate::failure::Failure;
use crate::reused_workspace;

/// The directory of all worktrees, of agents and of people.
fn root(context: &Context) -> PathBuf {
    let root = context.state.join("worktrees");
    // The path without links; before the directory exists, the path as it is.
    std::fs::canonicalize(&root).unwrap_or(root)
}

/// Where a workspace of this name is.
pub fn path(context: &Context, name: &str) -> Option<String> {
    root(context).join(name).to_str().map(str::to_owned)
}

/// Whether it has its files.
pub fn has_files(path: &str) -> bool {
    Path::new(path).join(".git").exists()
}

/// The worktree of a run that the ledger knows.
pub fn worktree(context: &Context, agent: &str) -> Result<Option<RunWorktree>, Failure> {
    let Ok(id) = AgentId::parse(agent) else { return Ok(None) };
    let run = context.with_store(async |store| Ok(store.find(&id).await?))?;
    let Some(run) = run.filter(|run| !run.half_spawned) else { return Ok(None) };
    let Some(path) = run.worktree_path.filter(|path| has_files(path)) else { return Ok(None) };
    // As it is called wherever workspaces are compared.
    let real = std::fs::canonicalize(&path).ok().and_then(|real| real.to_str().map(str::to_owned));
    let origin = reused_workspace::origin(&context.state, &id)?;
    Ok(Some(RunWorktree { path: real.unwrap_or(path), branch: run.branch, origin }))
}

/// Does something with the files of a workspace of the repository that this context is in. `target` is the tip of its
/// target branch on the forge.
pub fn work_on(
    context: &Context,
    place: &WorkspacePlace,
    target: Option<&str>,
    operation: &WorkspaceOperation,
) -> Result<WorkspaceReport, WorkspaceError> {
    let operations = WorkspaceOperations::new(&context.directory, &root(context), &context.state);
    let operations = operations.map_err(|error| WorkspaceError::Failed(error.to_string()))?;
    operations.perform(place, target, operation)
}
