//! The time, and the ids of requests and objects.

use std::time::{SystemTime, UNIX_EPOCH};

use bailiwick_resources::Moment;
use hyper::HeaderMap;
use hyper::header::HeaderName;

pub(crate) const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");

pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The id that connects a response with its log lines: the one that the client sent, if it is valid.
pub(crate) fn correlation(headers: &HeaderMap) -> String {
    let is_valid = |text: &&str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let sent = headers.get(&CORRELATION).and_then(|value| value.to_str().ok()).filter(is_valid);
    sent.map_or_else(random_id, str::to_owned)
}

fn random_id() -> String {
    let mut bytes = [0_u8; 12];
    // Without random bytes the id is all zeros, which is harmless.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A unique id. Without random bytes only the time makes it unique.
pub(crate) fn unique_id(at: Moment) -> String {
    format!("{:x}-{}", at.millis(), random_id())
}
