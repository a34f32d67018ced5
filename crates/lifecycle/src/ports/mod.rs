//! The ports of the executors. Each has one adapter in another crate.

mod delegation;
mod supervision;
mod work;
mod workshop;

use std::future::Future;
use std::path::PathBuf;

use bailiwick_model::run::IllegalTransition;
use bailiwick_model::task::{List, ShellCommand};
use bailiwick_model::{AgentId, Run, RunName, RunStatus, Sha256Hex, Task};
use thiserror::Error;

pub use delegation::{Consent, Delegation};
pub use supervision::{
    CallPolicy, ChecksNotRun, DecidedCall, Events, ForbiddenFile, ForbiddenFiles, TreeChecks,
};
pub use work::{
    Base, Commit, Conflict, LandError, Landed, Landing, Merge, Method, Snapshot, Work, WorkError,
};
pub use workshop::{CheckEnvironment, CheckEnvironmentError, SetUp};

/// A run that is about to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// The agent's id.
    pub id: AgentId,
    /// The branch that it works on.
    pub branch: String,
    /// The agent or branch that it was started from.
    pub parent: Option<String>,
    /// The digest of its task.toml.
    pub spec_sha: String,
    /// The path of its worktree.
    pub worktree: Option<String>,
    /// Its identity.
    pub dna: Option<String>,
    /// The person or agent who started it.
    pub creator: Option<String>,
    /// The identity that it was forked from.
    pub fork_parent: Option<String>,
    /// Whether more steps follow before its agent may start.
    pub half_spawned: bool,
    /// The commit that it starts from, whose kit binds it.
    pub base: Option<String>,
    /// Its name and repository; by default its ID, and no repository.
    pub named: Option<RunName>,
}

/// Why the store failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The id belongs to a run already.
    #[error("there is a run `{id}` already")]
    IdTaken {
        /// The id.
        id: AgentId,
    },
    /// The repository has a run of this name already.
    #[error("this repository has a run `{name}` already")]
    NameTaken {
        /// The name.
        name: AgentId,
    },
    /// The run does not exist.
    #[error("there is no run `{id}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    NoSuchRun {
        id: String,
        /// A run that may have been meant.
        near: Option<String>,
    },
    /// The status may not follow.
    #[error("run `{id}`: {why}")]
    Illegal {
        /// The run.
        id: AgentId,
        /// The transition.
        why: IllegalTransition,
    },
    /// The database was created by a newer version.
    #[error("{database} was made by a newer bailiwick (schema {found}, this one knows {known})")]
    TooNew {
        /// The database.
        database: String,
        /// Its schema.
        found: i64,
        /// The newest schema that is known here.
        known: i64,
    },
    /// The database did not work.
    #[error("{database}: {why}")]
    Database {
        /// The database.
        database: String,
        /// The error of the database.
        why: String,
    },
}

/// The store of runs.
pub trait RunStore {
    /// The run of this id.
    fn find(&self, id: &AgentId) -> impl Future<Output = Result<Option<Run>, StoreError>> + Send;

    /// Records a run, and the text of its task under its digest.
    fn record(
        &self,
        run: &NewRun,
        spec: Option<&str>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Notes that every step of its spawn is done.
    fn finish_spawn(&self, id: &AgentId) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Changes the status, if it may follow.
    fn change_status(
        &self,
        id: &AgentId,
        next: RunStatus,
        summary: Option<&str>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The existing parts of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenWorkspace {
    /// The directory with task and prompt.
    pub task_directory: bool,
    /// The branch.
    pub branch: bool,
    /// Whether the worktree is registered with git and exists.
    pub worktree: bool,
    /// Something else where the worktree should be.
    pub obstacle: bool,
    /// Whether the worktree was prepared.
    pub ready: bool,
}

/// Why a workspace could not be created.
#[derive(Debug, Error)]
#[error("{what}: {why}")]
pub struct WorkspaceError {
    /// The operation.
    pub what: String,
    /// The cause.
    pub why: String,
}

/// The task directory, which is written in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDirectory {
    /// task.toml.
    pub task: String,
    /// prompt.md.
    pub prompt: String,
}

/// How a worktree is prepared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preparation {
    /// Files and directories to copy from the checkout.
    pub copy: Vec<String>,
    /// Shell commands that install the dependencies.
    pub setup: Vec<String>,
    /// Hosts that the setup can reach besides the package registries.
    pub hosts: Vec<String>,
    /// Shell commands that fetch what checks without a network need.
    pub prefetch: Vec<String>,
}

impl Preparation {
    /// The preparation that a task requires.
    pub fn of(task: &Task) -> Self {
        let lines = |list: &List<ShellCommand>| -> Vec<String> {
            list.get().iter().map(|line| line.as_str().to_owned()).collect()
        };
        let workspace = &task.workspace;
        Self {
            copy: workspace.copy.get().iter().map(|path| path.as_str().to_owned()).collect(),
            setup: lines(&workspace.setup),
            hosts: workspace.hosts.iter().map(ToString::to_string).collect(),
            prefetch: lines(&workspace.prefetch),
        }
    }
}

/// Task directories, branches and worktrees.
pub trait Workspaces {
    /// The existing workspace of this agent.
    fn observe(&self, id: &AgentId) -> Result<SeenWorkspace, WorkspaceError>;

    /// Where the agent's worktree is or would be.
    fn worktree_path(&self, id: &AgentId) -> PathBuf;

    /// Writes the task directory in one step.
    fn write_task(&self, id: &AgentId, files: &TaskDirectory) -> Result<(), WorkspaceError>;

    /// Creates the branch and the worktree on the base commit.
    fn add_worktree(&self, id: &AgentId, base: &str) -> Result<(), WorkspaceError>;

    /// Copies files into the worktree and runs its setup.
    fn make_ready(&self, id: &AgentId, preparation: &Preparation) -> Result<(), WorkspaceError>;
}

/// The digest under which a task's text is stored.
pub fn spec_sha(task: &str) -> Sha256Hex {
    Sha256Hex::of(task)
}
