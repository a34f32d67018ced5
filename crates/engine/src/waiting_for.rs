//! What an agent does or waits for, and the next command for a person.

use bailiwick_fleet::ports::{LocalRunGroup, LocalRunStage};
use bailiwick_model::event::Phase;
use bailiwick_model::{Attempt, LedgerNote, Run, RunStatus};
use bailiwick_store::Event;
use serde::Serialize;

use crate::agent_state::AgentState;

/// What an agent does or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitingFor {
    Ready,
    Working,
    WaitingForApproval,
    Interrupted,
    Finished,
    Verified,
    ChecksFailed,
    NothingChanged,
}

impl WaitingFor {
    /// None for an agent that waits for nothing: its work has landed or was rejected.
    pub fn of(run: &Run, state: AgentState, verdict: Option<Self>) -> Option<Self> {
        match state {
            AgentState::Ready | AgentState::Running => Some(Self::Ready),
            AgentState::AtWork => Some(Self::Working),
            AgentState::Asks => Some(Self::WaitingForApproval),
            AgentState::Done => Some(verdict.unwrap_or(Self::Finished)),
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
    pub fn found(events: &[Event], last: Option<&Attempt>) -> Option<Self> {
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
            Self::ChecksFailed => "respawn",
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
                Some(Phase::Preparing | Phase::Proving | Phase::Working | Phase::Over) | None => {
                    LocalRunStage::Working
                }
            },
            Some(Self::Ready | Self::WaitingForApproval | Self::Interrupted | Self::Finished) => {
                LocalRunStage::NeedsYou
            }
            Some(Self::Verified) => LocalRunStage::ReadyToLand,
            None if state == AgentState::Merged => LocalRunStage::Landed,
            Some(Self::ChecksFailed | Self::NothingChanged) | None => LocalRunStage::Failed,
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
                | Self::Finished
                | Self::Verified
                | Self::ChecksFailed,
            ) => LocalRunGroup::NeedsYou,
            Some(Self::NothingChanged) | None => LocalRunGroup::Ended,
        }
    }
}
