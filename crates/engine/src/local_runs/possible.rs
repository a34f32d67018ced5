//! Whether an action on an agent is possible now, and why not: the API refuses by it, and pages show it.

use std::path::Path;

use bailiwick_fleet::ports::{LocalAction, LocalVerb};
use bailiwick_model::event::ExitReason;
use bailiwick_model::{Attempt, Run, RunStatus};

use crate::agent_state::AgentState;

/// The facts that decide whether an action is possible.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) state: AgentState,
    /// The run failed for good: nothing continues it.
    pub(super) is_closed: bool,
    /// Its limits did not hold in an attempt.
    pub(super) is_quarantined: bool,
    pub(super) has_worktree: bool,
    /// Whether there is anything to remove.
    pub(super) has_files: bool,
    /// It is an attempt of the control plane, whose approvals and policies decide about its work.
    pub(super) is_managed: bool,
}

impl Facts {
    pub(super) fn new(
        run: &Run,
        attempts: &[Attempt],
        state: AgentState,
        is_managed: bool,
        has_files: bool,
    ) -> Self {
        let lost = |attempt: &Attempt| {
            matches!(attempt.ending, Some(ExitReason::EnforcementLost | ExitReason::Denied))
        };
        Self {
            state,
            is_closed: run.status == RunStatus::Failed,
            is_quarantined: attempts.iter().any(lost),
            has_worktree: run.worktree_path.as_ref().is_some_and(|path| Path::new(path).is_dir()),
            has_files,
            is_managed,
        }
    }

    /// Every action. A service can still refuse one, for example while another command works.
    pub(super) fn actions(self) -> Vec<LocalAction> {
        let action = |verb: LocalVerb| LocalAction {
            action: verb,
            impossible: self.impossible(verb).map(str::to_owned),
            needs_text: self.needs_text(verb),
        };
        LocalVerb::ALL.into_iter().map(action).collect()
    }

    /// Whether a person must say something with it: an agent that is done continues only with a new message.
    pub(super) fn needs_text(self, verb: LocalVerb) -> bool {
        verb == LocalVerb::Message || (verb == LocalVerb::Resume && self.state == AgentState::Done)
    }

