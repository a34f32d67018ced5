//! What GitHub says about an issue or a pull request in its events: which labels were put on and taken off.

use bailiwick_fleet::ports::{ForgeError, LabelEntry};
use bailiwick_resources::Moment;
use serde::Deserialize;

use super::client::Api;
use super::wire::User;

/// An event of an issue. Only those about labels have one.
#[derive(Debug, Deserialize)]
struct IssueEvent {
    id: u64,
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

/// The changes of labels, oldest first.
pub(super) async fn history(api: &Api, number: u64) -> Result<Vec<LabelEntry>, ForgeError> {
    let number = number.to_string();
    let mut entries: Vec<LabelEntry> = Vec::new();
    let all = |page: &Vec<IssueEvent>| -> Option<()> {
        entries.extend(page.iter().filter_map(entry));
        None
    };
    api.find(&["issues", &number, "events"], &[], all).await?;
    entries.sort_by_key(|entry| entry.id);
    entries.dedup_by_key(|entry| entry.id);
    Ok(entries)
}

fn entry(event: &IssueEvent) -> Option<LabelEntry> {
    let added = match event.event.as_str() {
        "labeled" => true,
        "unlabeled" => false,
        _ => return None,
    };
    Some(LabelEntry {
        id: event.id,
        // GitHub names labels here, and does not number them.
        label_id: 0,
        label: event.label.as_ref()?.name.clone()?,
        by: event.actor.as_ref().map(|user| user.login.clone()).unwrap_or_default(),
        at: event.created_at,
        added,
    })
}
