//! The memory of agents in the issues of a forge.
//!
//! ```text
//! wire     the JSON of issues, comments and labels
//! labels   adding and removing single labels, also on servers that want their ids
//! work     the files that a run leaves to the next agent of its issue
//! ```

mod labels;
mod wire;
mod work;

use std::path::Path;

use bailiwick_fleet::ports::{AccountProblem, ForgeError};
use bailiwick_memory::{
    BodyEdit, Comment, Issue, IssueMemory, LabelChange, LabelEvent, MemoryError, ReadIssue,
    RefContent, RefSwap, StateEvent,
};
use bailiwick_resources::{Moment, Repository};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Api, ApiResponse};
use super::long_text::MAX_STRING_BYTES;
use super::push::{PushTarget, blocking};
use super::shared_requests;
use super::timeline;
use super::{AnyForge, Token, open};
use crate::git::{RemoteError, read_message, swap_message};

/// Which API a forge has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    Gitea,
    Github,
}

/// The issues of a repository on a forge.
#[derive(Debug, Clone)]
pub struct ForgeIssues {
    pub(super) flavour: Flavour,
    pub(super) api: Api,
    pub(super) push_target: PushTarget,
    pub(super) full_name: String,
}

/// The issues on the forge of a repository; nothing if it has no forge.
pub fn forge_issues(
    repository: &Repository,
    token: Option<Token>,
    state: &Path,
) -> Result<Option<ForgeIssues>, ForgeError> {
    let (flavour, api, push_target) = match open(repository, token, state)? {
        AnyForge::Gitea(forge) => (Flavour::Gitea, forge.api, forge.push_target),
        AnyForge::Github(forge) => (Flavour::Github, forge.api, forge.push_target),
        AnyForge::Local(_) => return Ok(None),
    };
    let full_name = repository.full_name.clone();
    Ok(Some(ForgeIssues { flavour, api, push_target, full_name }))
}

impl ForgeIssues {
    async fn patch(&self, number: u64, body: &Value) -> Result<ApiResponse, MemoryError> {
        let number = number.to_string();
        self.api.send(Method::PATCH, &["issues", &number], body).await.map_err(failed)
    }

    async fn patch_or_fail(&self, number: u64, body: &Value) -> Result<(), MemoryError> {
        let response = self.patch(number, body).await?;
        self.api.require_success(response).map(drop).map_err(failed)
    }

    async fn list<T: serde::de::DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Vec<T>, MemoryError> {
        let mut all = Vec::new();
        let more = |page: &wire::Page<T>| -> Option<()> {
            all.extend(page.take());
            None
        };
        self.api.find(path, query, more).await.map_err(failed)?;
        Ok(all)
    }
}

impl IssueMemory for ForgeIssues {
    fn repository(&self) -> &str {
        &self.full_name
    }

    async fn read_issue(&self, number: u64) -> Result<ReadIssue, MemoryError> {
        let name = number.to_string();
        let response = self.api.get(&["issues", &name], &[]).await.map_err(failed)?;
        if response.is_missing() {
            return Err(MemoryError::Missing(format!("issue {}#{number}", self.full_name)));
        }
        let response = self.api.require_success(response).map_err(failed)?;
        let issue: wire::Issue = response.json().map_err(failed)?;
        let now = response.date.as_deref().and_then(server_time);
        let now = now.ok_or_else(|| {
            MemoryError::Unavailable("the forge did not tell the time".to_owned())
        })?;
        let body = issue.body.unwrap_or_default();
        Ok(ReadIssue {
            // An older server ignores a version that it is sent, so only one that it shows is used.
            body_version: issue.content_version,
            is_body_cut: body.len() > MAX_STRING_BYTES,
            now,
            issue: Issue {
                repository: self.full_name.clone(),
                number,
                title: issue.title,
                body,
                labels: issue.labels.unwrap_or_default().into_iter().map(|one| one.name).collect(),
                assignee: issue.assignee.map(|user| user.login),
                is_open: issue.state == "open",
                is_locked: issue.is_locked,
            },
        })
    }

