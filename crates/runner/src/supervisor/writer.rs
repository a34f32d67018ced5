//! Stores events, then shows them: everything shown was stored.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bailiwick_lifecycle::ports::StoreError;
use bailiwick_lifecycle::supervision::Redaction;
use bailiwick_model::AuditLevel;
use bailiwick_model::Event;
use bailiwick_model::event::EventKind;
use serde_json::Value;

use super::Sinks;
use super::progress::Progress;

/// The longest text of an event; longer text is cut after redaction.
const MAX_TEXT: usize = 64 * 1024;
/// Events in one batch.
const BATCH: usize = 256;
/// Events that may wait; a program that prints faster is slowed down.
const WAITING: usize = 64;
/// Events within this time are stored together: each transaction is expensive.
const BATCH_WINDOW: Duration = Duration::from_millis(50);
/// Decisions are stored sooner: the call already runs, and a resumed run must find that it was
/// decided.
const DECISION_BATCH_WINDOW: Duration = Duration::from_millis(5);
/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// A message to the writer thread.
pub(super) enum WriterMessage {
    /// Store and show this event.
    Event(Event),
    /// Report this progress.
    Progress(Progress),
}

/// Why not everything is stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriterError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the writer of events failed")]
    Panicked,
}

/// The writer thread.
pub(super) struct Writer {
    thread: JoinHandle<Result<(), WriterError>>,
}

/// Starts the writer thread. `failed` is called when events can no longer be stored.
pub(super) fn start(
    sinks: Sinks,
    redaction: Redaction,
    audit_level: AuditLevel,
    failed: impl FnOnce(String) + Send + 'static,
) -> (Writer, SyncSender<WriterMessage>) {
    let (sender, receiver) = sync_channel(WAITING);
    let thread = std::thread::spawn(move || {
        let mut sinks = sinks;
        let written = write(&receiver, &mut sinks, &redaction, audit_level);
        if let Err(error) = &written {
            failed(error.to_string());
            // Senders must not block on a stopped writer.
            while receiver.recv().is_ok() {}
        }
        written
    });
    (Writer { thread }, sender)
}

impl Writer {
    /// Waits until everything is stored; all senders must be dropped.
    pub(super) fn finish(self) -> Result<(), WriterError> {
        self.thread.join().unwrap_or(Err(WriterError::Panicked))
    }
}

fn write(
    messages: &Receiver<WriterMessage>,
    sinks: &mut Sinks,
    redaction: &Redaction,
    audit_level: AuditLevel,
) -> Result<(), WriterError> {
    let mut last_progress = Instant::now();
    let mut progress_due: Option<Progress> = None;
    loop {
        let (mut batch, mut over) = (Vec::new(), false);
        let next = match progress_due {
            // An idle agent causes no wake-ups.
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => messages.recv_timeout(PROGRESS_INTERVAL),
        };
        match next {
            Ok(WriterMessage::Event(event)) => batch.push(event),
            Ok(WriterMessage::Progress(progress)) => progress_due = Some(progress),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => over = true,
        }
        let mut deadline = Instant::now() + batch.last().map_or(BATCH_WINDOW, batch_window);
        while !over && batch.len() < BATCH {
            let wait = if batch.is_empty() { Duration::ZERO } else { left(deadline) };
            match messages.recv_timeout(wait) {
                Ok(WriterMessage::Event(event)) => {
                    deadline = deadline.min(Instant::now() + batch_window(&event));
                    batch.push(event);
                }
                Ok(WriterMessage::Progress(progress)) => progress_due = Some(progress),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => over = true,
            }
        }
        let mut batch: Vec<Event> = batch
            .into_iter()
            .map(|event| cleaned(apply_audit_level(event, audit_level), redaction))
            .collect();
        if !batch.is_empty() {
            sinks.events.store(&mut batch)?;
            batch.iter().for_each(|event| (sinks.show)(event));
        }
        if (over || last_progress.elapsed() >= PROGRESS_INTERVAL)
            && let Some(progress) = progress_due.take()
        {
            (sinks.progress)(&progress);
            last_progress = Instant::now();
        }
        if over {
            return Ok(());
        }
    }
}