    /// Why an action is not possible; none if it is.
    pub(super) fn impossible(self, verb: LocalVerb) -> Option<&'static str> {
        if self.is_managed {
            match verb {
                LocalVerb::Stop | LocalVerb::Message | LocalVerb::Verify => {}
                LocalVerb::Resume
                | LocalVerb::Land
                | LocalVerb::Reject
                | LocalVerb::Respawn
                | LocalVerb::Rollback
                | LocalVerb::Remove => return Some(MANAGED),
            }
        }
        match verb {
            LocalVerb::Stop => self.unless_running(),
            LocalVerb::Message => match self.unless_running() {
                Some(_) if self.impossible(LocalVerb::Resume).is_none() => {
                    Some("the agent is not running: resume it with your message")
                }
                answer => answer,
            },
            LocalVerb::Resume => self.unless_resumable(),
            LocalVerb::Verify => self.unless_checkable(),
            LocalVerb::Land => self.unless_landable(),
            LocalVerb::Reject => self.unless_open(),
            LocalVerb::Respawn => self.unless_repeatable(),
            LocalVerb::Rollback => match self.state {
                AgentState::Merged => None,
                AgentState::RolledBack => Some("its work was rolled back already"),
                AgentState::HalfSpawned
                | AgentState::Ready
                | AgentState::Running
                | AgentState::AtWork
                | AgentState::Asks
                | AgentState::Ended(_)
                | AgentState::Done
                | AgentState::Failed
                | AgentState::Rejected => Some("its work has not landed"),
            },
            LocalVerb::Remove => match self.state {
                AgentState::Merged | AgentState::RolledBack | AgentState::Rejected
                    if !self.has_files =>
                {
                    Some("its files were removed already")
                }
                AgentState::Ready
                | AgentState::Merged
                | AgentState::RolledBack
                | AgentState::Rejected => None,
                AgentState::AtWork | AgentState::Asks => {
                    Some("the agent is running: stop it first")
                }
                AgentState::HalfSpawned => Some(HALF_SPAWNED),
                AgentState::Running
                | AgentState::Ended(_)
                | AgentState::Done
                | AgentState::Failed => Some("its work would be lost: reject it first"),
            },
        }
    }

    fn unless_running(self) -> Option<&'static str> {
        match self.state {
            AgentState::AtWork | AgentState::Asks => None,
            AgentState::Ready => Some(NOT_STARTED),
            AgentState::HalfSpawned => Some(HALF_SPAWNED),
            AgentState::Running
            | AgentState::Ended(_)
            | AgentState::Done
            | AgentState::Failed
            | AgentState::Merged
            | AgentState::RolledBack
            | AgentState::Rejected => Some("the agent is not running"),
        }
    }

    fn unless_resumable(self) -> Option<&'static str> {
        if self.is_quarantined {
            return Some(QUARANTINED);
        }
        match self.state {
            AgentState::Ended(_) | AgentState::Failed if self.is_closed => {
                Some("the run failed for good: try the task again")
            }
            AgentState::Ended(_) | AgentState::Failed | AgentState::Done => match self.has_worktree
            {
                true => None,
                false => Some(NO_WORKTREE),
            },
            AgentState::AtWork | AgentState::Asks => Some("the agent is running"),
            AgentState::Ready => Some(NOT_STARTED),
            AgentState::HalfSpawned => Some(HALF_SPAWNED),
            AgentState::Running => Some("this agent was not started by `bailiwick run`"),
            AgentState::Merged => Some(LANDED),
            AgentState::RolledBack => Some(ROLLED_BACK),
            AgentState::Rejected => Some(REJECTED),
        }
    }

    fn unless_checkable(self) -> Option<&'static str> {
        match self.state {
            AgentState::Running
            | AgentState::AtWork
            | AgentState::Asks
            | AgentState::Ended(_)
            | AgentState::Done
            | AgentState::Failed => match self.has_worktree {
                true => None,
                false => Some(NO_WORKTREE),
            },
            AgentState::Ready => Some(NOT_STARTED),
            AgentState::HalfSpawned => Some(HALF_SPAWNED),
            AgentState::Merged => Some(LANDED),
            AgentState::RolledBack => Some(ROLLED_BACK),
            AgentState::Rejected => Some(REJECTED),
        }
    }

    fn unless_landable(self) -> Option<&'static str> {
        if self.is_quarantined {
            return Some(QUARANTINED);
        }
        match self.state {
            AgentState::Running | AgentState::Done => self.unless_checkable(),
            AgentState::AtWork | AgentState::Asks => Some("the agent is running"),
            AgentState::Ended(_) | AgentState::Failed => {
                Some("the last attempt did not complete: resume it, or try the task again")
            }
            AgentState::Ready => Some(NOT_STARTED),
            AgentState::HalfSpawned => Some(HALF_SPAWNED),
            AgentState::Merged => Some("its work has landed already"),
            AgentState::RolledBack => Some(ROLLED_BACK),
            AgentState::Rejected => Some(REJECTED),
        }
    }

    fn unless_open(self) -> Option<&'static str> {
        match self.state {
            AgentState::Ready
            | AgentState::Running
            | AgentState::Ended(_)
            | AgentState::Done
            | AgentState::Failed => None,
            AgentState::AtWork | AgentState::Asks => Some("the agent is running: stop it first"),
            AgentState::HalfSpawned => Some(HALF_SPAWNED),
            AgentState::Merged => Some("its work has landed: roll it back instead"),
            AgentState::RolledBack => Some(ROLLED_BACK),
            AgentState::Rejected => Some("its work was rejected already"),
        }
    }

    fn unless_repeatable(self) -> Option<&'static str> {
        match self.state {
            AgentState::Ended(_)
            | AgentState::Done
            | AgentState::Failed
            | AgentState::RolledBack
            | AgentState::Rejected => None,
            AgentState::AtWork | AgentState::Asks => Some("the agent is running: stop it first"),
            AgentState::Ready => Some(NOT_STARTED),
            AgentState::HalfSpawned => Some(HALF_SPAWNED),
            AgentState::Running => Some("its work is open: verify or reject it first"),
            AgentState::Merged => Some("its work has landed: roll it back first"),
        }
    }
}

