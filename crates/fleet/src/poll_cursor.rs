//! The position up to which a forge was polled, as `status.pollCursor` stores it. Programs of other versions ignore
//! fields that they do not know, so that several versions can run at the same time.

use bailiwick_resources::{ForgeKind, Moment, Repository, RepositoryStatus};
use serde::{Deserialize, Serialize};

/// How often a refused webhook is noted, in milliseconds: each one is a write to the store.
const NOTE_INTERVAL: u64 = 60_000;

/// The position in each list of a forge, and what makes a poll necessary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PollCursor {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedWebhooks>,
}

/// The times of the first and the last webhook that were refused because of their size, since the last poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedWebhooks {
    pub first: Moment,
    pub last: Moment,
}

impl PollCursor {
    pub fn of(status: &RepositoryStatus) -> Self {
        let Some(text) = status.poll_cursor.as_deref() else { return Self::default() };
        // Earlier versions polled checks only.
        let of_checks = || Self { checks: Some(text.to_owned()), ..Self::default() };
        serde_json::from_str(text).unwrap_or_else(|_| of_checks())
    }

    pub fn store(&self, status: &mut RepositoryStatus) {
        let text = || serde_json::to_string(self).ok();
        status.poll_cursor = (*self != Self::default()).then(text).flatten();
    }

    /// Starts from the last known event where there is no cursor yet. Checks of a repository that is polled only
    /// after a downtime always start there: its cursor is as old as the last start of the server.
    pub fn start_from(&mut self, since: Option<String>, also_checks: bool) {
        if also_checks && since.is_some() {
            self.checks.clone_from(&since);
        }
        if self.activity.is_none() {
            self.activity = since;
        }
    }

    /// Notes a webhook that was refused because of its size, so that the forge is polled: it will not send less.
    /// False if that was noted a moment ago.
    pub fn note_refused_webhook(&mut self, now: Moment) -> bool {
        let first = match self.refused {
            Some(noted) if now < noted.last.plus_millis(NOTE_INTERVAL) => return false,
            Some(noted) => noted.first,
            None => now,
        };
        self.refused = Some(RefusedWebhooks { first, last: now });
        true
    }

    /// Removes the refused webhooks that a poll has dealt with. Those that were refused meanwhile need another poll.
    pub fn forget_refused_webhooks(&mut self, polled: Option<RefusedWebhooks>) {
        self.refused = match (self.refused, polled) {
            (Some(noted), Some(polled)) if noted.last > polled.last => {
                Some(RefusedWebhooks { first: polled.last, last: noted.last })
            }
            (_, Some(_)) => None,
            (noted, None) => noted,
        };
    }
}

/// Whether the forge of a repository that sends webhooks can be polled.
pub fn can_poll_for_webhooks(repository: &Repository) -> bool {
    match repository.forge {
        ForgeKind::Github | ForgeKind::Gitea => {
            repository.webhook_secret_ref.is_some() && repository.credential_ref.is_some()
        }
        ForgeKind::Generic | ForgeKind::Local => false,
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::{Moment, RepositoryStatus};

    use super::{PollCursor, RefusedWebhooks};

    fn status(cursor: Option<&str>) -> RepositoryStatus {
        RepositoryStatus { poll_cursor: cursor.map(str::to_owned), ..RepositoryStatus::default() }
    }

    fn at(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    #[test]
    fn cursor_of_an_earlier_version_is_a_cursor_of_checks() {
        let old = "2026-11-17T20:00:00Z|5.1,6.1";
        let cursor = PollCursor::of(&status(Some(old)));
        let expected = PollCursor { checks: Some(old.to_owned()), ..PollCursor::default() };
        assert_eq!(cursor, expected);
        let mut stored = status(None);
        cursor.store(&mut stored);
        assert_eq!(PollCursor::of(&stored), cursor);
        PollCursor::default().store(&mut stored);
        assert_eq!(stored.poll_cursor, None);
    }

    #[test]
    fn cursor_of_a_later_version_can_be_read() {
        let cursor = PollCursor::of(&status(Some(r#"{ "activity": "a", "later": { "x": 1 } }"#)));
        assert_eq!(cursor.activity.as_deref(), Some("a"));
    }

    #[test]
    fn missing_cursors_and_requested_checks_start_from_the_last_event() {
        let (old, last) = (Some("old".to_owned()), Some("last".to_owned()));
        let known =
            || PollCursor { checks: old.clone(), activity: old.clone(), ..PollCursor::default() };
        for (mut cursor, also_checks, checks, activity) in [
            (PollCursor::default(), false, None, last.clone()),
            (known(), false, old.clone(), old.clone()),
            (known(), true, last.clone(), old.clone()),
        ] {
            cursor.start_from(last.clone(), also_checks);
            assert_eq!(cursor, PollCursor { checks, activity, ..PollCursor::default() });
        }
        let mut cursor = known();
        cursor.start_from(None, true);
        assert_eq!(cursor, known());
    }

    #[test]
    fn refused_webhooks_are_noted_once_a_minute_until_a_poll_has_dealt_with_them() {
        let mut cursor = PollCursor::default();
        assert!(cursor.note_refused_webhook(at(1_000)));
        assert!(!cursor.note_refused_webhook(at(60_999)));
        let polled = cursor.refused;
        assert_eq!(polled, Some(RefusedWebhooks { first: at(1_000), last: at(1_000) }));
        assert!(cursor.note_refused_webhook(at(61_000)));
        assert_eq!(cursor.refused, Some(RefusedWebhooks { first: at(1_000), last: at(61_000) }));
        // The last one came during the poll.
        cursor.forget_refused_webhooks(polled);
        assert_eq!(cursor.refused, Some(RefusedWebhooks { first: at(1_000), last: at(61_000) }));
        cursor.forget_refused_webhooks(None);
        assert!(cursor.refused.is_some(), "the first one came during a poll for something else");
        cursor.forget_refused_webhooks(cursor.refused);
        assert_eq!(cursor.refused, None);
    }
}
