//! Who carries attempts out: the engine that `bailiwick run` uses, behind one interface.

use std::future::Future;

use crate::admission::compile::LaunchLimits;
use bailiwick_resources::RunCost;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What an attempt is started with. Everything in it was admitted and digested before.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// The attempt, by which a second start of the same is recognised.
    pub attempt: String,
    /// The run of the ledger.
    pub agent: String,
    /// The checkout that its worktree is made from.
    pub checkout: String,
    /// The commit it starts from.
    pub base: String,
    /// The commit whose kit, roles, checks and settings bind and verify it; that which it starts from when
    /// left out. Work that is not trusted always has one.
    pub kit_from: Option<String>,
    /// Its task.toml: role, scope, budget, agent, verification, body.
    pub task: String,
    /// What is added to its prompt, with the digest it was admitted by.
    pub context: String,
    /// The limits of stack and tool profile, which only narrow those of the role.
    pub limits: LaunchLimits,
    /// Values for the one who holds the agent, by the names of variables: the agent sees those that its task
    /// names, and never the others.
    pub environment: Vec<(String, String)>,
    /// Whether the one who holds it may spend the key of the model that the control plane was started with.
    pub model_key: ModelKey,
    /// Whether the conversation of the last attempt goes on, and with which words.
    pub resume: Option<String>,
    /// Whose it is, where sub-agents are counted over several runs.
    pub belongs: AttemptOwner,
}

/// Whose an attempt is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttemptOwner {
    /// Its stack.
    pub stack: String,
    /// Its pool.
    pub pool: String,
    /// How many that takes.
    pub capacity: Option<u32>,
    /// Its repository.
    pub repository: String,
}

/// A run that the agent of an attempt has started through us.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchedChild {
    /// The run of the ledger.
    pub agent: String,
    /// The sub-agent that it is.
    pub subagent: String,
    /// What it was told.
    pub received: String,
    /// When it was asked for, in milliseconds since 1970.
    pub at: u64,
    /// How it stands.
    pub state: ChildState,
    /// What it returned, whole, once it has.
    pub returned: Option<String>,
    /// Why it stands so.
    pub detail: String,
    /// The conversation, once it is known.
    pub session: Option<String>,
    /// What it has used.
    pub cost: RunCost,
    /// Its last event.
    pub cursor: u64,
    /// How often an agent was started for it, as of when the questions were asked or later: each counts
    /// its questions again.
    pub attempts: u64,
    /// What people are asked: the id of each question, and what it is about.
    pub questions: Vec<(String, String)>,
}

/// How a child stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildState {
    /// Its agent is being started.
    Starting,
    /// Its agent is at work.
    Running,
    /// It came to its end.
    Completed,
    /// It did not.
    Failed,
    /// It was ended.
    Stopped,
}

/// What becomes of the key of the model, or the login, that the control plane was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelKey {
    /// The attempt is paid for with it, unless it was granted one of its own.
    Lent,
    /// It stays here: the attempt has one that was granted to it, or none.
    Withheld,
}

/// What is known of an attempt that was started.
#[derive(Debug, Clone, PartialEq)]
pub struct Launched {
    /// How it stands.
    pub state: LaunchedState,
    /// The conversation, once it is known.
    pub session: Option<String>,
    /// What it has used.
    pub cost: RunCost,
    /// How often an agent was started for it.
    pub attempts: u64,
    /// Its last event.
    pub cursor: u64,
    /// What it said at its end, or why it failed.
    pub detail: String,
    /// What people are asked: the id of each question, and what it is about.
    pub questions: Vec<(String, String)>,
    /// What it has made, once it is over.
    pub work: Option<FinishedWork>,
}

/// The work of an attempt that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedWork {
    /// The commit that it began from.
    pub base: String,
    /// The commit that has all of it.
    pub commit: String,
    /// The tree of that commit.
    pub tree: String,
    /// The files that differ.
    pub files: Vec<String>,
    /// All of it as a patch.
    pub patch: Vec<u8>,
    /// Every commit that is pushed with it: its head, its words, and the lines that it adds, whatever a
    /// later one took away again. Nothing if that is too long to be looked through.
    pub history: Option<Vec<u8>>,
    /// Whether it merges with what the base is today.
    pub merges: bool,
    /// Whether every check holds.
    pub verified: bool,
    /// What the checks said.
    pub verdict: String,
    /// The agent's own report, if there is one.
    pub report: Option<String>,
}

/// How an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchedState {
    /// Its agent is being started.
    Starting,
    /// Its agent is at work.
    Running,
    /// A tool call waits for a person.
    WaitingForApproval,
    /// It ended well, and its work was verified.
    Verified,
    /// It ended well, and its work did not pass.
    Rejected,
    /// It did not end well.
    Failed,
    /// It was stopped.
    Stopped,
    /// Its budget is spent.
    BudgetExhausted,
    /// What it did cannot be proven to be inside of its limits: nothing of it may be used.
    EnforcementLost,
}

impl LaunchedState {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Starting,
        Self::Running,
        Self::WaitingForApproval,
        Self::Verified,
        Self::Rejected,
        Self::Failed,
        Self::Stopped,
        Self::BudgetExhausted,
        Self::EnforcementLost,
    ];

    /// As statuses write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::WaitingForApproval => "waiting-for-approval",
            Self::Verified => "verified",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::BudgetExhausted => "budget-exhausted",
            Self::EnforcementLost => "enforcement-lost",
        }
    }
}

/// Something that happened in an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineEvent {
    /// Its number in the run.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// What it is.
    pub kind: String,
    /// The rest.
    pub body: serde_json::Value,
}

/// Why an attempt was not started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct EngineError(pub String);

/// Carries attempts out.
pub trait Engine: Send + Sync + 'static {
    /// Starts it, once however often it is asked.
    fn launch(&self, launch: Launch) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// How it stands; nothing if it was never started.
    fn state(
        &self,
        agent: &str,
    ) -> impl Future<Output = Result<Option<Launched>, EngineError>> + Send;

    /// Whether anybody holds it: its agent is at work, or is just being started or judged. Nothing of what came
    /// of it is looked at, where the engine can tell without.
    fn is_held(&self, agent: &str) -> impl Future<Output = Result<bool, EngineError>> + Send {
        async move {
            Ok(self.state(agent).await?.is_some_and(|known| match known.state {
                LaunchedState::Starting
                | LaunchedState::Running
                | LaunchedState::WaitingForApproval => true,
                LaunchedState::Verified
                | LaunchedState::Rejected
                | LaunchedState::Failed
                | LaunchedState::Stopped
                | LaunchedState::BudgetExhausted
                | LaunchedState::EnforcementLost => false,
            }))
        }
    }

    /// Every run that this one's agent has started through us, and those that they have, the oldest first.
    fn children(
        &self,
        agent: &str,
    ) -> impl Future<Output = Result<Vec<LaunchedChild>, EngineError>> + Send;

    /// Answers a question; whether anybody was still waiting for it.
    fn answer(
        &self,
        agent: &str,
        question: &str,
        yes: bool,
    ) -> impl Future<Output = Result<bool, EngineError>> + Send;

    /// Its events after this one, the oldest first: number, moment in milliseconds, what it is, and the
    /// rest.
    fn events(
        &self,
        agent: &str,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EngineEvent>, EngineError>> + Send;

    /// Ends it, with everything that it started.
    fn cancel(&self, agent: &str) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Forgets the events of one that is over for good; its work stays where it is. An engine that keeps no
    /// events has none to forget.
    fn forget(&self, _agent: &str) -> impl Future<Output = Result<(), EngineError>> + Send {
        std::future::ready(Ok(()))
    }
}
