//! The engine: runs attempts with the same machinery as `bailiwick run`.

use std::collections::BTreeMap;
use std::future::Future;

use crate::admission::compile::LaunchLimits;
use crate::bundle::NamedSource;
use bailiwick_model::{IssueName, PhaseName};
use bailiwick_resources::{ChecksOn, ExitState, PatchCommit, PodGrants, PodProblem, RunCost};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The launch of an attempt. All of it was admitted before.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptLaunch {
    /// The attempt, by which a repeated launch is recognised.
    pub attempt: String,
    /// The run of the ledger.
    pub agent: String,
    /// The checkout that its worktree is created from.
    pub checkout: String,
    /// The commit it starts from.
    pub base: String,
    /// The commit whose kit, roles, checks and settings bind it; its base commit when left out. Untrusted work always
    /// has one.
    pub kit_commit: Option<String>,
    /// Its task.toml: role, scope, budget, agent, verification, body.
    pub task: String,
    /// The addition to its prompt.
    pub context: String,
    /// The limits of stack and tool profile, which only narrow those of the role.
    pub limits: LaunchLimits,
    /// Variables for the supervisor. The agent sees only those that its task names.
    pub environment: Vec<(String, String)>,
    /// Whether the supervisor may use the model key of the control plane.
    pub model_key: ModelKey,
    /// The message with which the conversation of the last attempt continues; nothing for a new one.
    pub resume: Option<String>,
    /// Its owner, by which sub-agents are counted over several runs.
    pub owner: AttemptOwner,
    /// The issue that stores its state.
    pub issue: Option<IssueBinding>,
    /// The sources in its context that it can hand to sub-agents with `contextPolicy: selected-sources`.
    pub sources: Vec<NamedSource>,
    /// The source of the files of its worktree, if it has none yet.
    pub workspace: LaunchWorkspace,
    /// The machines on which it may run.
    pub place: LaunchPlace,
}

/// The machines on which an attempt may run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LaunchPlace {
    /// That of the server.
    #[default]
    Server,
    /// Those of workers of its pool.
    Workers(WorkerPlace),
    /// A pod of its own, in a Kubernetes Job, with this of the cluster.
    Job(PodGrants),
}

/// The workers that may run an attempt, and its checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerPlace {
    /// The labels that a worker must have.
    pub labels: BTreeMap<String, String>,
    /// How many processor cores a worker must have, at least.
    pub cores: Option<u32>,
    /// The machines on which its checks run commands and tests.
    pub checks_on: ChecksOn,
}

/// How a run is bound to an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueBinding {
    pub issue: IssueName,
    /// The phase that the issue is in when the run has passed.
    #[serde(default)]
    pub phase: Option<PhaseName>,
    /// The milestone that it has then.
    #[serde(default)]
    pub milestone: Option<u64>,
    /// Where the files of the run are stored for the next agent. Not set in bindings of older versions.
    #[serde(rename = "handed_work", default)]
    pub work_storage: WorkStorage,
}

/// Where the files of a run are stored for the next agent of its issue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkStorage {
    /// With the issue, so that another machine can continue.
    WithIssue,
    /// On their machine: the write-back policy does not allow more.
    #[default]
    OnMachine,
}

/// The source of the files of a new worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LaunchWorkspace {
    /// The base commit.
    #[default]
    New,
    /// The base commit, because the workspace of its work item cannot be reused; and why.
    NotReused(String),
    /// The ended run of the ledger with this id, where the engine finds nothing against it.
    TakeOver(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttemptOwner {
    pub stack: String,
    pub pool: String,
    /// The capacity of the pool.
    pub capacity: Option<u32>,
    pub repository: String,
}

/// A sub-agent that the agent of an attempt has started.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchedChild {
    /// The run of the ledger.
    pub agent: String,
    /// The name of its definition.
    pub subagent: String,
    /// Its task.
    pub received: String,
    /// When it was requested, in milliseconds since 1970.
    pub at: u64,
    pub state: ChildState,
    /// Its whole result, once it has one.
    pub returned: Option<String>,
    /// Details of the state.
    pub detail: String,
    /// The id of its conversation, once it is known.
    pub session: Option<String>,
    pub cost: RunCost,
    /// The number of its last event.
    pub cursor: u64,
    /// How often its agent was started, at the time of the questions or later. Each start numbers its questions from
    /// one.
    pub attempts: u64,
    /// Open questions to people: the id and the subject of each.
    pub questions: Vec<(String, String)>,
}

/// The state of a sub-agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildState {
    /// Its agent is starting.
    Starting,
    /// Its agent is running.
    Running,
    /// It has returned a result.
    Completed,
    Failed,
    /// It was stopped.
    Stopped,
}

/// Whether an attempt may use the model key, or the login, of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelKey {
    /// The attempt uses it, unless it was granted another key.
    Lent,
    /// The attempt has a key that was granted to it, or none.
    Withheld,
}

/// The state of a launched attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Launched {
    pub state: LaunchedState,
    /// The id of its conversation, once it is known.
    pub session: Option<String>,
    pub cost: RunCost,
    /// How often its agent was started.
    pub attempts: u64,
    /// Whether a worker has claimed it, even if that worker has disappeared.
    pub is_claimed: bool,
    /// The number of its last event.
    pub cursor: u64,
    /// Its final message, or why it failed.
    pub detail: String,
    /// Open questions to people: the id and the subject of each.
    pub questions: Vec<(String, String)>,
    /// Its work, once it has ended.
    pub work: Option<FinishedWork>,
    /// What is wrong with its pod, if it has one.
    pub pod_problem: Option<PodProblem>,
}

