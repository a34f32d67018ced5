//! The time of the server, which pages show ages by.

use bailiwick_resources::Moment;

pub(crate) fn now() -> Moment {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    Moment::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}
