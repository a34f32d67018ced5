//! What the control plane asks of a forge. Requests are values, so that they can be shown, digested
//! and asked for before they are sent.

use std::future::Future;

use bailiwick_resources::{ReviewComment, ReviewDecision, WriteBackTarget};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Something to be written to a forge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "action")]
pub enum WriteBack {
    /// A comment on an issue or a pull request.
    Comment {
        /// Its number.
        number: u64,
        /// Whether it is a pull request.
        pull_request: bool,
        /// What it says.
        body: String,
    },
    /// A review of a pull request.
    Review(Review),
    /// A push of a commit to a branch, from what it was.
    Push {
        /// The branch.
        branch: String,
        /// The commit.
        commit: String,
        /// What the branch must be at: nothing if it must not be there.
        from: Option<String>,
    },
    /// A new pull request.
    OpenPullRequest {
        /// Its branch.
        head: String,
        /// Where it is to be merged.
        base: String,
        /// Its title.
        title: String,
        /// What it says.
        body: String,
    },
    /// A status of a commit.
    CheckStatus {
        /// The commit.
        sha: String,
        /// The name under which it is listed.
        context: String,
        /// How it stands.
        state: CheckState,
        /// A line for people.
        description: String,
        /// Where there is more.
        url: Option<String>,
    },
    /// A check or workflow is run again.
    Rerun {
        /// The id of the job, or of the run of the workflow.
        run: String,
        /// Whether the whole workflow is meant.
        whole_workflow: bool,
        /// The attempt that was looked at: a forge that is past it has done it already.
        attempt: u64,
    },
    /// Notes of a release.
    ReleaseNote {
        /// The tag.
        tag: String,
        /// Its title.
        title: String,
        /// What it says.
        body: String,
    },
    /// A yes to a deployment.
    DeploymentApproval {
        /// The run that waits.
        run: String,
        /// The environment.
        environment: String,
        /// What is said.
        comment: String,
    },
}

/// How a commit's status stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckState {
    /// At work.
    Pending,
    /// Good.
    Success,
    /// Not good.
    Failure,
    /// It did not work.
    Error,
}

/// A review of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Review {
    /// Its number.
    pub number: u64,
    /// The commit that was looked at.
    pub sha: String,
    /// What it says.
    pub decision: ReviewDecision,
    /// In words.
    pub body: String,
    /// With places.
    pub comments: Vec<ReviewComment>,
}

impl WriteBack {
    /// What it is called in policies.
    pub fn target(&self) -> WriteBackTarget {
        match self {
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

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// The forge's id of it.
    pub id: String,
    /// Where people see it.
    pub url: Option<String>,
    /// Whether it was there already, from an earlier try with the same key.
    pub was_there: bool,
}

/// How a pull request stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestState {
    /// Its number.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// What it says.
    pub body: String,
    /// Whether it is open.
    pub open: bool,
    /// The branch it comes from.
    pub head_branch: String,
    /// The commit it is at.
    pub head_sha: String,
    /// The repository it comes from; nothing if that is gone.
    pub head_repository: Option<String>,
    /// The branch it goes to.
    pub base_branch: String,
    /// The files it changes.
    pub files: Vec<String>,
}

/// A check as the forge lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckRun {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The workflow.
    pub workflow: Option<String>,
    /// The commit.
    pub sha: String,
    /// The branch.
    pub branch: Option<String>,
    /// Whether it is done, and how it ended.
    pub conclusion: Option<String>,
    /// The event, as a webhook would have brought it.
    pub payload: serde_json::Value,
}

/// Why a forge did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ForgeError {
    /// It said no: trying again does not help.
    #[error("the forge refused: {0}")]
    Refused(String),
    /// The target is not what it was when a person looked at it.
    #[error("{target} has moved: it was {expected}, it is {found}")]
    Moved {
        /// What.
        target: String,
        /// As it was.
        expected: String,
        /// As it is.
        found: String,
    },
    /// It cannot do this at all.
    #[error("this forge cannot {0}")]
    Unsupported(String),
    /// It did not answer: it may have been done or not, and the same key must be tried again.
    #[error("the forge did not answer: {0}")]
    Unavailable(String),
}

/// What somebody may do to a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Write to it, at the least.
    Write,
    /// Read it at the most.
    Read,
    /// The forge does not say, or does not say it to us.
    Unknown,
}

/// One repository on one forge.
pub trait Forge: Send + Sync {
    /// Writes it, once for this key however often it is asked: what is there already is found again by
    /// the key, which comments, reviews and releases carry where people do not see it.
    fn write(
        &self,
        key: &str,
        what: &WriteBack,
    ) -> impl Future<Output = Result<Written, ForgeError>> + Send;

    /// How a pull request stands.
    fn pull_request(
        &self,
        number: u64,
    ) -> impl Future<Output = Result<PullRequestState, ForgeError>> + Send;

    /// Where a branch is.
    fn branch(&self, name: &str)
    -> impl Future<Output = Result<Option<String>, ForgeError>> + Send;

    /// What somebody may do here. A forge that does not tell says so; nobody is taken for more.
    fn permission(&self, _actor: &str) -> impl Future<Output = Result<Rights, ForgeError>> + Send {
        std::future::ready(Ok(Rights::Unknown))
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

    /// The account that we speak to it with; nothing if it does not say.
    fn account(&self) -> impl Future<Output = Result<Option<String>, ForgeError>> + Send {
        async { Ok(None) }
    }

    /// The names of the labels that issues and pull requests can have; nothing if it has none to tell.
    fn labels(&self) -> impl Future<Output = Result<Option<Vec<String>>, ForgeError>> + Send {
        async { Ok(None) }
    }

    /// Checks that ended after this cursor, the oldest first, and the cursor after them: what webhooks
    /// may have failed to bring.
    fn checks_since(
        &self,
        cursor: Option<&str>,
    ) -> impl Future<Output = Result<(Vec<CheckRun>, Option<String>), ForgeError>> + Send;

    /// The checks of a commit, ended or not; a forge that has none gives none.
    fn checks_at(
        &self,
        _sha: &str,
    ) -> impl Future<Output = Result<Vec<CheckRun>, ForgeError>> + Send {
        async { Ok(Vec::new()) }
    }
}
