//! The JSON of issues, comments and labels, as far as it is read.

use std::cell::RefCell;

use bailiwick_resources::Moment;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::client::Paged;
use super::super::wire::{Label, User};

/// A page of a list, whose entries are taken out of it.
#[derive(Deserialize)]
#[serde(transparent, bound(deserialize = "T: DeserializeOwned"))]
pub(super) struct Page<T>(RefCell<Entries<T>>);

#[derive(Deserialize)]
#[serde(from = "Vec<T>", bound(deserialize = "T: DeserializeOwned"))]
struct Entries<T> {
    entries: Vec<T>,
    count: usize,
}

impl<T> From<Vec<T>> for Entries<T> {
    fn from(entries: Vec<T>) -> Self {
        Self { count: entries.len(), entries }
    }
}

impl<T> Page<T> {
    pub(super) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.borrow_mut().entries)
    }
}

impl<T> Paged for Page<T> {
    fn len(&self) -> usize {
        self.0.borrow().count
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Issue {
    pub(super) title: String,
    #[serde(default)]
    pub(super) body: Option<String>,
    pub(super) state: String,
    #[serde(default)]
    pub(super) labels: Option<Vec<Label>>,
    #[serde(default)]
    pub(super) assignee: Option<User>,
    /// GitHub calls it `locked`.
    #[serde(default, alias = "locked")]
    pub(super) is_locked: bool,
    #[serde(default)]
    pub(super) content_version: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ListedIssue {
    pub(super) number: u64,
    #[serde(default)]
    pub(super) pull_request: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    id: u64,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    user: Option<User>,
    created_at: Moment,
    updated_at: Moment,
}

impl Comment {
    pub(super) fn into_comment(self) -> bailiwick_memory::Comment {
        bailiwick_memory::Comment {
            id: self.id,
            author: self.user.map(|user| user.login).unwrap_or_default(),
            body: self.body.unwrap_or_default(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}

/// An event of an issue on GitHub.
#[derive(Debug, Deserialize)]
pub(super) struct IssueEvent {
    event: String,
    #[serde(default)]
    actor: Option<User>,
    #[serde(default)]
    label: Option<EventLabel>,
    created_at: Moment,
}

#[derive(Debug, Deserialize)]
struct EventLabel {
    /// GitHub's description allows for none.
    #[serde(default)]
    name: Option<String>,
}

impl IssueEvent {
    pub(super) fn into_state_event(self) -> Option<bailiwick_memory::StateEvent> {
        let is_open = match self.event.as_str() {
            "reopened" => true,
            "closed" => false,
            _ => return None,
        };
        let by = self.actor.map(|user| user.login).unwrap_or_default();
        Some(bailiwick_memory::StateEvent { is_open, by, at: self.created_at })
    }

    pub(super) fn into_label_event(self) -> Option<bailiwick_memory::LabelEvent> {
        let is_added = match self.event.as_str() {
            "labeled" => true,
            "unlabeled" => false,
            _ => return None,
        };
        Some(bailiwick_memory::LabelEvent {
            label: self.label?.name?,
            by: self.actor.map(|user| user.login).unwrap_or_default(),
            at: self.created_at,
            is_added,
        })
    }
}

/// A label of a repository.
#[derive(Debug, Deserialize)]
pub(super) struct RepositoryLabel {
    pub(super) id: u64,
    pub(super) name: String,
}