    async fn comments(
        &self,
        number: u64,
        since: Option<Moment>,
    ) -> Result<Vec<Comment>, MemoryError> {
        let listed: Vec<wire::Comment> = match self.flavour {
            Flavour::Gitea => timeline::comments(&self.api, number, since).await.map_err(failed)?,
            Flavour::Github => {
                let name = number.to_string();
                let since = since.map(|since| since.to_string());
                let query: Vec<(&str, &str)> =
                    since.iter().map(|since| ("since", since.as_str())).collect();
                self.list(&["issues", &name, "comments"], &query).await?
            }
        };
        Ok(listed.into_iter().map(wire::Comment::into_comment).collect())
    }

    async fn label_events(&self, number: u64) -> Result<Vec<LabelEvent>, MemoryError> {
        match self.flavour {
            Flavour::Gitea => {
                let history = timeline::label_history(&self.api, number).await.map_err(failed)?;
                let event = |entry: bailiwick_fleet::ports::LabelEntry| LabelEvent {
                    label: entry.label,
                    by: entry.by,
                    at: entry.at,
                    is_added: entry.added,
                };
                Ok(history.into_iter().map(event).collect())
            }
            Flavour::Github => {
                let name = number.to_string();
                let listed: Vec<wire::IssueEvent> =
                    self.list(&["issues", &name, "events"], &[]).await?;
                Ok(listed.into_iter().filter_map(wire::IssueEvent::into_label_event).collect())
            }
        }
    }

    async fn state_events(
        &self,
        number: u64,
        since: Option<Moment>,
    ) -> Result<Vec<StateEvent>, MemoryError> {
        let name = number.to_string();
        match self.flavour {
            Flavour::Gitea => {
                timeline::state_history(&self.api, number, since).await.map_err(failed)
            }
            Flavour::Github => {
                let listed: Vec<wire::IssueEvent> =
                    self.list(&["issues", &name, "events"], &[]).await?;
                Ok(listed.into_iter().filter_map(wire::IssueEvent::into_state_event).collect())
            }
        }
    }

    async fn post_comment(&self, number: u64, body: &str) -> Result<Comment, MemoryError> {
        if body.len() > MAX_STRING_BYTES {
            let why = format!("a comment has at most {MAX_STRING_BYTES} bytes");
            return Err(MemoryError::Refused(why));
        }
        let name = number.to_string();
        let path = ["issues", name.as_str(), "comments"];
        let sent = self.api.send(Method::POST, &path, &json!({ "body": body })).await;
        let response = self.api.require_success(sent.map_err(failed)?).map_err(failed)?;
        let comment: wire::Comment = response.json().map_err(failed)?;
        Ok(comment.into_comment())
    }

    async fn edit_body(
        &self,
        number: u64,
        version: Option<u64>,
        body: &str,
    ) -> Result<BodyEdit, MemoryError> {
        let mut change = json!({ "body": body });
        if let (Some(version), Some(change)) = (version, change.as_object_mut()) {
            change.insert("content_version".to_owned(), version.into());
        }
        let response = self.patch(number, &change).await?;
        if response.status() == 409 {
            return Ok(BodyEdit::Conflict);
        }
        self.api.require_success(response).map_err(failed)?;
        Ok(BodyEdit::Written)
    }

    async fn change_labels(&self, number: u64, change: &LabelChange) -> Result<(), MemoryError> {
        // First what stops or limits runs, then what is no longer true.
        labels::add(self, number, &change.add).await?;
        labels::remove(self, number, &change.remove).await
    }

    async fn set_assignee(&self, number: u64, assignee: Option<&str>) -> Result<(), MemoryError> {
        let assignees: Vec<&str> = assignee.into_iter().collect();
        self.patch_or_fail(number, &json!({ "assignees": assignees })).await
    }

    async fn set_milestone(&self, number: u64, milestone: Option<u64>) -> Result<(), MemoryError> {
        let milestone = match (self.flavour, milestone) {
            (_, Some(id)) => json!(id),
            (Flavour::Gitea, None) => json!(0),
            (Flavour::Github, None) => Value::Null,
        };
        self.patch_or_fail(number, &json!({ "milestone": milestone })).await
    }

