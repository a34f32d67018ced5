//! A run as a check of the commit that it works on: reported as everything else is, by write-back.

use bailiwick_resources::RunPhase;

use crate::ports::{CheckState, WriteBack};

/// The maximum length that every forge accepts.
const MAX_DESCRIPTION_LENGTH: usize = 140;

/// The report of a run.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The name of the rule or the stack.
    pub name: &'a str,
    /// The commit it works on.
    pub sha: &'a str,
    pub phase: RunPhase,
    /// Why, in words.
    pub reason: &'a str,
    /// A link to details.
    pub url: Option<&'a str>,
}

/// The status that reports a run.
pub fn check_status(report: &Report<'_>) -> WriteBack {
    let (state, words) = match report.phase {
        RunPhase::Pending | RunPhase::Queued => (CheckState::Pending, "waits for its turn"),
        RunPhase::Running => (CheckState::Pending, "is running"),
        RunPhase::WaitingForApproval => (CheckState::Pending, "waits for a person"),
        RunPhase::Succeeded => (CheckState::Success, "is done"),
        RunPhase::Failed => (CheckState::Failure, "failed"),
        RunPhase::Cancelled => (CheckState::Error, "was cancelled"),
    };
    // Untrusted text is redacted before it is cut.
    let reason = bailiwick_model::secret::redacted(report.reason);
    let line = if reason.is_empty() { words.to_owned() } else { format!("{words}: {reason}") };
    let line: String = line.split_whitespace().collect::<Vec<_>>().join(" ");
    WriteBack::CheckStatus {
        sha: report.sha.to_owned(),
        context: format!("bailiwick/{}", report.name),
        state,
        description: line.chars().take(MAX_DESCRIPTION_LENGTH).collect(),
        url: report.url.map(str::to_owned),
    }
}
