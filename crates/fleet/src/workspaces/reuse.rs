//! Decides whether a run reuses the workspace of an earlier run of its work item.

use bailiwick_resources::{
    AgentDispatchRun, AgentWorkspace, Object, RebaseState, TrustTier, WorkspaceState,
};
use thiserror::Error;

use super::work_items;

/// A workspace, and whether a run in it has not ended.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub workspace: Object<AgentWorkspace>,
    pub in_use: bool,
}

/// Why a run gets a new workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotReusable {
    #[error("no earlier run of this work item has left a workspace")]
    Unknown,
    #[error("untrusted work shares nothing")]
    Untrusted,
    #[error("the workspace of this work item has another trust tier")]
    OtherTrustTier,
    #[error("the workspace of this work item was made by another policy")]
    OtherPolicy,
    #[error("the workspace of this work item has another target branch")]
    OtherTarget,
    #[error("another run uses the workspace of this work item")]
    InUse,
    #[error("the workspace of this work item is pinned")]
    Pinned,
    #[error("the files of the workspace of this work item are not there")]
    FilesMissing,
    #[error("the workspace of this work item has conflicts")]
    Conflicts,
}

/// The requirements for a reused workspace.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub run: &'a AgentDispatchRun,
    /// The lower one of the run's and the repository's.
    pub trust_tier: TrustTier,
    /// The name of the AgentWorkspacePolicy.
    pub policy: &'a str,
    pub target_branch: &'a str,
}

impl Wanted<'_> {
    /// Whether a workspace was created by a run of the same work item.
    pub fn is_about(&self, workspace: &AgentWorkspace) -> bool {
        let items = work_items(self.run);
        workspace.run.is_some()
            && workspace.repository == self.run.repository
            && workspace.work_item.as_ref().is_some_and(|item| items.contains(item))
    }

    /// The run of the ledger whose files are reused: that of the workspace that was used last.
    pub fn choose(&self, mut candidates: Vec<Candidate>) -> Result<String, NotReusable> {
        if self.trust_tier == TrustTier::Untrusted {
            return Err(NotReusable::Untrusted);
        }
        candidates.retain(|one| self.is_about(&one.workspace.spec));
        candidates.sort_by_key(|one| std::cmp::Reverse(one.workspace.status.last_used_at));
        let mut last = None;
        for candidate in &candidates {
            match self.check(candidate) {
                Ok(agent) => return Ok(agent),
                Err(why) => last = last.or(Some(why)),
            }
        }
        Err(last.unwrap_or(NotReusable::Unknown))
    }

    fn check(&self, candidate: &Candidate) -> Result<String, NotReusable> {
        let Candidate { workspace, in_use } = candidate;
        let (spec, status) = (&workspace.spec, &workspace.status);
        let Some(agent) = &spec.run else { return Err(NotReusable::Unknown) };
        let conflicts = status.rebase.as_ref().map(|rebase| rebase.state)
            == Some(RebaseState::RebaseConflicts)
            || !status.git.conflicting_files.is_empty();
        let refused = [
            (spec.trust_tier != self.trust_tier, NotReusable::OtherTrustTier),
            (*in_use, NotReusable::InUse),
            (is_away(workspace), NotReusable::FilesMissing),
            (spec.policy.as_deref() != Some(self.policy), NotReusable::OtherPolicy),
            (spec.target_branch != self.target_branch, NotReusable::OtherTarget),
            (spec.pinned, NotReusable::Pinned),
            (conflicts, NotReusable::Conflicts),
        ];
        match refused.into_iter().find(|(applies, _)| *applies) {
            Some((_, why)) => Err(why),
            None => Ok(agent.clone()),
        }
    }
}

fn is_away(workspace: &Object<AgentWorkspace>) -> bool {
    workspace.status.git.missing
        || match workspace.status.state {
            // The state of one whose run has just ended is not updated yet.
            WorkspaceState::Active | WorkspaceState::Idle => false,
            WorkspaceState::Archived | WorkspaceState::Missing => true,
        }
}