/// How long an event may wait for others.
fn batch_window(event: &Event) -> Duration {
    if matches!(event.what, EventKind::Decision { .. }) {
        DECISION_BATCH_WINDOW
    } else {
        BATCH_WINDOW
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Drops what an audit level does not include. Decisions and the agent's own text always stay: the last text is its
/// result. The output of a failed call stays too, because it shows whether a denial was reported.
fn apply_audit_level(mut event: Event, audit_level: AuditLevel) -> Event {
    if audit_level < AuditLevel::FullRedactedTranscript {
        event.raw = None;
        if let EventKind::Thinking { text } = &mut event.what {
            text.clear();
        }
    }
    if audit_level < AuditLevel::Outputs
        && let EventKind::ToolResult { ok: true, output, .. } = &mut event.what
    {
        output.clear();
    }
    if audit_level < AuditLevel::Inputs {
        match &mut event.what {
            EventKind::ToolCall { input, .. } => *input = Value::Null,
            EventKind::Command { command: text, .. } | EventKind::SubAgent { text, .. } => {
                text.clear()
            }
            EventKind::Phase { .. }
            | EventKind::Session { .. }
            | EventKind::Announced
            | EventKind::Turn { .. }
            | EventKind::Text { .. }
            | EventKind::Thinking { .. }
            | EventKind::ToolResult { .. }
            | EventKind::Decision { .. }
            | EventKind::Warning { .. }
            | EventKind::Notification { .. }
            | EventKind::Check { .. }
            | EventKind::FileChange { .. }
            | EventKind::Mcp { .. }
            | EventKind::Usage(_)
            | EventKind::Approval { .. }
            | EventKind::Limit { .. }
            | EventKind::Message { .. }
            | EventKind::Error { .. }
            | EventKind::Ended { .. }
            | EventKind::Other => {}
        }
    }
    event
}

/// Redacts an event, then cuts long texts. An event that cannot be redacted is replaced by an error.
fn cleaned(event: Event, redaction: &Redaction) -> Event {
    let (at, reported_by) = (event.at, event.reported_by);
    let cleaned = serde_json::to_value(event).ok().and_then(|mut value| {
        clean(&mut value, redaction);
        serde_json::from_value(value).ok()
    });
    cleaned.unwrap_or_else(|| Event {
        number: 0,
        at,
        reported_by,
        agent: None,
        what: EventKind::Error {
            message: "an event could not be cleaned of secrets, and is left out".to_owned(),
        },
        raw: None,
    })
}

fn clean(value: &mut Value, redaction: &Redaction) {
    match value {
        Value::String(text) => {
            let clean = redaction.clean(text);
            *text = match clean.char_indices().nth(MAX_TEXT) {
                None => clean,
                Some((end, _)) => {
                    format!("{} … [cut]", clean.get(..end).unwrap_or_default())
                }
            };
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, redaction)),
        Value::Object(fields) => fields.values_mut().for_each(|field| clean(field, redaction)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_model::event::{Answer, ReportedBy};

    /// An event of each kind, with a marker text.
    fn sample_events() -> Vec<Event> {
        let kinds = vec![
            EventKind::ToolCall {
                id: "1".to_owned(),
                tool: "Bash".to_owned(),
                input: serde_json::json!({"command": "INPUT"}),
            },
            EventKind::Command { command: "INPUT".to_owned(), exit: Some(0) },
            EventKind::ToolResult { id: "1".to_owned(), ok: true, output: "OUTPUT".to_owned() },
            EventKind::ToolResult { id: "2".to_owned(), ok: false, output: "DENIED".to_owned() },
            EventKind::Thinking { text: "THOUGHT".to_owned() },
            EventKind::Text { text: "ANSWER".to_owned() },
            EventKind::Decision {
                call: Some("1".to_owned()),
                tool: "Bash".to_owned(),
                about: "DECIDED".to_owned(),
                answer: Answer::Deny,
                rule: Some("RULE".to_owned()),
                reason: None,
            },
        ];
        let event = |what| Event {
            number: 0,
            at: 0,
            reported_by: ReportedBy::Program,
            agent: None,
            what,
            raw: Some("RAW".to_owned()),
        };
        kinds.into_iter().map(event).collect()
    }

    #[test]
    fn each_level_stores_more_than_the_one_below_and_always_decisions() {
        let always = ["Bash", "DENIED", "ANSWER", "DECIDED", "RULE"];
        for (level, more) in [
            (AuditLevel::Metadata, &[][..]),
            (AuditLevel::Inputs, &["INPUT"][..]),
            (AuditLevel::Outputs, &["INPUT", "OUTPUT"][..]),
            (AuditLevel::FullRedactedTranscript, &["INPUT", "OUTPUT", "THOUGHT", "RAW"][..]),
        ] {
            let stored: Vec<Event> =
                sample_events().into_iter().map(|event| apply_audit_level(event, level)).collect();
            let text = serde_json::to_string(&stored).unwrap();
            for word in always {
                assert!(text.contains(word), "{level:?} {word}");
            }
            for word in ["INPUT", "OUTPUT", "THOUGHT", "RAW"] {
                assert_eq!(text.contains(word), more.contains(&word), "{level:?} {word}");
            }
            assert_eq!(stored.len(), sample_events().len(), "every event is stored");
        }
    }

    #[test]
    fn secrets_are_removed_before_the_text_is_cut() {
        let secret = "correct-horse-battery".to_owned();
        let redaction = Redaction::new([secret.clone()]);
        let long = format!("{}{secret}", "x".repeat(MAX_TEXT - 4));
        let event = Event {
            number: 0,
            at: 0,
            reported_by: ReportedBy::Program,
            agent: None,
            what: EventKind::ToolCall {
                id: "1".to_owned(),
                tool: "Bash".to_owned(),
                input: serde_json::json!({"command": format!("echo {secret}")}),
            },
            raw: Some(long),
        };
        let text = serde_json::to_string(&cleaned(event, &redaction)).unwrap();
        for length in 4..secret.len() {
            let part: String = secret.chars().take(length).collect();
            assert!(!text.contains(&part), "{part} is there");
        }
        assert!(text.contains("[secret]") && text.contains("[cut]"));
    }
}