/// The work of an attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedWork {
    /// The base commit.
    pub base: String,
    /// The commit with all changes.
    pub commit: String,
    /// The tree of that commit.
    pub tree: String,
    /// The changed files.
    pub files: Vec<String>,
    pub patch: Vec<u8>,
    /// The messages and added lines of every commit that a push would include. Nothing if that is too long to be
    /// searched.
    pub history: Option<Vec<u8>>,
    /// The same commits for people, the oldest first. None if they are too long to be listed.
    pub commits: Vec<PatchCommit>,
    /// Whether it merges with the current base.
    pub merges: bool,
    /// Whether every check passed.
    pub verified: bool,
    /// The verdict of the checks.
    pub verdict: String,
    /// The agent's report, if there is one.
    pub report: Option<String>,
}

/// The result of replaying the work of an attempt on another commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebased {
    /// It is still being replayed or checked.
    Running,
    /// Every check passed on the other commit.
    Verified(FinishedWork),
    /// It does not merge, or a check failed.
    Rejected(String),
}

/// The state of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchedState {
    /// No worker has begun it yet.
    WaitingForWorker,
    /// Its agent is starting.
    Starting,
    /// Its agent is running.
    Running,
    /// A tool call waits for an approval.
    WaitingForApproval,
    /// It has ended, and its work was verified.
    Verified,
    /// It has ended, and its work did not pass the checks.
    Rejected,
    Failed,
    /// It was stopped.
    Stopped,
    /// Its budget is spent.
    BudgetExhausted,
    /// It may have left its limits: its work must not be used.
    EnforcementLost,
}

impl LaunchedState {
    /// Every state.
    pub const ALL: [Self; 10] = [
        Self::WaitingForWorker,
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
            Self::WaitingForWorker => "waiting-for-worker",
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

    /// How the agent ended; nothing if it has not.
    pub fn exit_state(self) -> Option<ExitState> {
        match self {
            Self::WaitingForWorker | Self::Starting | Self::Running | Self::WaitingForApproval => {
                None
            }
            Self::Verified => Some(ExitState::Verified),
            Self::Rejected => Some(ExitState::Rejected),
            Self::Failed => Some(ExitState::Failed),
            Self::Stopped => Some(ExitState::Stopped),
            Self::BudgetExhausted => Some(ExitState::BudgetExhausted),
            Self::EnforcementLost => Some(ExitState::EnforcementLost),
        }
    }
}

/// Something that happened in an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineEvent {
    /// Its number in the run.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at: u64,
    pub kind: String,
    /// The rest.
    pub body: serde_json::Value,
}

/// Why the engine could not do something.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct EngineError(pub String);

/// Runs attempts.
pub trait Engine: Send + Sync + 'static {
    /// Launches an attempt; repeating it does nothing.
    fn launch(&self, launch: AttemptLaunch)
    -> impl Future<Output = Result<(), EngineError>> + Send;

    /// The state of an attempt; nothing if it was never launched.
    fn state(
        &self,
        agent: &str,
    ) -> impl Future<Output = Result<Option<Launched>, EngineError>> + Send;

    /// Whether its supervisor is running: its agent is starting, running or being verified. Cheaper than `state`.
    fn is_running(&self, agent: &str) -> impl Future<Output = Result<bool, EngineError>> + Send {
        async move {
            Ok(self.state(agent).await?.is_some_and(|known| match known.state {
                LaunchedState::WaitingForWorker
                | LaunchedState::Starting
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

    /// All sub-agents below an attempt, oldest first.
    fn children(
        &self,
        agent: &str,
    ) -> impl Future<Output = Result<Vec<LaunchedChild>, EngineError>> + Send;

    /// Answers a question; whether it was still open.
    fn answer(
        &self,
        agent: &str,
        question: &str,
        yes: bool,
    ) -> impl Future<Output = Result<bool, EngineError>> + Send;

    /// The events of an agent after this number, oldest first.
    fn events(
        &self,
        agent: &str,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EngineEvent>, EngineError>> + Send;

    /// Completes when an event of any agent is new, if that is known here: other events are found by reading.
    fn new_event(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Replays the verified work of an agent on the commit `onto`, and verifies it again. The first call starts
    /// that, later ones return the result.
    fn rebase(
        &self,
        _agent: &str,
        _onto: &str,
    ) -> impl Future<Output = Result<Rebased, EngineError>> + Send {
        let why = "this engine cannot rebase; start a new run";
        std::future::ready(Ok(Rebased::Rejected(why.to_owned())))
    }

    /// Stops an agent and everything that it started.
    fn cancel(&self, agent: &str) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Gives back the paths that an agent has claimed, after its work was written to the forge.
    fn give_back_claims(
        &self,
        _agent: &str,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Deletes the events of an agent that has ended. Its work stays.
    fn forget(&self, _agent: &str) -> impl Future<Output = Result<(), EngineError>> + Send {
        std::future::ready(Ok(()))
    }
}
