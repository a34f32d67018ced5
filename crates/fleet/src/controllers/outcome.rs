//! How runs, attempts and sub-agents end: a code and a detail. Statuses store both as one text, `code: detail`, and
//! the code alone beside it. Only records that were stored before the code are read by their text, and only here.

use std::fmt;

use bailiwick_resources::{
    AgentDispatchAttemptStatus, AttemptReason, ExitState, RunPhase, SubagentEvent,
};

use crate::ports::{Launched, LaunchedState};

/// Why a run ended without success, as a code for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndCode {
    /// Its secrets are unknown, so that nothing its agent wrote could be stored.
    RedactionFailed,
    /// No pool had room in time.
    QueueTimeout,
    /// Its attempt could not be launched.
    LaunchFailed,
    /// It is not permitted any more.
    PermissionsChanged,
    /// Its work could not be stored.
    PatchMissing,
    /// It was for a review, and returned none that can be stored.
    ReviewArtifactInvalid,
    /// A sub-agent that must succeed did not.
    RequiredSubagentFailed,
    /// A sub-agent returned something else than its contract requires.
    ContractBroken,
    /// The forge did not take a result.
    WriteBackFailed,
    /// A person or a rule refused a result.
    WriteBackDenied,
}

impl EndCode {
    fn as_str(self) -> &'static str {
        match self {
            Self::RedactionFailed => "RedactionFailed",
            Self::QueueTimeout => "QueueTimeout",
            Self::LaunchFailed => "LaunchFailed",
            Self::PermissionsChanged => "PermissionsChanged",
            Self::PatchMissing => "PatchMissing",
            Self::ReviewArtifactInvalid => "ReviewArtifactInvalid",
            Self::RequiredSubagentFailed => "RequiredSubagentFailed",
            Self::ContractBroken => "ContractBroken",
            Self::WriteBackFailed => "WriteBackFailed",
            Self::WriteBackDenied => "WriteBackDenied",
        }
    }

    /// The end of a run that failed for this reason.
    pub(super) fn because(self, detail: impl Into<String>) -> RunEnd {
        RunEnd { phase: RunPhase::Failed, code: Some(self), detail: detail.into() }
    }
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunEnd {
    pub(super) phase: RunPhase,
    pub(super) code: Option<EndCode>,
    detail: String,
}

impl RunEnd {
    pub(super) fn new(phase: RunPhase, detail: impl Into<String>) -> Self {
        Self { phase, code: None, detail: detail.into() }
    }

    pub(super) fn failed(detail: impl Into<String>) -> Self {
        Self::new(RunPhase::Failed, detail)
    }

    pub(super) fn cancelled(detail: impl Into<String>) -> Self {
        Self::new(RunPhase::Cancelled, detail)
    }
}

impl fmt::Display for RunEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(formatter, "{}: {}", code.as_str(), self.detail),
            None => formatter.write_str(&self.detail),
        }
    }
}

/// How the agent of an attempt ended, as `status.exitReason` stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExitReason {
    /// Nothing where the attempt was never launched.
    state: Option<LaunchedState>,
    detail: String,
}

impl ExitReason {
    /// The end that the engine reports: the first line of the verdict, or else of its own detail.
    pub(super) fn of(launched: &Launched) -> Self {
        let verdict = launched.work.as_ref().map(|work| work.verdict.as_str());
        let detail = verdict.unwrap_or(&launched.detail).lines().next().unwrap_or_default();
        Self { state: Some(launched.state), detail: detail.to_owned() }
    }

    /// Reads what `Display` wrote.
    fn parse(stored: &str) -> Self {
        let (word, detail) = stored.split_once(": ").unwrap_or((stored, ""));
        let state = LaunchedState::ALL.into_iter().find(|state| state.as_str() == word);
        let detail = if state.is_some() { detail } else { stored };
        Self { state, detail: detail.to_owned() }
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state {
            None => formatter.write_str(&self.detail),
            Some(state) if self.detail.is_empty() => formatter.write_str(state.as_str()),
            Some(state) => write!(formatter, "{}: {}", state.as_str(), self.detail),
        }
    }
}

