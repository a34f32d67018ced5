//! Carries plans out, step by step, through the ports.

use thiserror::Error;

use crate::ports::{RunStore, StoreError, WorkspaceError, Workspaces};
use crate::spawn::{Refusal, Request, Step, plan};

/// Why a spawn failed.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// It may not begin.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The ledger did not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The workspace could not be created.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// Spawns an agent, or continues an interrupted spawn; `tell` receives each step before it is performed. The caller
/// holds a lock on the ID.
pub async fn spawn(
    request: &Request,
    store: &impl RunStore,
    workspaces: &impl Workspaces,
    mut tell: impl FnMut(&Step),
) -> Result<(), SpawnError> {
    let recorded = store.find(&request.id).await?;
    let observed = workspaces.observe(&request.id)?;
    for step in plan(request, recorded.as_ref(), &observed)? {
        tell(&step);
        match step {
            Step::RecordRun => store.record(&request.run, Some(&request.files.task)).await?,
            Step::WriteTask => workspaces.write_task(&request.id, &request.files)?,
            Step::AddWorktree => workspaces.add_worktree(&request.id, &request.base)?,
            Step::MakeReady => workspaces.make_ready(&request.id, &request.preparation)?,
            Step::FinishSpawn => store.finish_spawn(&request.id).await?,
        }
    }
    Ok(())
}
