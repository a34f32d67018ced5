//! Retries of a write that failed, until it is given up.

use bailiwick_resources::{Moment, WriteBackRecord};

use super::records::failed;
use crate::controllers::ReconcileError;
use crate::controllers::backoff::{WRITES, retry_at};
use crate::ports::ForgeError;

/// How long a write waits for its forge, or for a person who has to fix the account of the token, in milliseconds. A
/// server that was stopped meanwhile tries once more.
const RETRY_DEADLINE: u64 = 7 * 24 * 60 * 60 * 1000;
/// When it is tried again with the same credential: the account may have been fixed on the forge.
const ACCOUNT_RETRY: u64 = 10 * 60 * 1000;

/// The record of a write that failed: retried later, or given up.
pub(super) fn after_failed_try(
    record: WriteBackRecord,
    error: &ReconcileError,
    now: Moment,
) -> WriteBackRecord {
    let permanent = matches!(
        error,
        ReconcileError::Forge(
            ForgeError::Refused(_) | ForgeError::Moved { .. } | ForgeError::Unsupported(_),
        ) | ReconcileError::Object(_)
    );
    let tries = record.tries.saturating_add(1);
    let since = record.tried_since.unwrap_or(now);
    let needs_person = matches!(
        error,
        ReconcileError::Forge(ForgeError::Account(_)) | ReconcileError::Credential { .. }
    );
    let is_late = now >= since.plus_millis(RETRY_DEADLINE);
    if needs_person && !is_late {
        return WriteBackRecord {
            tried_since: Some(since),
            next_try_at: Some(now.plus_millis(ACCOUNT_RETRY)),
            credential_rejected_at: Some(now),
            detail: error.to_string(),
            ..record
        };
    }
    let mut record = WriteBackRecord { tries, tried_since: Some(since), ..record };
    if permanent {
        return failed(record, &error.to_string());
    }
    if is_late {
        return failed(record, &format!("given up after {tries} tries: {error}"));
    }
    record.next_try_at = Some(retry_at(now, WRITES, tries.saturating_sub(1)));
    record.detail = format!("tried {tries} times: {error}");
    record
}
