//! What the protocol needs of a forge. Three back ends implement it: Gitea, GitHub, and issues in git references.

use std::future::Future;

use bailiwick_resources::Moment;
use serde::Serialize;
use thiserror::Error;

use crate::issue::{Comment, Issue};
use crate::labels::LabelChange;

/// Why a forge did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MemoryError {
    #[error("{0} does not exist")]
    Missing(String),
    /// A retry does not help.
    #[error("{0}")]
    Refused(String),
    #[error("this forge cannot {0}")]
    Unsupported(&'static str),
    /// No answer: it may or may not have been done. Reading again tells.
    #[error("the forge did not answer: {0}")]
    Unavailable(String),
}

/// An issue and, where the server counts them, the version of its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadIssue {
    pub issue: Issue,
    /// `None` if the server has no compare-and-swap for bodies: then an edit can be lost without an error.
    pub body_version: Option<u64>,
    /// The body is longer than what is read of it, so it must not be written back.
    pub is_body_cut: bool,
    /// The time on the forge's clock.
    pub now: Moment,
}

/// What became of an edit of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEdit {
    Written,
    /// Somebody else has edited it since it was read.
    Conflict,
}

/// A label that was added or removed, from the issue's timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabelEvent {
    pub label: String,
    pub by: String,
    pub at: Moment,
    pub is_added: bool,
}

/// An issue that was closed or opened again, from its timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateEvent {
    pub is_open: bool,
    pub by: String,
    pub at: Moment,
}

/// The content of a reference, and what its next change must name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefContent {
    /// The commit.
    pub version: String,
    pub text: String,
}

/// What became of a change of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefSwap {
    /// It is at this commit now.
    Done(String),
    /// It was not where it was expected.
    Moved,
}

/// The issues of one repository, and references that can be changed by compare-and-swap.
pub trait IssueMemory: Send + Sync {
    /// `owner/name`, as events are signed for it.
    fn repository(&self) -> &str;

    fn read_issue(
        &self,
        number: u64,
    ) -> impl Future<Output = Result<ReadIssue, MemoryError>> + Send;

    /// The comments that are visible now, in any order: all, or at least those that were written or edited since then.
    fn comments(
        &self,
        number: u64,
        since: Option<Moment>,
    ) -> impl Future<Output = Result<Vec<Comment>, MemoryError>> + Send;

    /// Who changed which labels, oldest first.
    fn label_events(
        &self,
        number: u64,
    ) -> impl Future<Output = Result<Vec<LabelEvent>, MemoryError>> + Send;

    /// Who closed it and opened it again, oldest first: always, or at least since then.
    fn state_events(
        &self,
        number: u64,
        since: Option<Moment>,
    ) -> impl Future<Output = Result<Vec<StateEvent>, MemoryError>> + Send;

    fn post_comment(
        &self,
        number: u64,
        body: &str,
    ) -> impl Future<Output = Result<Comment, MemoryError>> + Send;

    /// Replaces the body. With a version only if the body still has it.
    fn edit_body(
        &self,
        number: u64,
        version: Option<u64>,
        body: &str,
    ) -> impl Future<Output = Result<BodyEdit, MemoryError>> + Send;

    /// Adds and removes single labels, so that what others change at the same time stays. Labels that the repository
    /// does not have are created; removing one that the issue does not have is no error.
    fn change_labels(
        &self,
        number: u64,
        change: &LabelChange,
    ) -> impl Future<Output = Result<(), MemoryError>> + Send;

    fn set_assignee(
        &self,
        number: u64,
        assignee: Option<&str>,
    ) -> impl Future<Output = Result<(), MemoryError>> + Send;

    fn set_milestone(
        &self,
        number: u64,
        milestone: Option<u64>,
    ) -> impl Future<Output = Result<(), MemoryError>> + Send;

    fn set_locked(
        &self,
        number: u64,
        is_locked: bool,
    ) -> impl Future<Output = Result<(), MemoryError>> + Send;

    fn set_open(
        &self,
        number: u64,
        is_open: bool,
    ) -> impl Future<Output = Result<(), MemoryError>> + Send;

    /// The numbers of open issues.
    fn open_issues(&self) -> impl Future<Output = Result<Vec<u64>, MemoryError>> + Send;

    /// The account that writes here; nothing if the forge does not tell.
    fn account(&self) -> impl Future<Output = Result<Option<String>, MemoryError>> + Send;

    fn read_ref(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Option<RefContent>, MemoryError>> + Send;

    /// Writes a reference that is at `expected`, or that does not exist. The compare-and-swap of claims.
    fn swap_ref(
        &self,
        name: &str,
        expected: Option<&str>,
        text: &str,
    ) -> impl Future<Output = Result<RefSwap, MemoryError>> + Send;

    /// Waits this long, in milliseconds.
    fn wait(&self, millis: u64) -> impl Future<Output = ()> + Send;

    /// Waits before another attempt, longer each time and not as long as others do.
    fn back_off(&self, attempt: u32) -> impl Future<Output = ()> + Send;
}
