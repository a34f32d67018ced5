//! Forges. Writes are values, so that they can be shown, digested and approved before they are sent.

use std::future::Future;

use bailiwick_resources::{ForgeFacts, Moment, ReviewComment, ReviewDecision, WriteBackTarget};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::admission::TeamMembers;

/// A write to a forge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "action")]
pub enum WriteBack {
    /// A new issue.
    OpenIssue {
        /// The run that opens it. Each run opens at most one.
        run: String,
        /// The uid of that run, which nobody on the forge can guess, so nobody can forge the marker of the issue.
        #[serde(default)]
        run_uid: String,
        title: String,
        /// Its text.
        body: String,
    },
    /// A comment on an issue or a pull request.
    Comment {
        number: u64,
        /// Whether it is a pull request.
        pull_request: bool,
        /// Its text.
        body: String,
    },
    /// A review of a pull request.
    Review(Review),
    /// A push of a commit to a branch, from what it was.
    Push {
        branch: String,
        commit: String,
        /// The commit that the branch must be at; nothing if the branch must not exist.
        from: Option<String>,
    },
    /// A new pull request.
    OpenPullRequest {
        /// Its branch.
        head: String,
        /// The branch to merge into.
        base: String,
        title: String,
        /// Its text.
        body: String,
    },
    /// A status of a commit.
    CheckStatus {
        /// The commit.
        sha: String,
        /// The name of the status.
        context: String,
        state: CheckState,
        /// A line of text.
        description: String,
        /// A link to details.
        url: Option<String>,
    },
    /// Reruns a check or a workflow.
    Rerun {
        /// The id of the job, or of the run of the workflow.
        run: String,
        /// Whether the whole workflow is meant.
        whole_workflow: bool,
        /// The attempt to rerun: a forge that is past it has done so already.
        attempt: u64,
    },
    ReleaseNote {
        tag: String,
        title: String,
        /// Its text.
        body: String,
    },
    /// Approves a deployment.
    DeploymentApproval {
        /// The waiting workflow run.
        run: String,
        environment: String,
        comment: String,
    },
}

/// The state of a commit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckState {
    /// Running.
    Pending,
    /// Good.
    Success,
    /// Failed.
    Failure,
    /// Internal error.
    Error,
}

/// A review of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Review {
    pub number: u64,
    /// The reviewed commit.
    pub sha: String,
    pub decision: ReviewDecision,
    /// In words.
    pub body: String,
    /// With places.
    pub comments: Vec<ReviewComment>,
}

impl WriteBack {
    /// The target by which policies name it.
    pub fn target(&self) -> WriteBackTarget {
        match self {
            Self::OpenIssue { .. } => WriteBackTarget::OpenIssue,
            Self::Comment { pull_request: true, .. } => WriteBackTarget::PullRequestComment,
            Self::Comment { pull_request: false, .. } => WriteBackTarget::IssueComment,
            Self::Review(_) => WriteBackTarget::PullRequestReview,
            Self::Push { from: Some(_), .. } => WriteBackTarget::BranchPush,
            Self::Push { from: None, .. } => WriteBackTarget::CreateBranch,
            Self::OpenPullRequest { .. } => WriteBackTarget::OpenPullRequest,
            Self::CheckStatus { .. } => WriteBackTarget::CheckStatus,
            Self::Rerun { whole_workflow: false, .. } => WriteBackTarget::CheckRerun,
            Self::Rerun { whole_workflow: true, .. } => WriteBackTarget::WorkflowRerun,
            Self::ReleaseNote { .. } => WriteBackTarget::ReleaseNote,
            Self::DeploymentApproval { .. } => WriteBackTarget::DeploymentApproval,
        }
    }
}

/// A performed write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// The forge's id.
    pub id: String,
    /// The page for people.
    pub url: Option<String>,
    /// Whether an earlier try with the same key had written it.
    pub was_there: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestState {
    pub number: u64,
    pub title: String,
    /// Its text.
    pub body: String,
    /// Whether it is open.
    pub open: bool,
    pub head_branch: String,
    pub head_sha: String,
    /// The repository of the branch; nothing if it was deleted.
    pub head_repository: Option<String>,
    pub base_branch: String,
    /// The files it changes.
    pub files: Vec<String>,
}

