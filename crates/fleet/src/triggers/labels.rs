//! Which label was added: Gitea sends that labels changed and all that there are now, for additions and removals alike.

use std::collections::BTreeSet;

use bailiwick_resources::{EventSource, Moment};
use serde_json::Value;

use super::event::SourceEvent;
use crate::ports::LabelEntry;

/// The maximum time between entries of one request.
const SAME_REQUEST_MILLIS: u64 = 1_000;

/// Which labels an event has put on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LabelChange {
    /// The event names the label, or is not about labels.
    #[default]
    Named,
    /// The event names the label, but its entry in the history is not known yet.
    EntryUnknown,
    /// Not known yet.
    Unknown,
    /// From the history.
    Added(Vec<LabelEntry>),
}

impl SourceEvent {
    /// Adds the history of the labels of its issue or pull request, oldest first.
    pub fn learn_labels(&mut self, history: &[LabelEntry]) {
        let actor = self.actor.as_deref();
        self.label_change = match self.label_change {
            LabelChange::EntryUnknown => {
                let entry = self.labels.first().and_then(|label| {
                    entry_of(label, updated_at(&self.payload), actor, history).cloned()
                });
                // A list may lag behind a webhook, which is sufficient.
                entry.map_or(LabelChange::Named, |entry| LabelChange::Added(vec![entry]))
            }
            LabelChange::Named | LabelChange::Unknown | LabelChange::Added(_) => {
                LabelChange::Added(added(&self.payload, actor, history))
            }
        };
    }

    /// The event of one label that was added.
    fn with_label(&self, entry: &LabelEntry) -> Self {
        let number = self.issue.or(self.pull_request).unwrap_or_default();
        let uid = match self.asked_by {
            // A replay is another event.
            Some(_) => format!("{}/{}", self.uid, entry.id),
            None => label_uid(&self.repository, number, entry.id),
        };
        let labels = vec![entry.label.clone()];
        Self { uid, labels, label_change: LabelChange::Named, ..self.clone() }
    }
}

/// The ID of an added label.
pub(super) fn label_uid(repository: &str, number: u64, entry: u64) -> String {
    format!("{}/label/{number}/{entry}", repository.to_lowercase())
}

/// The events of a delivery, grouped by occurrence: each added label is one. If none was added, or it is not known
/// which, it is not a label event, but still a webhook.
pub fn occurrences(events: Vec<SourceEvent>) -> Vec<Vec<SourceEvent>> {
    let (labels, others): (Vec<SourceEvent>, Vec<SourceEvent>) =
        events.into_iter().partition(|event| {
            let is_known =
                matches!(event.label_change, LabelChange::Named | LabelChange::EntryUnknown);
            event.source == EventSource::Label && !is_known
        });
    let mut groups = vec![Vec::new()];
    for event in &labels {
        let LabelChange::Added(entries) = &event.label_change else { continue };
        for (at, entry) in entries.iter().enumerate() {
            if groups.len() <= at {
                groups.push(Vec::new());
            }
            if let Some(group) = groups.get_mut(at) {
                group.push(event.with_label(entry));
            }
        }
    }
    if let Some(first) = groups.first_mut() {
        first.extend(others);
    }
    groups
}

fn item(payload: &Value) -> Option<&Value> {
    ["issue", "pull_request"].iter().find_map(|name| payload.get(name))
}

fn updated_at(payload: &Value) -> Option<Moment> {
    item(payload)?.get("updated_at")?.as_str()?.parse().ok()
}

/// The addition of a label that a delivery names: of several, the one at the time of the delivery.
fn entry_of<'a>(
    label: &str,
    updated: Option<Moment>,
    sender: Option<&str>,
    history: &'a [LabelEntry],
) -> Option<&'a LabelEntry> {
    let is_it = |entry: &&LabelEntry| {
        entry.added
            && entry.label.eq_ignore_ascii_case(label)
            && sender.is_none_or(|sender| entry.by.eq_ignore_ascii_case(sender))
    };
    let distance = |entry: &&LabelEntry| {
        updated.map_or(0, |updated| entry.at.millis().abs_diff(updated.millis()))
    };
    // The last of those that are equally near.
    history.iter().filter(is_it).rev().min_by_key(distance)
}

