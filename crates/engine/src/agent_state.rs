//! The state of an agent, in one word: the same in `ps`, `status`, the ledger's views and errors.

use std::fmt;
use std::str::FromStr;

use bailiwick_model::event::ExitReason;
use bailiwick_model::nearest::nearest;
use bailiwick_model::{AgentId, Attempt, Run, RunState, RunStatus};
use bailiwick_resources::Moment;
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};

use crate::context::Context;
use crate::failure::Failure;

/// The state of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentState {
    /// Its spawn was interrupted.
    HalfSpawned,
    /// It was spawned, and never started.
    Ready,
    /// It was recorded by another tool and has not ended.
    Running,
    /// Its agent works.
    AtWork,
    /// Its agent works, and waits for a person's answer.
    Asks,
    /// It is open, and its last attempt ended this way; or it failed for good, by that.
    Ended(ExitReason),
    /// It has ended.
    Done,
    /// It failed for good.
    Failed,
    /// Its work has landed.
    Merged,
    /// Its work had landed and was reverted.
    RolledBack,
    /// Its work was rejected.
    Rejected,
}

impl AgentState {
    /// Every state, in the order in which an agent passes through them.
    pub const ALL: [Self; 16] = [
        Self::HalfSpawned,
        Self::Ready,
        Self::Running,
        Self::AtWork,
        Self::Asks,
        Self::Ended(ExitReason::Stopped),
        Self::Ended(ExitReason::TimedOut),
        Self::Ended(ExitReason::BudgetExhausted),
        Self::Ended(ExitReason::CutOff),
        Self::Ended(ExitReason::EnforcementLost),
        Self::Ended(ExitReason::Denied),
        Self::Failed,
        Self::Done,
        Self::Merged,
        Self::RolledBack,
        Self::Rejected,
    ];

    /// The state of a run, by its row, its last attempt and what is seen of its supervisor.
    pub fn of(run: &Run, last: Option<&Attempt>, supervisor: SupervisorState) -> Self {
        let open = match run.state {
            RunState::HalfSpawned => return Self::HalfSpawned,
            RunState::Merged => return Self::Merged,
            RunState::RolledBack => return Self::RolledBack,
            RunState::Rejected => return Self::Rejected,
            RunState::Ready => Self::Ready,
            RunState::Running => Self::Running,
            RunState::Done => Self::Done,
            RunState::Failed => Self::Failed,
        };
        let ending = match last {
            Some(attempt) => attempt.ending,
            None => Some(ExitReason::Completed),
        };
        match (ending, supervisor) {
            (None, SupervisorState::Asking) => Self::Asks,
            (None, SupervisorState::Running | SupervisorState::Absent) => Self::AtWork,
            // Its supervisor runs and prepares it.
            (Some(_), SupervisorState::Running | SupervisorState::Asking)
                if run.status == RunStatus::Running =>
            {
                Self::AtWork
            }
            (Some(ExitReason::Completed), _) => open,
            (Some(ExitReason::Failed), _) => Self::Failed,
            (Some(ending), _) => Self::Ended(ending),
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HalfSpawned => RunState::HalfSpawned.as_str(),
            Self::Ready => RunState::Ready.as_str(),
            Self::Running => RunState::Running.as_str(),
            Self::AtWork => "working",
            Self::Asks => "asks",
            Self::Ended(ending) => ending.as_str(),
            Self::Done => RunState::Done.as_str(),
            Self::Failed => RunState::Failed.as_str(),
            Self::Merged => RunState::Merged.as_str(),
            Self::RolledBack => RunState::RolledBack.as_str(),
            Self::Rejected => RunState::Rejected.as_str(),
        }
    }
}

impl fmt::Display for AgentState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

/// A word that names no state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownState {
    text: String,
    near: Option<&'static str>,
}

impl std::error::Error for UnknownState {}

impl fmt::Display for UnknownState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}` is not a state: use one of {}", self.text, words().join(", "))?;
        match self.near {
            Some(near) => write!(out, "; did you mean `{near}`?"),
            None => Ok(()),
        }
    }
}

/// Every word, as it is written behind an option.
fn words() -> Vec<String> {
    AgentState::ALL.map(|state| state.as_str().replace(' ', "-")).to_vec()
}

impl FromStr for AgentState {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        let plain = text.replace('-', " ");
        // The word for it until 0.1.
        if plain == "at work" {
            return Ok(Self::AtWork);
        }
        let is = |state: &Self| state.as_str().replace('-', " ") == plain;
        Self::ALL.into_iter().find(is).ok_or_else(|| UnknownState {
            text: text.to_owned(),
            near: nearest(text, Self::ALL.map(Self::as_str)),
        })
    }
}

/// Whether a supervisor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SupervisorState {
    /// No supervisor runs.
    Absent,
    /// A supervisor runs.
    Running,
    /// A supervisor runs, and its agent waits for an answer of a person.
    Asking,
}

/// A question of an agent that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// Its id.
    pub id: String,
    /// What is asked.
    pub about: String,
    /// When it is denied without an answer; none if the supervisor does not tell.
    pub expires_at: Option<Moment>,
}

impl SupervisorState {
    /// Observes a run and the open questions of its agent.
    pub fn observe(context: &Context, run: &Run) -> (Self, Vec<OpenQuestion>) {
        // A closed run is not started: a process that holds its lock only cleans up.
        if run.status.next().is_empty() || run.half_spawned {
            return (Self::Absent, Vec::new());
        }
        let directory = RunDirectory::new(&context.state, run.id.as_str());
        if !directory.is_supervised().unwrap_or(false) {
            return (Self::Absent, Vec::new());
        }
        match supervisor::ask(&directory, &Request::Status) {
            Ok(Some(Reply::Status(status))) if !status.questions.is_empty() => {
                let expiries = &status.question_expiries;
                let question = |(id, about): (String, String)| {
                    let expires_at = expiries.get(&id).copied().map(Moment::from_millis);
                    OpenQuestion { id, about, expires_at }
                };
                (Self::Asking, status.questions.into_iter().map(question).collect())
            }
            Ok(_) | Err(_) => (Self::Running, Vec::new()),
        }
    }
}

/// Returns an error if an agent was closed by one above it.
pub fn require_open(context: &Context, run: &AgentId) -> Result<(), Failure> {
    let known = context.with_store(async |store| Ok(store.delegate(run).await?))?;
    match known.is_some_and(|known| known.closed) {
        true => Err(Failure::general(format!("`{run}` was closed before it began"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_own_word_that_parses_back() {
        let mut words = words();
        for (word, state) in words.iter().zip(AgentState::ALL) {
            assert_eq!(word.parse(), Ok(state));
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), AgentState::ALL.len());
    }

    #[test]
    fn unknown_state_error_lists_all_states() {
        let message = "stoped".parse::<AgentState>().unwrap_err().to_string();
        assert!(words().iter().all(|word| message.contains(word)), "{message}");
        assert!(message.ends_with("did you mean `stopped`?"), "{message}");
    }
}
