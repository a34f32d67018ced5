//! What Gitea says about an issue or a pull request only in its timeline: which labels were put on and
//! taken off, and when it was closed and opened again. Comments that are too many for one response are read there too.

use bailiwick_fleet::ports::{ForgeError, LabelEntry};
use bailiwick_memory::StateEvent;
use bailiwick_resources::Moment;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::{Api, TotalCount};
use super::wire::User;

/// The type of a comment.
const COMMENT: &str = "comment";
/// The type of an entry about a label.
const LABEL: &str = "label";
/// The text of an entry about a label that was put on.
const PUT_ON: &str = "1";

#[derive(Debug, Deserialize)]
pub(super) struct TimelineEntry {
    pub(super) id: u64,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) user: Option<User>,
    /// Nothing if the label was deleted.
    #[serde(default)]
    pub(super) label: Option<TimelineLabel>,
    pub(super) created_at: Moment,
}

#[derive(Debug, Deserialize)]
pub(super) struct TimelineLabel {
    pub(super) id: u64,
    pub(super) name: String,
}

/// The changes of labels, oldest first.
pub(super) async fn label_history(api: &Api, number: u64) -> Result<Vec<LabelEntry>, ForgeError> {
    let mut entries = history(api, number, None, label_entry).await?;
    entries.sort_by_key(|entry| entry.id);
    entries.dedup_by_key(|entry| entry.id);
    Ok(entries)
}

/// Who closed it and opened it again, oldest first: always, or since then.
pub(super) async fn state_history(
    api: &Api,
    number: u64,
    since: Option<Moment>,
) -> Result<Vec<StateEvent>, ForgeError> {
    let state = |entry: &TimelineEntry| {
        let is_open = match entry.kind.as_str() {
            "reopen" => true,
            "close" => false,
            _ => return None,
        };
        let by = entry.user.as_ref().map(|user| user.login.clone()).unwrap_or_default();
        Some((entry.id, StateEvent { is_open, by, at: entry.created_at }))
    };
    let mut entries = history(api, number, since, state).await?;
    entries.sort_by_key(|(id, _)| *id);
    entries.dedup_by_key(|(id, _)| *id);
    Ok(entries.into_iter().map(|(_, event)| event).collect())
}

/// The comments of an issue: always, or since then. Gitea returns them at once, and only the timeline has pages.
pub(super) async fn comments<T: DeserializeOwned>(
    api: &Api,
    number: u64,
    since: Option<Moment>,
) -> Result<Vec<T>, ForgeError> {
    let number = number.to_string();
    let since = since.map(|since| since.to_string());
    let query: Vec<(&str, &str)> = since.iter().map(|since| ("since", since.as_str())).collect();
    let response = api.get(&["issues", &number, "comments"], &query).await?;
    if !response.is_too_large() {
        return api.require_success(response)?.json();
    }
    let mut comments: Vec<T> = Vec::new();
    let all = |page: &Vec<Value>| -> Option<()> {
        let is_comment =
            |entry: &&Value| entry.get("type").and_then(Value::as_str) == Some(COMMENT);
        let listed = page.iter().filter(is_comment);
        comments.extend(listed.filter_map(|entry| T::deserialize(entry).ok()));
        None
    };
    api.find_in_pages(&["issues", &number, "timeline"], &query, TotalCount::OfPage, all).await?;
    Ok(comments)
}

async fn history<T>(
    api: &Api,
    number: u64,
    since: Option<Moment>,
    wanted: impl Fn(&TimelineEntry) -> Option<T>,
) -> Result<Vec<T>, ForgeError> {
    let number = number.to_string();
    let mut entries: Vec<T> = Vec::new();
    let all = |page: &Vec<TimelineEntry>| -> Option<()> {
        entries.extend(page.iter().filter_map(&wanted));
        None
    };
    let since = since.map(|since| since.to_string());
    let query: Vec<(&str, &str)> = since.iter().map(|since| ("since", since.as_str())).collect();
    api.find_in_pages(&["issues", &number, "timeline"], &query, TotalCount::OfPage, all).await?;
    Ok(entries)
}

pub(super) fn label_entry(entry: &TimelineEntry) -> Option<LabelEntry> {
    let label = entry.label.as_ref().filter(|_| entry.kind == LABEL)?;
    Some(LabelEntry {
        id: entry.id,
        label_id: label.id,
        label: label.name.clone(),
        by: entry.user.as_ref().map(|user| user.login.clone()).unwrap_or_default(),
        at: entry.created_at,
        added: entry.body.as_deref() == Some(PUT_ON),
    })
}
