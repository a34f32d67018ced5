//! Whether this machine can prepare what it claims. If it cannot, for example because its disk is full, it claims
//! nothing for a while: others can.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_model::backoff::Backoff;

use crate::failure::Failure;

/// How long it claims nothing after a failure.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));
/// How much is written to see whether there is room.
const TRIAL_BYTES: usize = 1024 * 1024;

/// The failures since the last attempt that was begun here.
#[derive(Debug, Default)]
pub(super) struct Preparation(Mutex<Option<Pause>>);

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    failures: u32,
}

impl Preparation {
    fn pause(&self) -> MutexGuard<'_, Option<Pause>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failed(&self, now: Instant) {
        let mut pause = self.pause();
        let failures = pause.map_or(0, |pause| pause.failures);
        let until = now + BACKOFF.delay(failures);
        *pause = Some(Pause { until, failures: failures.saturating_add(1) });
    }

    pub(super) fn succeeded(&self) {
        *self.pause() = None;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.pause().is_some()
    }

    pub(super) fn rests(&self, now: Instant) -> bool {
        self.pause().is_some_and(|pause| now < pause.until)
    }
}

/// Checks that repositories can be written: writes a temporary file into their directory.
pub(super) fn try_to_write(directory: &Path) -> Result<(), Failure> {
    let place = directory.join("repositories");
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(&place)?;
        let mut file = tempfile::tempfile_in(&place)?;
        file.write_all(&vec![0; TRIAL_BYTES])?;
        file.sync_all()
    };
    write().map_err(|error| {
        Failure::general(format!("{} cannot be written: {error}", place.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_with_each_failure_and_ends_with_a_success() {
        let (preparation, now) = (Preparation::default(), Instant::now());
        assert!(!preparation.has_failed() && !preparation.rests(now));
        for seconds in [2, 4, 8, 16, 32, 60, 60] {
            preparation.failed(now);
            let end = now + Duration::from_secs(seconds);
            assert!(preparation.rests(end - Duration::from_millis(1)) && !preparation.rests(end));
        }
        assert!(preparation.has_failed());
        preparation.succeeded();
        assert!(!preparation.has_failed() && !preparation.rests(now));
    }

    #[test]
    fn path_that_is_a_file_is_not_writable_as_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        try_to_write(directory.path()).unwrap();
        std::fs::remove_dir(directory.path().join("repositories")).unwrap();
        std::fs::write(directory.path().join("repositories"), "").unwrap();
        assert!(try_to_write(directory.path()).is_err());
    }
}