/// A check on the forge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckRun {
    pub id: String,
    pub name: String,
    pub workflow: Option<String>,
    /// The commit.
    pub sha: String,
    pub branch: Option<String>,
    /// How it ended, if it has.
    pub conclusion: Option<String>,
    /// When it ended, by the clock of the forge.
    pub ended_at: Option<Moment>,
    /// The event, as a webhook would have brought it.
    pub payload: serde_json::Value,
}

/// Something that happened on a forge, learnt by asking instead of from a webhook.
#[derive(Debug, Clone, PartialEq)]
pub struct PolledEvent {
    /// The same for the same event.
    pub id: String,
    /// The kind of event, as webhooks name it.
    pub event: String,
    /// The payload that a webhook would have.
    pub payload: serde_json::Value,
    /// When it happened, by the clock of the forge.
    pub at: Moment,
}

/// Why a request to a forge failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ForgeError {
    /// Refused: a retry does not help.
    #[error("the forge refused: {0}")]
    Refused(String),
    /// The target has changed since it was approved.
    #[error("{target} has moved: it was {expected}, it is {found}")]
    Moved {
        /// The target.
        target: String,
        /// As it was.
        expected: String,
        /// Its current state.
        found: String,
    },
    /// The forge does not support it.
    #[error("this forge cannot {0}")]
    Unsupported(String),
    /// The token or the account does not suffice, or the repository is elsewhere: retry after a person has fixed it.
    #[error(transparent)]
    Account(#[from] AccountProblem),
    /// No answer: it may or may not have been done; retry with the same key.
    #[error("the forge did not answer: {0}")]
    Unavailable(String),
}

impl ForgeError {
    /// Whether the same request can succeed later, so that nothing that depends on it is rejected now.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Account(_) | Self::Unavailable(_) => true,
            Self::Refused(_) | Self::Moved { .. } | Self::Unsupported(_) => false,
        }
    }
}

/// What a person must fix before the forge responds.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AccountProblem {
    /// Status 401.
    #[error(
        "the forge does not accept the token: it is wrong, revoked or expired; store a new one in the secret of \
         spec.credentialRef"
    )]
    TokenRejected,
    /// Status 403 for a read.
    #[error(
        "the token must not read {what}: {answer}; give it the scope or the account the permission"
    )]
    RightMissing {
        /// The path that was requested.
        what: String,
        /// The forge's message.
        answer: String,
    },
    /// Status 404 for the repository itself.
    #[error(
        "the forge has no such repository, or the token's account must not see it; correct spec.fullName or give the \
         account access"
    )]
    RepositoryNotFound,
    /// A redirect.
    #[error("the repository has moved to {to}; correct spec.fullName and spec.apiUrl")]
    Renamed {
        /// The address that the forge names.
        to: String,
    },
}

/// The permission of an account on a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// At least write.
    Write,
    /// Read access, or none.
    Read,
    /// The forge does not report it.
    Unknown,
}

/// A change of the labels of an issue or a pull request, by its history on the forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelEntry {
    /// The id of the entry.
    pub id: u64,
    pub label_id: u64,
    /// The name of the label.
    pub label: String,
    /// The account that changed it.
    pub by: String,
    pub at: Moment,
    /// Whether it was added rather than removed.
    pub added: bool,
}

/// Where a commit of the repository is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitPlace {
    /// On this branch of the repository itself.
    Branch(String),
    /// At the head of this open pull request.
    PullRequest(u64),
    /// The forge does not report it.
    Unknown,
}

/// A client of one repository on a forge.
pub trait Forge: Send + Sync {
    /// Writes once for each key. A repeated write is recognised by the key, which comments, reviews and releases
    /// contain in a hidden place.
    fn write(
        &self,
        key: &str,
        what: &WriteBack,
    ) -> impl Future<Output = Result<Written, ForgeError>> + Send;

