//! The status of a run while a person watches it: phase, time, tokens, denials and the nearest limit.

use std::time::Duration;

use bailiwick_engine::counted::counted;
use bailiwick_model::Event;
use bailiwick_model::event::{Answer, EventKind, Phase};

use crate::view::verification::elapsed;

/// The status of a run, computed from its events.
#[derive(Debug, Clone)]
pub struct LiveStatus {
    /// How long it had been running at the first look.
    so_far: Duration,
    phase: Phase,
    denied: u64,
    tokens: u64,
    limit: Option<String>,
}

impl LiveStatus {
    /// A run that has gone on for a while.
    pub fn after(so_far: Duration) -> Self {
        Self { so_far, phase: Phase::Preparing, denied: 0, tokens: 0, limit: None }
    }

    /// Something has happened.
    pub fn count(&mut self, event: &Event) {
        match &event.what {
            EventKind::Usage(usage) => self.tokens += usage.tokens(),
            EventKind::Decision { answer: Answer::Deny, .. } => self.denied += 1,
            EventKind::Limit { limit, used, of, .. } => {
                self.limit = Some(format!("{limit} {used} of {of}"));
            }
            EventKind::Phase { phase } => self.phase = *phase,
            EventKind::Session { .. }
            | EventKind::Announced
            | EventKind::Turn { .. }
            | EventKind::Text { .. } => {}
            EventKind::Thinking { .. }
            | EventKind::ToolCall { .. }
            | EventKind::ToolResult { .. } => {}
            EventKind::Decision { .. } | EventKind::Check { .. } => {}
            EventKind::Warning { .. } | EventKind::Notification { .. } => {}
            EventKind::FileChange { .. } | EventKind::Command { .. } => {}
            EventKind::Mcp { .. } | EventKind::SubAgent { .. } | EventKind::Approval { .. } => {}
            EventKind::Message { .. }
            | EventKind::Error { .. }
            | EventKind::Ended { .. }
            | EventKind::Other => {}
        }
    }

    /// The run enters this phase.
    pub fn enter(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// The status as one line, this long after the first look.
    pub fn line(&self, since: Duration) -> String {
        let phase = match self.phase {
            Phase::Preparing => "preparing",
            Phase::SelfTest => "trying out the gate",
            Phase::Working => "working",
            Phase::Verifying => "verifying",
            Phase::Over => "over",
        };
        let mut text = format!("{} {phase}", elapsed(self.so_far.saturating_add(since)));
        if self.tokens > 0 {
            text += &format!(" · {}", counted(self.tokens, "token"));
        }
        if self.denied > 0 {
            text += &format!(" · {} denied", self.denied);
        }
        if let Some(limit) = &self.limit {
            text += &format!(" · {limit}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_model::event::{ReportedBy, Usage};

    use super::*;

    #[test]
    fn live_status_counts_the_time_before_it_started() {
        let event = |what| Event {
            number: 1,
            at: 0,
            reported_by: ReportedBy::Supervisor,
            agent: None,
            what,
            raw: None,
        };
        let mut status = LiveStatus::after(Duration::from_secs(62));
        assert!(status.line(Duration::ZERO).ends_with(" preparing"));
        status.count(&event(EventKind::Phase { phase: Phase::Working }));
        status.count(&event(EventKind::Usage(Usage { input: 40, output: 2, ..Usage::default() })));
        let line = status.line(Duration::from_secs(1));
        let expected = format!("{} working · 42 tokens", elapsed(Duration::from_secs(63)));
        assert_eq!(line, expected);
    }
}
