//! How many events a report has, and how large they are. A worker keeps to it; a server refuses what does not.

use serde_json::{Value, json};

use super::protocol::{ProgressReport, ReportError};
use crate::ports::EngineEvent;

/// How many events a report may have.
pub const MAX_REPORT_EVENTS: usize = 1_000;
/// How much a report may take as JSON.
pub const MAX_REPORT_BYTES: usize = 4 * 1024 * 1024;
/// How much is stored of the events of an attempt that one worker runs.
pub const MAX_ATTEMPT_EVENT_BYTES: u64 = 256 * 1024 * 1024;

/// How much a worker sends at once: the rest of a report must fit as well.
const MAX_SENT_BYTES: usize = 3 * 1024 * 1024;
/// How much is stored of an event, as JSON.
const MAX_EVENT_BYTES: usize = 256 * 1024;
/// The lengths to which the texts of a large event are cut, until it is small enough.
const TEXT_BYTES: [usize; 3] = [64 * 1024, 4 * 1024, 256];
const MAX_KIND_BYTES: usize = 256;

impl EngineEvent {
    /// What it takes as JSON.
    pub fn json_bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(usize::MAX, |text| text.len())
    }

    /// Cuts the texts of an event that is larger than a server stores.
    pub fn limit(&mut self) {
        for max_bytes in TEXT_BYTES {
            if self.json_bytes() <= MAX_EVENT_BYTES {
                return;
            }
            cut_texts(&mut self.body, max_bytes);
        }
        if self.json_bytes() > MAX_EVENT_BYTES {
            cut(&mut self.kind, MAX_KIND_BYTES);
            self.body = json!({ "number": self.number, "at": self.at, "kind": self.kind });
        }
    }

    /// What is stored in place of the first event that is one too many.
    #[must_use]
    pub fn into_last_of_too_many(self) -> Self {
        let Self { number, at, .. } = self;
        let kind = "warning".to_owned();
        let mebibytes = MAX_ATTEMPT_EVENT_BYTES / 1024 / 1024;
        let text = format!(
            "the events of this attempt take more than {mebibytes} MiB; those after this one are not stored"
        );
        let body = json!({
            "number": number,
            "at": at,
            "seen_by": "supervisor",
            "kind": kind,
            "rule": "server",
            "text": text,
            "told": false,
        });
        Self { number, at, kind, body }
    }
}

impl ProgressReport {
    /// Fails if there are more events than a worker may send at once.
    pub fn require_few_events(&self) -> Result<(), ReportError> {
        if self.events.len() > MAX_REPORT_EVENTS {
            return Err(ReportError::TooManyEvents);
        }
        let bytes: usize = self.events.iter().map(EngineEvent::json_bytes).sum();
        match bytes > MAX_REPORT_BYTES {
            true => Err(ReportError::TooLarge),
            false => Ok(()),
        }
    }
}

/// The first of these events that a worker can send at once, cut to what is stored of them.
pub fn sendable_events(events: Vec<EngineEvent>) -> Vec<EngineEvent> {
    let mut sent = Vec::new();
    let mut bytes = 0_usize;
    for mut event in events.into_iter().take(MAX_REPORT_EVENTS) {
        event.limit();
        bytes = bytes.saturating_add(event.json_bytes());
        if bytes > MAX_SENT_BYTES && !sent.is_empty() {
            break;
        }
        sent.push(event);
    }
    sent
}

fn cut_texts(value: &mut Value, max_bytes: usize) {
    match value {
        Value::String(text) => cut(text, max_bytes),
        Value::Array(values) => values.iter_mut().for_each(|value| cut_texts(value, max_bytes)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| cut_texts(value, max_bytes));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn cut(text: &mut String, max_bytes: usize) {
    text.truncate(text.floor_char_boundary(max_bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64, text: &str) -> EngineEvent {
        let body = json!({ "number": number, "kind": "text", "text": text });
        EngineEvent { number, at: 1, kind: "text".to_owned(), body }
    }

    #[test]
    fn large_events_are_cut_and_others_are_unchanged() {
        let mut small = event(1, &"ü".repeat(100_000));
        small.limit();
        assert_eq!(small, event(1, &"ü".repeat(100_000)));
        let mut large = event(1, &"ü".repeat(200_000));
        large.limit();
        assert_eq!(large.body["text"].as_str().unwrap().len(), 64 * 1024);
        assert_eq!(large.body["kind"], "text");
        let mut many = event(1, "");
        many.body["list"] = vec!["x".repeat(100); 3_000].into();
        many.limit();
        assert_eq!(many.body, json!({ "number": 1, "at": 1, "kind": "text" }));
        let mut hostile = EngineEvent { kind: "k".repeat(300_000), ..event(1, "") };
        hostile.limit();
        assert!(hostile.json_bytes() <= MAX_EVENT_BYTES, "{}", hostile.json_bytes());
    }

    #[test]
    fn report_with_too_many_or_too_large_events_is_refused() {
        let report = |count: u64, text: &str| {
            let events = (1..=count).map(|number| event(number, text)).collect();
            ProgressReport { events, ..ProgressReport::default() }
        };
        let require = |report: ProgressReport| report.require_few_events();
        assert_eq!(require(report(1_000, "one")), Ok(()));
        assert_eq!(require(report(1_001, "one")), Err(ReportError::TooManyEvents));
        let text = "x".repeat(100_000);
        assert_eq!(require(report(40, &text)), Ok(()));
        assert_eq!(require(report(50, &text)), Err(ReportError::TooLarge));
    }

    #[test]
    fn worker_sends_what_a_server_accepts() {
        let all = |count: u64, length: usize| -> Vec<EngineEvent> {
            (1..=count).map(|number| event(number, &"x".repeat(length))).collect()
        };
        for (count, length, sent) in [(5, 10, 5), (2_000, 10, 1_000), (100, 100_000, 31)] {
            let events = sendable_events(all(count, length));
            assert_eq!(events.len(), sent);
            let report = ProgressReport { events, ..ProgressReport::default() };
            assert_eq!(report.require_few_events(), Ok(()));
        }
        assert_eq!(sendable_events(all(2, 9_000_000)).len(), 2, "both are cut");
    }
}
