//! The current state of a write-back's target: read before an approval is requested, when a person approves, and
//! before the write.

use bailiwick_resources::{AgentApproval, AgentDispatchRun};

use crate::ports::{Forge, ForgeError, PullRequestState, Rights, WriteBack};
use crate::write_back::{ABSENT, Obstacle, TargetFacts};

/// The current state of a write-back's target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObservedTarget {
    /// Its commit, or `absent`; nothing if it has none, or if it is not bound to one.
    pub(super) state: Option<String>,
    /// Why the forge would refuse the write.
    pub(super) obstacle: Option<Obstacle>,
}

impl ObservedTarget {
    /// The commit that a branch with earlier work has moved to; nothing if it is where it was, already has the
    /// change, or is gone.
    pub(super) fn moved_to(&self, write: &WriteBack) -> Option<&str> {
        let WriteBack::Push { commit, from: Some(from), .. } = write else { return None };
        let now = self.state.as_deref()?;
        (now != from && now != commit && now != ABSENT).then_some(now)
    }

    /// Its state, unless an earlier try has written the change already.
    pub(super) fn state_before(&self, write: &WriteBack) -> Option<&str> {
        let is_there =
            |now: &&str| matches!(write, WriteBack::Push { commit, .. } if commit == now);
        self.state.as_deref().filter(|now| !is_there(now))
    }
}

/// Reads the target of a write that needs an approval.
pub(super) async fn observe_target(
    forge: &impl Forge,
    run: &AgentDispatchRun,
    approval: &AgentApproval,
    write: &WriteBack,
) -> Result<ObservedTarget, ForgeError> {
    let pull_request = match write {
        WriteBack::Push { .. } => known_pull_request(forge, run.source_refs.pull_request).await?,
        WriteBack::Review(review) => known_pull_request(forge, Some(review.number)).await?,
        WriteBack::Comment { number, pull_request: true, .. }
            if approval.target_state.is_some() =>
        {
            Some(forge.pull_request(*number).await?)
        }
        WriteBack::OpenIssue { .. }
        | WriteBack::Comment { .. }
        | WriteBack::OpenPullRequest { .. }
        | WriteBack::CheckStatus { .. }
        | WriteBack::Rerun { .. }
        | WriteBack::ReleaseNote { .. }
        | WriteBack::DeploymentApproval { .. } => None,
    };
    let state = match write {
        WriteBack::Push { branch, .. } => {
            Some(forge.branch(branch).await?.unwrap_or_else(|| ABSENT.to_owned()))
        }
        WriteBack::OpenIssue { .. }
        | WriteBack::Comment { .. }
        | WriteBack::Review(_)
        | WriteBack::OpenPullRequest { .. }
        | WriteBack::CheckStatus { .. }
        | WriteBack::Rerun { .. }
        | WriteBack::ReleaseNote { .. }
        | WriteBack::DeploymentApproval { .. } => {
            pull_request.as_ref().map(|pull| pull.head_sha.clone())
        }
    };
    let push = push_rights(forge, write).await?;
    let facts = TargetFacts { pull_request: pull_request.as_ref(), push };
    Ok(ObservedTarget { state, obstacle: Obstacle::of(write, &facts) })
}

/// Whether the credential may push to the branch of a write.
pub(super) async fn push_rights(
    forge: &impl Forge,
    write: &WriteBack,
) -> Result<Rights, ForgeError> {
    match write {
        WriteBack::Push { branch, .. } => forge.push_rights(branch).await,
        WriteBack::OpenIssue { .. }
        | WriteBack::Comment { .. }
        | WriteBack::Review(_)
        | WriteBack::OpenPullRequest { .. }
        | WriteBack::CheckStatus { .. }
        | WriteBack::Rerun { .. }
        | WriteBack::ReleaseNote { .. }
        | WriteBack::DeploymentApproval { .. } => Ok(Rights::Unknown),
    }
}

/// A pull request; none if the forge does not know it.
async fn known_pull_request(
    forge: &impl Forge,
    number: Option<u64>,
) -> Result<Option<PullRequestState>, ForgeError> {
    let Some(number) = number else { return Ok(None) };
    match forge.pull_request(number).await {
        Ok(state) => Ok(Some(state)),
        Err(error @ (ForgeError::Unavailable(_) | ForgeError::Account(_))) => Err(error),
        // The write itself will report the problem.
        Err(ForgeError::Refused(_) | ForgeError::Moved { .. } | ForgeError::Unsupported(_)) => {
            Ok(None)
        }
    }
}
