//! Workspaces: which verb may be used when, what state they are in, and how far they are on their way
//! to their target. What git has to do is done elsewhere.
//!
//! ```text
//!            provision, link                     archive
//!   (none) ─────────────────▶ idle ◀──▶ active   ───────▶ archived
//!                              ▲  └── files gone ──▶ missing   │
//!                              └────────── recover ────┴───────┘
//! ```

use bailiwick_resources::{
    AgentWorkspace, AgentWorkspacePolicy, AgentWorkspaceStatus, GitStatus, Moment, RebaseState,
    RebaseSurface, WorkspaceState,
};
use thiserror::Error;

mod names;
mod reuse;
mod verb;

pub use names::{made_for, session_link, work_items, workspace_link, workspace_name};
pub use reuse::{Candidate, NotReusable, Wanted};
pub use verb::Verb;

/// Why a verb is not for this workspace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{verb} is refused: {reason}; {instead}")]
pub struct Refusal {
    pub verb: &'static str,
    /// Why.
    pub reason: String,
    /// What to do instead.
    pub instead: String,
}

/// Whether a verb is for a workspace in this state.
pub fn permit(
    verb: Verb,
    workspace: &AgentWorkspace,
    status: &AgentWorkspaceStatus,
) -> Result<(), Refusal> {
    let refuse = |reason: &str, instead: &str| {
        Err(Refusal { verb: verb.as_str(), reason: reason.to_owned(), instead: instead.to_owned() })
    };
    let rebasing = status.rebase.as_ref().map(|rebase| rebase.state);
    let conflicts = rebasing == Some(RebaseState::RebaseConflicts);
    let there = match status.state {
        WorkspaceState::Active | WorkspaceState::Idle => true,
        WorkspaceState::Archived | WorkspaceState::Missing => false,
    };
    match verb {
        Verb::Pin | Verb::Unpin | Verb::NotesSave | Verb::Provision | Verb::LinkExisting => Ok(()),
        Verb::Recover if there => refuse("its files are there", "use it as it is"),
        Verb::Recover => Ok(()),
        _ if status.state == WorkspaceState::Active => {
            refuse("a run uses it", "wait for the run, or cancel it")
        }
        // Only the record goes.
        Verb::Unlink => Ok(()),
        // A record whose files are gone is all that is left of it.
        Verb::Cleanup if status.state == WorkspaceState::Missing => {
            refuse("its files are missing for an unknown reason", "recover it first")
        }
        Verb::Archive | Verb::Cleanup if workspace.pinned => {
            refuse("it is pinned", "unpin it first")
        }
        Verb::Archive if status.state == WorkspaceState::Archived => Ok(()),
        Verb::Cleanup if status.state == WorkspaceState::Archived => Ok(()),
        _ if !there => refuse("its files are not there", "recover it first"),
        Verb::Archive | Verb::Cleanup | Verb::RebaseStart if conflicts => {
            refuse("a rebase has conflicts", "mark it resolved or abort it first")
        }
        Verb::Cleanup if status.git.dirty => {
            refuse("it has changes that are not committed", "commit them, or archive it")
        }
        Verb::Archive | Verb::Cleanup | Verb::RebaseStart => Ok(()),
        Verb::RebaseAutoResolve
        | Verb::RebaseOpenInEditor
        | Verb::RebaseMarkResolved
        | Verb::RebaseAbort
            if !conflicts =>
        {
            refuse("no rebase has conflicts", "start one first")
        }
        Verb::RebaseAutoResolve
        | Verb::RebaseOpenInEditor
        | Verb::RebaseMarkResolved
        | Verb::RebaseAbort => Ok(()),
    }
}

/// The state of a workspace, from what is really there.
pub fn state(archived: bool, git: &GitStatus, at_work: bool) -> WorkspaceState {
    match (git.missing, archived, at_work) {
        (true, true, _) => WorkspaceState::Archived,
        (true, false, _) => WorkspaceState::Missing,
        (false, _, true) => WorkspaceState::Active,
        (false, _, false) => WorkspaceState::Idle,
    }
}

/// How far a workspace is on its way to its target. `attempts` is how often a rebase was begun,
/// `resolved` the files whose conflicts were settled in the one that is under way.
pub fn rebase_surface(
    target_branch: &str,
    git: &GitStatus,
    rebasing: bool,
    verified: bool,
    attempts: u32,
    resolved: Vec<String>,
) -> RebaseSurface {
    let state = if rebasing || !git.conflicting_files.is_empty() {
        RebaseState::RebaseConflicts
    } else if git.behind > 0 {
        RebaseState::RebaseNeeded
    } else if verified && !git.dirty {
        RebaseState::ReadyForMerge
    } else {
        RebaseState::ReadyForReview
    };
    RebaseSurface {
        state,
        target_branch: target_branch.to_owned(),
        attempt_count: attempts,
        unresolved_files: git.conflicting_files.clone(),
        resolved_files: if rebasing { resolved } else { Vec::new() },
    }
}

/// Whether the retention of a workspace has expired. One that is in use, pinned, dirty or of unknown age stays.
pub fn is_due(
    policy: &AgentWorkspacePolicy,
    workspace: &AgentWorkspace,
    status: &AgentWorkspaceStatus,
    now: Moment,
) -> bool {
    let last = status.last_used_at;
    permit(Verb::Archive, workspace, status).is_ok()
        && status.state == WorkspaceState::Idle
        && !status.git.dirty
        && last
            .is_some_and(|last| now >= last.plus_millis(policy.retention_policy.keep_for.millis()))
}