/// The reason of the next attempt when a person retries a run: a repair, with the verdict, after work that did not
/// pass its checks; else a plain retry.
pub fn reason_for_retry(last: &AgentDispatchAttemptStatus) -> (AttemptReason, Option<String>) {
    let stored = last.exit_reason.as_deref().map(ExitReason::parse);
    let state_in_text = || stored.as_ref().and_then(|reason| reason.state?.exit_state());
    match last.exit_state.or_else(state_in_text) {
        Some(ExitState::Rejected) => {
            let verdict = stored.map(|reason| reason.detail).filter(|detail| !detail.is_empty());
            verdict.map_or((AttemptReason::Retry, None), |verdict| {
                (AttemptReason::Repair, Some(verdict))
            })
        }
        Some(
            ExitState::Verified
            | ExitState::Failed
            | ExitState::Stopped
            | ExitState::BudgetExhausted
            | ExitState::EnforcementLost,
        )
        | None => (AttemptReason::Retry, None),
    }
}

/// The text of a sub-agent's event in `status.subagentEvents[].what` of its parent's attempt.
pub(super) fn subagent_event_text(phase: RunPhase, detail: Option<&str>) -> String {
    match detail {
        Some(detail) => format!("{}: {detail}", phase.as_str()),
        None => phase.as_str().to_owned(),
    }
}

/// The phase that a stored event of a sub-agent is about; nothing where it names none.
pub(super) fn subagent_event_phase(event: &SubagentEvent) -> Option<RunPhase> {
    event.phase.or_else(|| phase_in_text(event))
}

/// The phase of an event that was stored before events had a field for it.
fn phase_in_text(event: &SubagentEvent) -> Option<RunPhase> {
    let word = event.what.split_once(':').map_or(event.what.as_str(), |(word, _)| word);
    RunPhase::ALL.into_iter().find(|phase| phase.as_str() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_reason_survives_a_round_trip() {
        for state in LaunchedState::ALL {
            for detail in ["", "scope does not hold", "rejected: not this"] {
                let reason = ExitReason { state: Some(state), detail: detail.to_owned() };
                assert_eq!(ExitReason::parse(&reason.to_string()), reason);
            }
        }
        let not_launched =
            ExitReason { state: None, detail: "LaunchFailed: no program".to_owned() };
        assert_eq!(ExitReason::parse(&not_launched.to_string()), not_launched);
    }

    #[test]
    fn only_rejected_work_is_repaired() {
        let ended = |exit_state, exit_reason: &str| AgentDispatchAttemptStatus {
            exit_state,
            exit_reason: Some(exit_reason.to_owned()),
            ..AgentDispatchAttemptStatus::default()
        };
        for state in LaunchedState::ALL {
            let reason = ExitReason { state: Some(state), detail: "why".to_owned() }.to_string();
            let expected = match state == LaunchedState::Rejected {
                true => (AttemptReason::Repair, Some("why".to_owned())),
                false => (AttemptReason::Retry, None),
            };
            assert_eq!(reason_for_retry(&ended(state.exit_state(), &reason)), expected);
            let stored_before_exit_state = ended(None, &reason);
            assert_eq!(reason_for_retry(&stored_before_exit_state), expected);
        }
        assert_eq!(
            reason_for_retry(&AgentDispatchAttemptStatus::default()).0,
            AttemptReason::Retry
        );
    }

    #[test]
    fn wording_of_an_exit_reason_decides_nothing() {
        let ended = |exit_state, exit_reason: &str| {
            let exit_reason = Some(exit_reason.to_owned());
            let status = AgentDispatchAttemptStatus::default();
            reason_for_retry(&AgentDispatchAttemptStatus { exit_state, exit_reason, ..status })
        };
        let repair = (AttemptReason::Repair, Some("the checks failed".to_owned()));
        assert_eq!(ended(Some(ExitState::Rejected), "the checks failed"), repair);
        let retry = (AttemptReason::Retry, None);
        assert_eq!(ended(Some(ExitState::Failed), "rejected: the checks failed"), retry);
    }

    #[test]
    fn subagent_event_survives_a_round_trip() {
        for phase in RunPhase::ALL {
            for detail in [None, Some("succeeded: no")] {
                let mut event = SubagentEvent {
                    run: "adr-1".to_owned(),
                    subagent: "helper".to_owned(),
                    what: subagent_event_text(phase, detail),
                    phase: Some(phase),
                    at: Default::default(),
                };
                let stored: serde_json::Value = serde_json::to_value(&event).unwrap();
                event.what = "in other words".to_owned();
                assert_eq!(subagent_event_phase(&event), Some(phase));
                let mut before_the_field = stored;
                before_the_field.as_object_mut().unwrap().remove("phase");
                let event = serde_json::from_value(before_the_field).unwrap();
                assert_eq!(subagent_event_phase(&event), Some(phase));
            }
        }
    }
}
