//! A run: one delegated task, as the ledger stores it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use crate::name::AgentId;
use crate::nearest::nearest;

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// The agent's id.
    pub id: AgentId,
    /// The branch it works on.
    pub branch: String,
    /// The agent or branch that it was started from.
    pub parent_branch: Option<String>,
    /// The digest of its task.toml.
    pub spec_sha: String,
    pub status: RunStatus,
    /// When it was started, in seconds since 1970.
    pub started_ts: i64,
    /// When it ended.
    pub finished_ts: Option<i64>,
    /// The agent's final message, or the reason for the failure.
    pub summary: Option<String>,
    /// The path of its worktree.
    pub worktree_path: Option<String>,
    /// Its identity.
    pub dna: Option<String>,
    /// The person or agent who started it.
    pub creator_id: Option<String>,
    /// The identity that it was forked from.
    pub fork_parent_id: Option<String>,
    /// Its cost, in hundredths of a US dollar.
    pub cost_cents: i64,
    /// Who was paid.
    pub provider: String,
    pub model: String,
    /// Whether `spawn` created it and was interrupted.
    pub half_spawned: bool,
    /// The commit that it started from, whose kit binds it; none for runs of other tools.
    pub base: Option<String>,
    /// Its name in the repository. It equals the ID, unless another repository used that first.
    pub name: AgentId,
    /// The git directory that all checkouts of its repository share; none for runs of other tools.
    pub repository: Option<String>,
    /// The state, in more detail than the status.
    pub state: RunState,
}

/// A name that counts in one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunName {
    pub name: AgentId,
    /// The git directory that all checkouts of the repository share.
    pub repository: String,
}

/// The state of a run as views show it, in more detail than its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Its spawn was cut short.
    HalfSpawned,
    /// It was spawned, and its agent was never started.
    Ready,
    /// Its agent was started, or it was recorded by other means.
    Running,
    /// As the status.
    Done,
    /// As the status.
    Failed,
    /// As the status.
    Merged,
    /// Its work had landed and was reverted.
    RolledBack,
    /// As the status.
    Rejected,
}

/// The facts that distinguish runs of the same status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunFacts {
    /// Whether its spawn was interrupted.
    pub half_spawned: bool,
    /// Whether `spawn` created it.
    pub spawned: bool,
    /// How often its agent was started.
    pub attempts: i64,
    /// Whether its landed work was reverted.
    pub rolled_back: bool,
}

impl RunState {
    /// The state of a run with this status.
    pub fn of(status: RunStatus, facts: RunFacts) -> Self {
        match status {
            RunStatus::Running if facts.half_spawned => Self::HalfSpawned,
            RunStatus::Running if facts.spawned && facts.attempts == 0 => Self::Ready,
            RunStatus::Running => Self::Running,
            RunStatus::Done => Self::Done,
            RunStatus::Failed => Self::Failed,
            RunStatus::Merged if facts.rolled_back => Self::RolledBack,
            RunStatus::Merged => Self::Merged,
            RunStatus::Rejected => Self::Rejected,
        }
    }

    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HalfSpawned => "half-spawned",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Merged => "merged",
            Self::RolledBack => "rolled-back",
            Self::Rejected => "rejected",
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// The agent runs, or may start.
    Running,
    /// It returned.
    Done,
    Failed,
    /// Its work has landed.
    Merged,
    /// Its work was turned down.
    Rejected,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::Running, Self::Done, Self::Failed, Self::Merged, Self::Rejected];

    /// The word in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Merged => "merged",
            Self::Rejected => "rejected",
        }
    }

    /// The statuses that may follow.
    ///
    /// ```text
    /// running ─┬▶ done ─┬▶ merged
    ///          │        ▼
    ///          ├─────▶ rejected
    ///          │        ▲
    ///          └▶ failed┘
    /// ```
    pub fn next(self) -> &'static [Self] {
        match self {
            Self::Running => &[Self::Done, Self::Failed, Self::Rejected],
            Self::Done => &[Self::Merged, Self::Rejected],
            Self::Failed => &[Self::Rejected],
            Self::Merged | Self::Rejected => &[],
        }
    }

    /// Whether `next` may follow.
    pub fn may_become(self, next: Self) -> Result<(), IllegalTransition> {
        if self.next().contains(&next) {
            Ok(())
        } else {
            Err(IllegalTransition { from: self, to: next })
        }
    }
}

/// A status that may not follow another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub struct IllegalTransition {
    pub from: RunStatus,
    pub to: RunStatus,
}

impl fmt::Display for IllegalTransition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next: Vec<&str> = self.from.next().iter().map(|status| status.as_str()).collect();
        let Self { from, to } = self;
        if next.is_empty() {
            write!(out, "it is {from}, and that is final: it cannot become {to}")
        } else {
            write!(out, "it is {from} and cannot become {to}; it may become {}", next.join(", "))
        }
    }
}

/// A word that is not a status.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a status: use one of running, done, failed, merged, rejected{}", near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
pub struct UnknownStatus {
    text: String,
    near: Option<&'static str>,
}

impl FromStr for RunStatus {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| UnknownStatus {
            text: text.to_owned(),
            near: nearest(text, Self::ALL.map(Self::as_str)),
        })
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::RunStatus::{self, Done, Failed, Merged, Rejected, Running};
    use super::{RunFacts, RunState};

    #[test]
    fn state_distinguishes_runs_with_the_same_status() {
        let facts =
            RunFacts { half_spawned: false, spawned: true, attempts: 0, rolled_back: false };
        let state = |status, facts| RunState::of(status, facts);
        assert_eq!(state(Running, facts), RunState::Ready);
        assert_eq!(state(Running, RunFacts { attempts: 1, ..facts }), RunState::Running);
        assert_eq!(state(Running, RunFacts { spawned: false, ..facts }), RunState::Running);
        let half = RunFacts { half_spawned: true, ..facts };
        assert_eq!(state(Running, half), RunState::HalfSpawned);
        assert_eq!(state(Merged, facts), RunState::Merged);
        let reverted = RunFacts { rolled_back: true, ..facts };
        assert_eq!(state(Merged, reverted), RunState::RolledBack);
        for status in [Done, Failed, Rejected] {
            assert_eq!(state(status, facts).as_str(), status.as_str());
        }
    }

    #[test]
    fn only_documented_transitions_are_legal() {
        let legal = [
            (Running, Done),
            (Running, Failed),
            (Running, Rejected),
            (Done, Merged),
            (Done, Rejected),
            (Failed, Rejected),
        ];
        for from in RunStatus::ALL {
            for to in RunStatus::ALL {
                assert_eq!(from.may_become(to).is_ok(), legal.contains(&(from, to)), "{from}→{to}");
            }
        }
    }

    #[test]
    fn error_for_an_illegal_transition_names_the_legal_ones() {
        let message = Done.may_become(Running).unwrap_err().to_string();
        assert_eq!(message, "it is done and cannot become running; it may become merged, rejected");
        assert!(Merged.may_become(Done).unwrap_err().to_string().contains("final"));
    }
}
