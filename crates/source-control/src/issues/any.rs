//! The issues of whichever forge a repository declares.

use std::path::Path;

use bailiwick_fleet::ports::ForgeError;
use bailiwick_memory::{
    BodyEdit, Comment, IssueMemory, LabelChange, LabelEvent, MemoryError, ReadIssue, RefContent,
    RefSwap, SigningKey, StateEvent,
};
use bailiwick_resources::{Moment, Repository};

use super::LocalIssues;
use crate::forge::{ForgeIssues, Token, forge_issues};
use crate::git::Git;

/// Issues on a forge, or in the repository itself.
pub enum AnyIssues {
    Forge(ForgeIssues),
    Local(LocalIssues),
}

/// Opens the issues of a repository. `by` is the author of what is written to local ones.
pub fn open_issues(
    repository: &Repository,
    token: Option<Token>,
    state: &Path,
    by: &str,
    key: SigningKey,
) -> Result<AnyIssues, ForgeError> {
    Ok(match forge_issues(repository, token, state)? {
        Some(issues) => AnyIssues::Forge(issues),
        None => AnyIssues::Local(
            LocalIssues::new(Git::at(&repository.checkout), by, key)
                .map_err(|error| ForgeError::Refused(error.to_string()))?,
        ),
    })
}

macro_rules! each {
    ($any:expr, $issues:ident => $call:expr) => {
        match $any {
            AnyIssues::Forge($issues) => $call.await,
            AnyIssues::Local($issues) => $call.await,
        }
    };
}

impl AnyIssues {
    /// Keeps the files of a run, where other machines that work on the issue find them.
    pub async fn keep_work(&self, number: u64, commit: &str) -> Result<(), MemoryError> {
        each!(self, issues => issues.keep_work(number, commit))
    }

    /// Brings a commit that was kept for this issue into the checkout. False if it is not kept any more.
    pub async fn fetch_work(&self, number: u64, commit: &str) -> Result<bool, MemoryError> {
        each!(self, issues => issues.fetch_work(number, commit))
    }
}

impl IssueMemory for AnyIssues {
    fn repository(&self) -> &str {
        match self {
            Self::Forge(issues) => issues.repository(),
            Self::Local(issues) => issues.repository(),
        }
    }

    async fn read_issue(&self, number: u64) -> Result<ReadIssue, MemoryError> {
        each!(self, issues => issues.read_issue(number))
    }

    async fn comments(
        &self,
        number: u64,
        since: Option<Moment>,
    ) -> Result<Vec<Comment>, MemoryError> {
        each!(self, issues => issues.comments(number, since))
    }

    async fn label_events(&self, number: u64) -> Result<Vec<LabelEvent>, MemoryError> {
        each!(self, issues => issues.label_events(number))
    }

    async fn state_events(
        &self,
        number: u64,
        since: Option<Moment>,
    ) -> Result<Vec<StateEvent>, MemoryError> {
        each!(self, issues => issues.state_events(number, since))
    }

    async fn post_comment(&self, number: u64, body: &str) -> Result<Comment, MemoryError> {
        each!(self, issues => issues.post_comment(number, body))
    }

    async fn edit_body(
        &self,
        number: u64,
        version: Option<u64>,
        body: &str,
    ) -> Result<BodyEdit, MemoryError> {
        each!(self, issues => issues.edit_body(number, version, body))
    }

    async fn change_labels(&self, number: u64, change: &LabelChange) -> Result<(), MemoryError> {
        each!(self, issues => issues.change_labels(number, change))
    }

    async fn set_assignee(&self, number: u64, assignee: Option<&str>) -> Result<(), MemoryError> {
        each!(self, issues => issues.set_assignee(number, assignee))
    }

    async fn set_milestone(&self, number: u64, milestone: Option<u64>) -> Result<(), MemoryError> {
        each!(self, issues => issues.set_milestone(number, milestone))
    }

    async fn set_locked(&self, number: u64, is_locked: bool) -> Result<(), MemoryError> {
        each!(self, issues => issues.set_locked(number, is_locked))
    }

    async fn set_open(&self, number: u64, is_open: bool) -> Result<(), MemoryError> {
        each!(self, issues => issues.set_open(number, is_open))
    }

    async fn open_issues(&self) -> Result<Vec<u64>, MemoryError> {
        each!(self, issues => issues.open_issues())
    }

    async fn account(&self) -> Result<Option<String>, MemoryError> {
        each!(self, issues => issues.account())
    }

    async fn read_ref(&self, name: &str) -> Result<Option<RefContent>, MemoryError> {
        each!(self, issues => issues.read_ref(name))
    }

    async fn swap_ref(
        &self,
        name: &str,
        expected: Option<&str>,
        text: &str,
    ) -> Result<RefSwap, MemoryError> {
        each!(self, issues => issues.swap_ref(name, expected, text))
    }

    async fn wait(&self, millis: u64) {
        each!(self, issues => issues.wait(millis));
    }

    async fn back_off(&self, attempt: u32) {
        each!(self, issues => issues.back_off(attempt));
    }
}
