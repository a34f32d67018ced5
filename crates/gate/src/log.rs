//! The log of decisions: one line each, appended in one write.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bailiwick_policy::record::Record;

use crate::error::LogError;

/// Appends a decision to a log.
pub fn append(path: &Path, record: &Record) -> Result<(), LogError> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(&line))
        .map_err(|error| LogError::Write { path: path.to_owned(), error })
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
