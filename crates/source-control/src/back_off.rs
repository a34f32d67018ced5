//! Waiting before another attempt.

use std::time::Duration;

/// Waits longer after each attempt. Processes that wait for each other differ, so that they do not meet again.
pub(crate) async fn back_off(attempt: u32) {
    let base = 20_u64 << attempt.min(6);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| u64::from(since.subsec_nanos()));
    let jitter = ((nanos / 1000) ^ u64::from(std::process::id())) % base;
    tokio::time::sleep(Duration::from_millis(base / 2 + jitter)).await;
}
