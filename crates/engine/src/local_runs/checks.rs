//! The verifications of an agent's work, as the ledger has them.

use bailiwick_fleet::ports::{LocalCheck, LocalRunError, LocalVerification, LocalVerifications};
use bailiwick_model::{LedgerNote, Run};
use bailiwick_resources::Moment;
use bailiwick_store::Event;
use bailiwick_verify::Pass;

use super::{LedgerRuns, store_error};
use crate::verifying::VerificationReport;

impl LedgerRuns {
    pub(super) fn read_verifications(
        &self,
        run: &Run,
    ) -> Result<LocalVerifications, LocalRunError> {
        let notes = self.open()?.with(async |store| store.notes(&run.id).await);
        let notes = notes.map_err(store_error)?;
        Ok(LocalVerifications { items: notes.iter().rev().filter_map(verification).collect() })
    }
}

/// None if the note is about something else.
fn verification(note: &Event) -> Option<LocalVerification> {
    if !note.is(LedgerNote::Verified) && !note.is(LedgerNote::VerificationFailed) {
        return None;
    }
    let report: VerificationReport = serde_json::from_str(&note.detail).ok()?;
    let failed = report.failed.into_iter().map(|failed| LocalCheck {
        capability: failed.capability,
        merged: failed.pass == Pass::SimulatedMerge,
        passed: false,
        found: failed.reason,
        output: failed.detail,
        reused: false,
    });
    let passed = report.passed.into_iter().map(|passed| LocalCheck {
        capability: passed.capability,
        merged: passed.pass == Pass::SimulatedMerge,
        passed: true,
        found: passed.evidence,
        output: None,
        reused: passed.reused,
    });
    Some(LocalVerification {
        at: Moment::from_millis(u64::try_from(note.at).unwrap_or_default()),
        base_branch: report.base_branch.unwrap_or_default(),
        base: report.base.unwrap_or_default(),
        work: report.work.unwrap_or_default(),
        tree: report.worktree_tree.unwrap_or_default(),
        merged_tree: report.merged_tree.unwrap_or_default(),
        checks: failed.chain(passed).collect(),
        left_out: report.left_out,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn verification_has_evidence_and_lists_failed_checks_first() {
        let detail = json!({
            "agent_id": "a", "base_branch": "refs/heads/main", "base": "b", "work": "w",
            "worktree_tree": "t", "merged_tree": "m",
            "passed": [{ "capability": "scope::files-whitelist", "pass": "worktree",
                "evidence": "1 file", "reused": true }],
            "failed": [{ "capability": "quality::tests-green", "pass": "simulated-merge",
                "reason": "2 failed", "detail": "output" }],
            "left_out": [],
        });
        let note = |kind: LedgerNote| Event {
            run: "a".to_owned(),
            number: 1,
            at: 7,
            kind: kind.as_str().to_owned(),
            detail: detail.to_string(),
        };
        let read = verification(&note(LedgerNote::VerificationFailed)).unwrap();
        assert_eq!((read.checks[0].passed, read.checks[0].merged), (false, true));
        assert_eq!(read.checks[0].output.as_deref(), Some("output"));
        assert_eq!((read.checks[1].found.as_str(), read.checks[1].reused), ("1 file", true));
        assert_eq!(verification(&note(LedgerNote::Landed)), None);
    }
}