    async fn set_locked(&self, number: u64, is_locked: bool) -> Result<(), MemoryError> {
        let name = number.to_string();
        let path = ["issues", name.as_str(), "lock"];
        let method = if is_locked { Method::PUT } else { Method::DELETE };
        let response = self.api.send(method, &path, &json!({})).await.map_err(failed)?;
        // Gitea before 1.24 has no locks.
        if response.is_missing() {
            return Err(MemoryError::Unsupported("lock issues"));
        }
        self.api.require_success(response).map(drop).map_err(failed)
    }

    async fn set_open(&self, number: u64, is_open: bool) -> Result<(), MemoryError> {
        let state = if is_open { "open" } else { "closed" };
        self.patch_or_fail(number, &json!({ "state": state })).await
    }

    async fn open_issues(&self) -> Result<Vec<u64>, MemoryError> {
        let query: &[(&str, &str)] = match self.flavour {
            Flavour::Gitea => &[("state", "open"), ("type", "issues")],
            Flavour::Github => &[("state", "open")],
        };
        let listed: Vec<wire::ListedIssue> = self.list(&["issues"], query).await?;
        let issues = listed.into_iter().filter(|one| one.pull_request.is_none());
        let mut numbers: Vec<u64> = issues.map(|one| one.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    async fn account(&self) -> Result<Option<String>, MemoryError> {
        let account = shared_requests::account(&self.api).await.map_err(failed)?;
        account.map(Some).ok_or_else(|| {
            let why =
                "the forge does not tell the token's account; give the token the scope `read:user`";
            MemoryError::Refused(why.to_owned())
        })
    }

    async fn read_ref(&self, name: &str) -> Result<Option<RefContent>, MemoryError> {
        let (target, name) = (self.push_target.clone(), name.to_owned());
        let read = blocking(move || {
            read_message(&target.checkout, &target.state, &target.remote(), &name)
        });
        let read = read.await.map_err(failed)?.map_err(transfer_failed)?;
        Ok(read.map(|(version, text)| RefContent { version, text }))
    }

    async fn swap_ref(
        &self,
        name: &str,
        expected: Option<&str>,
        text: &str,
    ) -> Result<RefSwap, MemoryError> {
        let (target, name) = (self.push_target.clone(), name.to_owned());
        let (expected, text) = (expected.map(str::to_owned), text.to_owned());
        let swapped = blocking(move || {
            let remote = target.remote();
            swap_message(
                &target.checkout,
                &target.state,
                &remote,
                &name,
                expected.as_deref(),
                &text,
            )
        });
        let swapped = swapped.await.map_err(failed)?.map_err(transfer_failed)?;
        Ok(swapped.map_or(RefSwap::Moved, RefSwap::Done))
    }

    async fn wait(&self, millis: u64) {
        tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
    }

    async fn back_off(&self, attempt: u32) {
        crate::back_off::back_off(attempt).await;
    }
}

/// The time of a `Date` header.
fn server_time(text: &str) -> Option<Moment> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    u64::try_from(zoned.timestamp().as_millisecond()).ok().map(Moment::from_millis)
}

fn failed(error: ForgeError) -> MemoryError {
    match error {
        ForgeError::Unavailable(why) => MemoryError::Unavailable(why),
        ForgeError::Account(
            problem @ (AccountProblem::TokenRejected
            | AccountProblem::RightMissing { .. }
            | AccountProblem::RepositoryNotFound
            | AccountProblem::Renamed { .. }),
        ) => MemoryError::Refused(problem.to_string()),
        error
        @ (ForgeError::Refused(_) | ForgeError::Moved { .. } | ForgeError::Unsupported(_)) => {
            MemoryError::Refused(error.to_string())
        }
    }
}

fn transfer_failed(error: RemoteError) -> MemoryError {
    match error {
        RemoteError::Moved => MemoryError::Unavailable(error.to_string()),
        RemoteError::Unavailable(why) => MemoryError::Unavailable(why),
        RemoteError::Refused(refusal) => MemoryError::Refused(refusal.to_string()),
    }
}
