//! Waiting before another attempt.

use std::time::Duration;

use bailiwick_model::backoff::Backoff;

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(1280));

/// Waits longer after each attempt. Processes that wait for each other differ, so that they do not meet again.
pub(crate) async fn back_off(attempt: u32) {
    let delay = BACKOFF.delay(attempt);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| u64::from(since.subsec_nanos()));
    let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX).max(1);
    let jitter = ((nanos / 1000) ^ u64::from(std::process::id())) % millis;
    tokio::time::sleep(delay / 2 + Duration::from_millis(jitter)).await;
}
