//! Where a run stands: its group, its stage and the next command. What the control plane has settled waits for nobody.

use bailiwick_fleet::ports::{LocalRunGroup, LocalRunStage};
use bailiwick_model::event::Phase;
use bailiwick_model::{AgentId, Attempt};
use bailiwick_resources::RunPhase;
use bailiwick_store::Dispatch;

use crate::agent_state::AgentState;
use crate::waiting_for::WaitingFor;

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What it waits for; none if nothing more happens to it by itself.
    pub waiting: Option<WaitingFor>,
    pub group: LocalRunGroup,
    pub stage: LocalRunStage,
    /// The next command for a person, without the name of the program.
    pub next: Option<String>,
    /// The words for it, where the state of the agent says less.
    pub words: Option<&'static str>,
}

impl Standing {
    /// By what the agent waits for, and by the run of the control plane that decides about its work, if there is one.
    pub fn of(
        name: &AgentId,
        waiting: Option<WaitingFor>,
        state: AgentState,
        last: Option<&Attempt>,
        dispatch: Option<&Dispatch>,
    ) -> Self {
        let words = waiting.and_then(WaitingFor::words);
        let own = Self {
            waiting,
            group: WaitingFor::group(waiting),
            stage: WaitingFor::stage(waiting, state, last),
            next: waiting.map(|waiting| format!("{} {name}", waiting.next_command())),
            words,
        };
        match (waiting, dispatch) {
            // Its work has landed or was rejected, or the agent works or asks.
            (None | Some(WaitingFor::Working | WaitingFor::WaitingForApproval), _) | (_, None) => {
                own
            }
            (Some(_), Some(dispatch)) => Self { words, ..Self::of_dispatch(dispatch, last) },
        }
    }

    /// Where the work of an agent that has ended stands in the control plane.
    fn of_dispatch(dispatch: &Dispatch, last: Option<&Attempt>) -> Self {
        let settled = |stage| (None, LocalRunGroup::Ended, stage, None);
        let (waiting, group, stage, next) = match dispatch {
            Dispatch::Replaced => settled(LocalRunStage::Failed),
            Dispatch::Current { run, phase } => match phase {
                RunPhase::Pending | RunPhase::Queued | RunPhase::Running => {
                    let stage = match last.map(|attempt| attempt.phase) {
                        Some(Phase::Verifying) => LocalRunStage::Verifying,
                        Some(Phase::Preparing | Phase::SelfTest | Phase::Working | Phase::Over)
                        | None => LocalRunStage::Working,
                    };
                    let next = Some(format!("explain run/{run}"));
                    (Some(WaitingFor::Working), LocalRunGroup::Working, stage, next)
                }
                RunPhase::WaitingForApproval => {
                    let waiting = Some(WaitingFor::WaitingForApproval);
                    let next = Some("approvals list".to_owned());
                    (waiting, LocalRunGroup::NeedsYou, LocalRunStage::NeedsYou, next)
                }
                RunPhase::Succeeded => settled(LocalRunStage::Landed),
                RunPhase::Failed | RunPhase::Cancelled => settled(LocalRunStage::Failed),
            },
        };
        Self { waiting, group, stage, next, words: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stands(waiting: WaitingFor, dispatch: Option<&Dispatch>) -> Standing {
        let name = AgentId::parse("fix-42").unwrap();
        Standing::of(&name, Some(waiting), AgentState::Done, None, dispatch)
    }

    #[test]
    fn settled_run_of_the_control_plane_waits_for_nobody() {
        for (phase, group, stage, next) in [
            (RunPhase::Succeeded, LocalRunGroup::Ended, LocalRunStage::Landed, None),
            (RunPhase::Failed, LocalRunGroup::Ended, LocalRunStage::Failed, None),
            (RunPhase::Cancelled, LocalRunGroup::Ended, LocalRunStage::Failed, None),
            (
                RunPhase::Running,
                LocalRunGroup::Working,
                LocalRunStage::Working,
                Some("explain run/adr-1"),
            ),
            (
                RunPhase::WaitingForApproval,
                LocalRunGroup::NeedsYou,
                LocalRunStage::NeedsYou,
                Some("approvals list"),
            ),
        ] {
            let dispatch = Dispatch::Current { run: "adr-1".to_owned(), phase };
            for waiting in [WaitingFor::Verified, WaitingFor::Interrupted, WaitingFor::Quarantined]
            {
                let found = stands(waiting, Some(&dispatch));
                assert_eq!((found.group, found.stage), (group, stage), "{phase:?} {waiting:?}");
                assert_eq!(found.next.as_deref(), next, "{phase:?} {waiting:?}");
            }
            let working = stands(WaitingFor::Working, Some(&dispatch));
            assert_eq!(working.group, LocalRunGroup::Working, "the agent still works: {phase:?}");
        }
        let replaced = stands(WaitingFor::Verified, Some(&Dispatch::Replaced));
        assert_eq!((replaced.group, replaced.next), (LocalRunGroup::Ended, None));
        let own = stands(WaitingFor::Verified, None);
        assert_eq!((own.group, own.stage), (LocalRunGroup::NeedsYou, LocalRunStage::ReadyToLand));
        assert_eq!(own.next.as_deref(), Some("land fix-42"), "positive control");
    }
}
