//! Why a write would be refused or useless on the forge, determined before a person is asked.

use thiserror::Error;

use super::policy::{Denial, DenialRule};
use crate::ports::{PullRequestState, Rights, WriteBack};

/// The facts about the target of a write.
#[derive(Debug, Clone, Copy)]
pub struct TargetFacts<'a> {
    /// The pull request that the run is about.
    pub pull_request: Option<&'a PullRequestState>,
    /// Whether the credential may push to the branch of the write.
    pub push: Rights,
}

/// Why a forge would refuse a write.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Obstacle {
    #[error("the pull request {0} is closed")]
    PullRequestClosed(u64),
    #[error("the branch {0} is protected, or closed to the account of the token in another way")]
    BranchProtected(String),
}

impl Obstacle {
    /// What a person can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::PullRequestClosed(_) => "reopen it and retry the run, or start a new run",
            Self::BranchProtected(_) => {
                "allow the account to push in the protection of the branch, and retry the run"
            }
        }
    }

    /// The denial of the write.
    pub fn denial(&self) -> Denial {
        Denial {
            rule: DenialRule::Forge,
            reason: self.to_string(),
            instead: self.remedy().to_owned(),
        }
    }

    /// The obstacle to a write.
    pub fn of(write: &WriteBack, facts: &TargetFacts<'_>) -> Option<Self> {
        let closed = || {
            let pull = facts.pull_request.filter(|pull| !pull.open)?;
            Some(Self::PullRequestClosed(pull.number))
        };
        match write {
            WriteBack::Review(_) => closed(),
            // The rules of a forge protect the names of branches that do not exist yet, too.
            WriteBack::Push { branch, .. } => closed().or_else(|| {
                let protected = facts.push == Rights::Read;
                protected.then(|| Self::BranchProtected(branch.clone()))
            }),
            // A forge accepts comments on closed issues.
            WriteBack::OpenIssue { .. }
            | WriteBack::Comment { .. }
            | WriteBack::OpenPullRequest { .. }
            | WriteBack::CheckStatus { .. }
            | WriteBack::Rerun { .. }
            | WriteBack::ReleaseNote { .. }
            | WriteBack::DeploymentApproval { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(open: bool) -> PullRequestState {
        PullRequestState {
            number: 5,
            title: String::new(),
            body: String::new(),
            open,
            head_branch: "topic".to_owned(),
            head_sha: String::new(),
            head_repository: None,
            base_branch: "main".to_owned(),
            files: Vec::new(),
        }
    }

    fn push(from: Option<&str>) -> WriteBack {
        let (branch, commit) = ("topic".to_owned(), "c".to_owned());
        WriteBack::Push { branch, commit, from: from.map(str::to_owned) }
    }

    #[test]
    fn closed_pull_request_and_protected_branch_stop_a_push() {
        let (open, closed) = (pull(true), pull(false));
        let obstacle = |write: &WriteBack, pull, push| {
            Obstacle::of(write, &TargetFacts { pull_request: pull, push })
        };
        assert_eq!(obstacle(&push(Some("b")), Some(&open), Rights::Write), None);
        assert_eq!(obstacle(&push(Some("b")), None, Rights::Unknown), None);
        let found = obstacle(&push(Some("b")), Some(&closed), Rights::Write);
        assert_eq!(found, Some(Obstacle::PullRequestClosed(5)));
        assert_eq!(obstacle(&push(None), Some(&closed), Rights::Write), found);
        let found = obstacle(&push(Some("b")), Some(&open), Rights::Read);
        assert_eq!(found, Some(Obstacle::BranchProtected("topic".to_owned())));
        // A rule can protect the name of a branch that does not exist yet.
        assert_eq!(obstacle(&push(None), Some(&open), Rights::Read), found);
        assert_eq!(obstacle(&push(None), Some(&open), Rights::Unknown), None);
        let comment = WriteBack::Comment { number: 5, pull_request: true, body: String::new() };
        assert_eq!(obstacle(&comment, Some(&closed), Rights::Read), None);
    }
}
