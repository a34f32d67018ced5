//! What an agent does or waits for, and the next command for a person.

use bailiwick_fleet::ports::{LocalRunGroup, LocalRunStage};
use bailiwick_model::event::{ExitReason, Phase};
use bailiwick_model::{Attempt, LedgerNote, Run, RunStatus};
use bailiwick_store::Event;
use serde::Serialize;

use crate::agent_state::AgentState;

/// The endings of an agent whose run is quarantined.
pub const QUARANTINED: [ExitReason; 2] = [ExitReason::EnforcementLost, ExitReason::Denied];

/// What an agent does or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitingFor {
    Ready,
    Working,
    WaitingForApproval,
    Interrupted,
    /// A limit may not have applied, or its role ended it: a person rejects it or tries its task again.
    Quarantined,
    Finished,
    Verified,
    ChecksFailed,
    NothingChanged,
}

impl WaitingFor {
    /// By the notes of the run; none for an agent that waits for nothing: its work has landed or was rejected.
    pub fn of(
        run: &Run,
        state: AgentState,
        last: Option<&Attempt>,
        notes: &[Event],
    ) -> Option<Self> {
        match state {
            AgentState::Ready | AgentState::Running => Some(Self::Ready),
            AgentState::AtWork => Some(Self::Working),
            AgentState::Asks => Some(Self::WaitingForApproval),
            AgentState::Done => Some(Self::found(notes, last).unwrap_or(Self::Finished)),
            AgentState::Ended(ending) if QUARANTINED.contains(&ending) => {
                // A person who removed its files has decided.
                let is_removed = notes.iter().any(|note| note.is(LedgerNote::FilesRemoved));
                (!is_removed).then_some(Self::Quarantined)
            }
            // A run that failed for good cannot be resumed.
            AgentState::Ended(_) | AgentState::Failed if run.status != RunStatus::Failed => {
                Some(Self::Interrupted)
            }
            AgentState::Ended(_)
            | AgentState::Failed
            | AgentState::HalfSpawned
            | AgentState::Merged
            | AgentState::RolledBack
            | AgentState::Rejected => None,
        }
    }

    /// The result of the last verification of a run, if the agent has not worked since.
    fn found(events: &[Event], last: Option<&Attempt>) -> Option<Self> {
        let since = last.map_or(0, |attempt| attempt.started_at);
        let recent = |event: &&Event| u64::try_from(event.at).is_ok_and(|at| at >= since);
        let recent: Vec<&Event> = events.iter().rev().take_while(recent).collect();
        let found = recent.iter().find_map(|event| match LedgerNote::parse(&event.kind)? {
            LedgerNote::Verified => Some(Self::Verified),
            LedgerNote::VerificationFailed => Some(Self::ChecksFailed),
            LedgerNote::NothingChanged => Some(Self::NothingChanged),
            LedgerNote::Landed
            | LedgerNote::Proposed
            | LedgerNote::Rebased
            | LedgerNote::RolledBack
            | LedgerNote::Title
            | LedgerNote::FilesRemoved
            | LedgerNote::LockRevoked => None,
        });
        match found {
            // Checks of nothing pass, and there is nothing to land.
            Some(Self::Verified)
                if recent.iter().any(|event| event.is(LedgerNote::NothingChanged)) =>
            {
                Some(Self::NothingChanged)
            }
            found => found,
        }
    }