const MANAGED: &str = "it belongs to a run of the control plane: use `bailiwick runs`";
const NOT_STARTED: &str = "the agent was never started: use `bailiwick run`";
const HALF_SPAWNED: &str = "the agent was not created completely: repeat `bailiwick spawn`";
const QUARANTINED: &str = "its limits did not hold in an attempt: try the task again";
const NO_WORKTREE: &str = "its worktree was removed";
const LANDED: &str = "its work has landed";
const ROLLED_BACK: &str = "its work was rolled back";
const REJECTED: &str = "its work was rejected";

#[cfg(test)]
mod tests {
    use super::*;

    fn possible(facts: Facts) -> Vec<&'static str> {
        let actions = facts.actions();
        assert_eq!(actions.len(), LocalVerb::ALL.len(), "every action is listed");
        let possible = actions.iter().filter(|action| action.impossible.is_none());
        possible.map(|action| action.action.as_str()).collect()
    }

    #[test]
    fn each_state_permits_its_actions_and_names_a_reason_for_the_others() {
        let of = |state| {
            let (is_closed, is_quarantined, has_worktree) = (false, false, true);
            let (is_managed, has_files) = (false, true);
            let facts =
                Facts { state, is_closed, is_quarantined, has_worktree, has_files, is_managed };
            possible(facts)
        };
        let expected: [(AgentState, &[&str]); 10] = [
            (AgentState::HalfSpawned, &[]),
            (AgentState::Ready, &["reject", "remove"]),
            (AgentState::Running, &["verify", "land", "reject"]),
            (AgentState::AtWork, &["stop", "message", "verify"]),
            (AgentState::Asks, &["stop", "message", "verify"]),
            (
                AgentState::Ended(ExitReason::BudgetExhausted),
                &["resume", "verify", "reject", "respawn"],
            ),
            (AgentState::Done, &["resume", "verify", "land", "reject", "respawn"]),
            (AgentState::Merged, &["rollback", "remove"]),
            (AgentState::RolledBack, &["respawn", "remove"]),
            (AgentState::Rejected, &["respawn", "remove"]),
        ];
        for (state, verbs) in expected {
            assert_eq!(of(state), verbs, "{state}");
        }
    }

    #[test]
    fn managed_run_can_only_be_verified_here() {
        let facts = Facts {
            state: AgentState::Done,
            is_closed: false,
            is_quarantined: false,
            has_worktree: true,
            has_files: true,
            is_managed: true,
        };
        assert_eq!(possible(facts), ["verify"]);
        assert_eq!(facts.impossible(LocalVerb::Land), Some(MANAGED));
        assert_eq!(possible(Facts { state: AgentState::Merged, ..facts }), [""; 0]);
        let own = Facts { is_managed: false, ..facts };
        assert_eq!(own.impossible(LocalVerb::Land), None, "positive control");
    }

    #[test]
    fn quarantined_or_closed_run_cannot_continue_or_land() {
        let facts = Facts {
            state: AgentState::Ended(ExitReason::EnforcementLost),
            is_closed: true,
            is_quarantined: true,
            has_worktree: true,
            has_files: true,
            is_managed: false,
        };
        assert_eq!(possible(facts), ["verify", "reject", "respawn"]);
        let resumed = Facts { state: AgentState::Done, is_closed: false, ..facts };
        assert_eq!(resumed.impossible(LocalVerb::Land), Some(QUARANTINED));
        let without_worktree = Facts { has_worktree: false, is_quarantined: false, ..resumed };
        assert_eq!(without_worktree.impossible(LocalVerb::Land), Some(NO_WORKTREE));
    }

    #[test]
    fn files_can_be_removed_only_once() {
        let facts = Facts {
            state: AgentState::Merged,
            is_closed: false,
            is_quarantined: false,
            has_worktree: false,
            has_files: false,
            is_managed: false,
        };
        assert_eq!(possible(facts), ["rollback"]);
        let with_files = Facts { has_files: true, ..facts };
        assert_eq!(possible(with_files), ["rollback", "remove"], "positive control");
    }

    #[test]
    fn finished_agent_continues_only_with_a_message() {
        let done = Facts {
            state: AgentState::Done,
            is_closed: false,
            is_quarantined: false,
            has_worktree: true,
            has_files: true,
            is_managed: false,
        };
        assert!(done.needs_text(LocalVerb::Resume));
        let stopped = Facts { state: AgentState::Ended(ExitReason::Stopped), ..done };
        assert!(!stopped.needs_text(LocalVerb::Resume));
        assert!(stopped.needs_text(LocalVerb::Message));
    }
}