/// The labels that a delivery has added: the changes in the history up to the delivery's set of labels, made by its
/// sender in one request. An addition that two deliveries could mean is found by both, and identified by its entry.
fn added(payload: &Value, sender: Option<&str>, history: &[LabelEntry]) -> Vec<LabelEntry> {
    let Some(item) = item(payload) else { return Vec::new() };
    let ids = item.get("labels").and_then(Value::as_array).into_iter().flatten();
    let wanted: BTreeSet<u64> = ids.filter_map(|label| label.get("id")?.as_u64()).collect();
    let updated = updated_at(payload);
    let is_sender =
        |entry: &LabelEntry| sender.is_none_or(|sender| entry.by.eq_ignore_ascii_case(sender));
    let mut now = BTreeSet::new();
    let mut last: Option<(u64, usize)> = None;
    for (at, entry) in history.iter().enumerate() {
        match entry.added {
            true => now.insert(entry.label_id),
            false => now.remove(&entry.label_id),
        };
        if now != wanted || !is_sender(entry) {
            continue;
        }
        // Of several, the one at the time of the delivery.
        let distance = updated.map_or(0, |updated| entry.at.millis().abs_diff(updated.millis()));
        if last.is_none_or(|(nearest, _)| distance <= nearest) {
            last = Some((distance, at));
        }
    }
    let Some((_, last)) = last else { return Vec::new() };
    let Some(end) = history.get(last).map(|entry| entry.at.millis()) else { return Vec::new() };
    let same_request = |entry: &&LabelEntry| {
        is_sender(entry) && end.saturating_sub(entry.at.millis()) <= SAME_REQUEST_MILLIS
    };
    let changes = history.get(..=last).unwrap_or_default().iter().rev().take_while(same_request);
    let mut additions: Vec<LabelEntry> = changes.filter(|entry| entry.added).cloned().collect();
    additions.reverse();
    additions
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::Moment;
    use serde_json::{Value, json};

    use super::{LabelEntry, added};

    fn entry(id: u64, label_id: u64, by: &str, second: u64, added: bool) -> LabelEntry {
        let (label, by) = (format!("label-{label_id}"), by.to_owned());
        LabelEntry { id, label_id, label, by, at: Moment::from_millis(second * 1000), added }
    }

    fn delivery(labels: &[u64], second: u64) -> Value {
        let labels: Vec<Value> = labels.iter().map(|id| json!({ "id": id })).collect();
        let updated = Moment::from_millis(second * 1000).to_string();
        json!({ "issue": { "number": 3, "labels": labels, "updated_at": updated } })
    }

    fn ids(payload: &Value, sender: &str, history: &[LabelEntry]) -> Vec<u64> {
        added(payload, Some(sender), history).iter().map(|entry| entry.id).collect()
    }

    #[test]
    fn only_the_added_label_is_found() {
        let history = [
            entry(1, 10, "alice", 100, true),
            entry(2, 20, "bob", 200, true),
            entry(3, 10, "alice", 300, false),
        ];
        assert_eq!(ids(&delivery(&[10], 100), "alice", &history), [1]);
        assert_eq!(ids(&delivery(&[10, 20], 200), "bob", &history), [2]);
        assert_eq!(ids(&delivery(&[20], 300), "alice", &history), [0; 0], "it was removed");
        assert_eq!(ids(&delivery(&[10, 20], 200), "eve", &history), [0; 0]);
        assert_eq!(ids(&delivery(&[99], 200), "bob", &history), [0; 0]);
        assert_eq!(ids(&json!({}), "bob", &history), [0; 0]);
    }

    #[test]
    fn labels_of_one_request_and_exclusive_labels_are_found() {
        let history = [
            entry(1, 10, "alice", 100, true),
            entry(2, 20, "alice", 200, true),
            entry(3, 30, "alice", 200, true),
            entry(4, 30, "bob", 300, false),
            entry(5, 40, "bob", 300, true),
        ];
        assert_eq!(ids(&delivery(&[10, 20, 30], 200), "alice", &history), [2, 3]);
        assert_eq!(ids(&delivery(&[10, 20, 40], 300), "bob", &history), [5]);
    }

    #[test]
    fn time_of_the_delivery_selects_between_equal_label_sets() {
        let history = [
            entry(1, 10, "alice", 100, true),
            entry(2, 10, "alice", 200, false),
            entry(3, 10, "alice", 300, true),
        ];
        assert_eq!(ids(&delivery(&[10], 100), "alice", &history), [1]);
        assert_eq!(ids(&delivery(&[10], 300), "alice", &history), [3]);
    }
}
