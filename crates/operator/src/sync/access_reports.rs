//! What was reported to the control plane of bindings, so that only news and what grows old is reported.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_resources::AccessReport;

/// How often a binding is looked at, although nothing has changed.
pub(super) const REVIEW_INTERVAL: Duration = Duration::from_secs(300);
/// The age at which a report is repeated. The control plane counts on an answer for 15 minutes.
const REPORT_AGE: Duration = Duration::from_secs(240);

/// The newest reports, by binding.
#[derive(Default)]
pub(super) struct AccessReports {
    known: Mutex<BTreeMap<String, (AccessReport, Instant)>>,
}

impl AccessReports {
    /// Whether a report has to be sent.
    pub(super) fn is_due(&self, binding: &str, report: &AccessReport) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(binding).is_none_or(|(sent, at)| sent != report || at.elapsed() >= REPORT_AGE)
    }

    /// Notes that it was sent.
    pub(super) fn sent(&self, binding: &str, report: AccessReport) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(binding.to_owned(), (report, Instant::now()));
    }
}
