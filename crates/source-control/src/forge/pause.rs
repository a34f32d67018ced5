//! Pauses that forges ask for by `Retry-After`: until a pause ends, that account sends no request to that host.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// The pauses of this process. Clients are opened for each use, so that they cannot keep them.
pub(super) static PAUSES: LazyLock<Pauses> = LazyLock::new(Pauses::default);

/// A longer pause is cut: a forge, or a proxy before it, could name any time.
const MAX_PAUSE: Duration = Duration::from_secs(3600);
/// The pause after a rate limit that names no time.
pub(super) const DEFAULT_PAUSE: Duration = Duration::from_secs(60);

/// Until when each account waits.
#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<BTreeMap<String, Instant>>);

impl Pauses {
    pub(super) fn begin(&self, account: &str, length: Duration, now: Instant) {
        if let Some(until) = now.checked_add(length.min(MAX_PAUSE)) {
            self.all().insert(account.to_owned(), until);
        }
    }

    /// How long an account must still wait.
    pub(super) fn remaining(&self, account: &str, now: Instant) -> Option<Duration> {
        let mut all = self.all();
        all.retain(|_, until| *until > now);
        all.get(account).map(|until| until.duration_since(now))
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The length of a pause by the header `Retry-After`: seconds, or a date.
pub(super) fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds).min(MAX_PAUSE));
    }
    let until = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp();
    let length = Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
    Some(length.min(MAX_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date_and_is_bounded() {
        let now: Timestamp = "2026-11-17T20:00:00Z".parse().unwrap();
        let read = |text: &str| retry_after(text, now).map(|length| length.as_secs());
        assert_eq!(read(" 90 "), Some(90));
        assert_eq!(read("Tue, 17 Nov 2026 20:01:30 GMT"), Some(90));
        assert_eq!(read("Tue, 17 Nov 2026 19:01:30 GMT"), Some(0), "it has passed");
        assert_eq!(read("86400"), Some(3600));
        assert_eq!(read("Wed, 17 Nov 2027 20:01:30 GMT"), Some(3600));
        for wrong in ["", "-1", "soon", "1.5"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn pause_ends_by_itself_and_applies_to_one_account() {
        let (pauses, now) = (Pauses::default(), Instant::now());
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        pauses.begin("a", second, now);
        assert_eq!(pauses.remaining("a", now), Some(second));
        assert_eq!(pauses.remaining("b", now), None);
        assert_eq!(pauses.remaining("a", now + second), None);
        pauses.begin("a", hour * 24, now);
        assert_eq!(pauses.remaining("a", now), Some(hour));
    }
}