    /// The words for it, where the state of the agent says less.
    pub fn words(self) -> Option<&'static str> {
        match self {
            Self::Verified => Some("checks passed"),
            Self::ChecksFailed => Some("checks failed"),
            Self::NothingChanged => Some("nothing changed"),
            Self::Ready
            | Self::Working
            | Self::WaitingForApproval
            | Self::Interrupted
            | Self::Quarantined
            | Self::Finished => None,
        }
    }

    /// The next command for a person, without the name of the program and of the agent.
    pub fn next_command(self) -> &'static str {
        match self {
            Self::Ready => "run",
            Self::Working => "logs -f",
            Self::WaitingForApproval => "attach",
            Self::Interrupted => "resume",
            Self::Finished => "verify",
            Self::Verified => "land",
            Self::Quarantined | Self::ChecksFailed => "respawn",
            Self::NothingChanged => "rm",
        }
    }

    /// How far the work of an agent is.
    pub fn stage(
        waiting: Option<Self>,
        state: AgentState,
        last: Option<&Attempt>,
    ) -> LocalRunStage {
        match waiting {
            Some(Self::Working) => match last.map(|attempt| attempt.phase) {
                Some(Phase::Verifying) => LocalRunStage::Verifying,
                Some(Phase::Preparing | Phase::SelfTest | Phase::Working | Phase::Over) | None => {
                    LocalRunStage::Working
                }
            },
            Some(Self::Ready | Self::WaitingForApproval | Self::Interrupted | Self::Finished) => {
                LocalRunStage::NeedsYou
            }
            Some(Self::Verified) => LocalRunStage::ReadyToLand,
            None if state == AgentState::Merged => LocalRunStage::Landed,
            Some(Self::Quarantined | Self::ChecksFailed | Self::NothingChanged) | None => {
                LocalRunStage::Failed
            }
        }
    }

    /// Whether a person must do something.
    pub fn group(waiting: Option<Self>) -> LocalRunGroup {
        match waiting {
            Some(Self::Ready) => LocalRunGroup::Ready,
            Some(Self::Working) => LocalRunGroup::Working,
            Some(
                Self::WaitingForApproval
                | Self::Interrupted
                | Self::Quarantined
                | Self::Finished
                | Self::Verified
                | Self::ChecksFailed,
            ) => LocalRunGroup::NeedsYou,
            Some(Self::NothingChanged) | None => LocalRunGroup::Ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_model::attempt::{Allowance, Used};
    use bailiwick_model::{AgentId, RunState};

    use super::*;
    use crate::agent_state::SupervisorState;

    fn run(status: RunStatus) -> Run {
        let id = AgentId::parse("fix-42").unwrap();
        Run {
            id: id.clone(),
            branch: "agent/fix-42".to_owned(),
            parent_branch: None,
            spec_sha: String::new(),
            status,
            started_ts: 0,
            finished_ts: None,
            summary: None,
            worktree_path: None,
            dna: None,
            creator_id: None,
            fork_parent_id: None,
            cost_cents: 0,
            provider: String::new(),
            model: String::new(),
            half_spawned: false,
            base: None,
            name: id,
            repository: None,
            state: match status {
                RunStatus::Running => RunState::Running,
                RunStatus::Done => RunState::Done,
                RunStatus::Failed => RunState::Failed,
                RunStatus::Merged => RunState::Merged,
                RunStatus::Rejected => RunState::Rejected,
            },
        }
    }

    fn attempt(ending: ExitReason) -> Attempt {
        Attempt {
            run: AgentId::parse("fix-42").unwrap(),
            number: 1,
            cli: "claude".to_owned(),
            version: String::new(),
            model: String::new(),
            login: String::new(),
            sandbox: String::new(),
            session: None,
            phase: Phase::Over,
            ending: Some(ending),
            detail: String::new(),
            exhausted: None,
            started_at: 10,
            ended_at: Some(20),
            used: Used::default(),
            budget: Allowance::default(),
        }
    }

    fn note(note: LedgerNote) -> Event {
        let (run, kind) = ("fix-42".to_owned(), note.to_string());
        Event { run, number: 1, at: 30, kind, detail: String::new() }
    }

    /// What a run with these notes waits for, and its group.
    fn waiting(
        status: RunStatus,
        ending: ExitReason,
        notes: &[LedgerNote],
    ) -> (Option<WaitingFor>, LocalRunGroup) {
        let (run, last) = (run(status), attempt(ending));
        let state = AgentState::of(&run, Some(&last), SupervisorState::Absent);
        let notes: Vec<Event> = notes.iter().copied().map(note).collect();
        let found = WaitingFor::of(&run, state, Some(&last), &notes);
        (found, WaitingFor::group(found))
    }

    #[test]
    fn quarantined_run_waits_until_it_is_rejected_or_removed() {
        let quarantined = (Some(WaitingFor::Quarantined), LocalRunGroup::NeedsYou);
        let settled = (None, LocalRunGroup::Ended);
        for ending in [ExitReason::EnforcementLost, ExitReason::Denied] {
            for status in [RunStatus::Running, RunStatus::Done, RunStatus::Failed] {
                assert_eq!(waiting(status, ending, &[]), quarantined, "{status} {ending}");
            }
            // A check does not show whether the limits were enforced.
            let checked = [LedgerNote::Verified];
            assert_eq!(waiting(RunStatus::Failed, ending, &checked), quarantined, "{ending}");
            let removed = [LedgerNote::FilesRemoved];
            assert_eq!(waiting(RunStatus::Failed, ending, &removed), settled, "{ending}");
            // A respawn rejects the run, so it is settled as well.
            assert_eq!(waiting(RunStatus::Rejected, ending, &[]), settled, "{ending}");
        }
        assert_eq!(waiting(RunStatus::Failed, ExitReason::Failed, &[]), settled);
    }

    #[test]
    fn exhausted_budgets_and_failed_checks_wait_for_a_person() {
        let exhausted = waiting(RunStatus::Running, ExitReason::BudgetExhausted, &[]);
        assert_eq!(exhausted, (Some(WaitingFor::Interrupted), LocalRunGroup::NeedsYou));
        let failed = [LedgerNote::VerificationFailed];
        let failed = waiting(RunStatus::Done, ExitReason::Completed, &failed);
        assert_eq!(failed, (Some(WaitingFor::ChecksFailed), LocalRunGroup::NeedsYou));
    }
}
