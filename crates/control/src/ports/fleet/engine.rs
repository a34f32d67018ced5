//! Who carries attempts out: the engine that `bailiwick run` uses, behind one interface.

use std::future::Future;

use bailiwick_model::fleet::RunCost;
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
    /// Its task.toml: role, scope, budget, agent, verification, body.
    pub task: String,
    /// What is added to its prompt, with the digest it was admitted by.
    pub context: String,
    /// The policy of stack and tool profile, as limits that are intersected with the role's.
    pub limits: serde_json::Value,
    /// Secrets that arrive in its environment or in files, by name; never those passed by reference.
    pub secrets: Vec<(String, Vec<u8>)>,
    /// Whether the conversation of the last attempt goes on, and with which words.
    pub resume: Option<String>,
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
    /// Its last event.
    pub cursor: u64,
    /// What it said at its end, or why it failed.
    pub detail: String,
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

    /// Ends it, with everything that it started.
    fn cancel(&self, agent: &str) -> impl Future<Output = Result<(), EngineError>> + Send;
}