    /// The state of a pull request.
    fn pull_request(
        &self,
        number: u64,
    ) -> impl Future<Output = Result<PullRequestState, ForgeError>> + Send;

    /// The commit of a branch.
    fn branch(&self, name: &str)
    -> impl Future<Output = Result<Option<String>, ForgeError>> + Send;

    /// Whether the credential may push to a branch, including its protection; unknown if the forge does not report
    /// it.
    fn push_rights(
        &self,
        _branch: &str,
    ) -> impl Future<Output = Result<Rights, ForgeError>> + Send {
        std::future::ready(Ok(Rights::Unknown))
    }

    /// The kinds of rules for a branch that can refuse a push, where the forge does not report whether the credential
    /// is exempt from them.
    fn branch_rules(
        &self,
        _branch: &str,
    ) -> impl Future<Output = Result<Vec<String>, ForgeError>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

    /// The permission of an account; unknown if the forge does not report it.
    fn permission(&self, _actor: &str) -> impl Future<Output = Result<Rights, ForgeError>> + Send {
        std::future::ready(Ok(Rights::Unknown))
    }

    /// The members of a team of the organization that owns the repository.
    fn team_members(
        &self,
        _team: &str,
    ) -> impl Future<Output = Result<TeamMembers, ForgeError>> + Send {
        std::future::ready(Ok(TeamMembers::Unreadable("this forge has no teams".to_owned())))
    }

    /// The history of the labels of an issue or pull request, oldest first; none if the forge does not store one, or
    /// sends the label itself.
    fn label_history(
        &self,
        _number: u64,
    ) -> impl Future<Output = Result<Option<Vec<LabelEntry>>, ForgeError>> + Send {
        async { Ok(None) }
    }

    /// Where a commit is.
    fn place_of(
        &self,
        _sha: &str,
        _default_branch: &str,
    ) -> impl Future<Output = Result<CommitPlace, ForgeError>> + Send {
        async { Ok(CommitPlace::Unknown) }
    }

    /// Title and text of an issue.
    fn issue(
        &self,
        number: u64,
    ) -> impl Future<Output = Result<(String, String), ForgeError>> + Send;

    /// The end of a job's log.
    fn job_log(
        &self,
        job: &str,
        most_bytes: usize,
    ) -> impl Future<Output = Result<String, ForgeError>> + Send;

    /// The account of the credential; none if the forge does not report it.
    fn account(&self) -> impl Future<Output = Result<Option<String>, ForgeError>> + Send {
        async { Ok(None) }
    }

    /// The rights of the credential and the features of the forge; none if the forge does not report them.
    fn facts(&self) -> impl Future<Output = Result<Option<ForgeFacts>, ForgeError>> + Send {
        async { Ok(None) }
    }

    /// The labels of issues and pull requests; none if the forge does not report them.
    fn labels(&self) -> impl Future<Output = Result<Option<Vec<String>>, ForgeError>> + Send {
        async { Ok(None) }
    }

    /// Checks that ended after this cursor, oldest first, and the next cursor: a replacement for lost webhooks. A time,
    /// as RFC 3339, is a cursor as well.
    fn checks_since(
        &self,
        cursor: Option<&str>,
    ) -> impl Future<Output = Result<(Vec<CheckRun>, Option<String>), ForgeError>> + Send;

    /// Comments, labels, pushes, tags and statuses after this cursor, oldest first, and the next cursor. A cursor is a
    /// time, as RFC 3339. Nothing without a cursor but the next one.
    fn activity_since(
        &self,
        _cursor: Option<&str>,
    ) -> impl Future<Output = Result<(Vec<PolledEvent>, Option<String>), ForgeError>> + Send {
        async { Ok((Vec::new(), None)) }
    }

    /// The checks of a commit, ended or not.
    fn checks_at(
        &self,
        _sha: &str,
    ) -> impl Future<Output = Result<Vec<CheckRun>, ForgeError>> + Send {
        async { Ok(Vec::new()) }
    }
}
