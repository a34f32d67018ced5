//! The world besides the store and the engine: the clock, repositories, forges, agent programs, worktrees.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use bailiwick_resources::{AgentDispatchRun, ContextSource, Moment, Object, Repository};

use thiserror::Error;

use super::forge::{AccountProblem, Forge, ForgeError};
use super::workspaces::{
    RunWorktree, WorkspaceError, WorkspaceOperation, WorkspacePlace, WorkspaceReport,
};
use crate::admission::OwnerFacts;
use crate::admission::conditions::StackFacts;
use crate::admission::snapshot::FrozenStack;
use crate::bundle::SourcePart;

/// Why something could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FetchError {
    /// It does not exist.
    #[error("{0}")]
    Missing(String),
    /// It failed, and a retry does not help.
    #[error("{0}")]
    Failed(String),
    /// The forge did not answer: a retry may help.
    #[error("nobody answered: {0}")]
    Unavailable(String),
    /// The token or the account does not suffice: a retry helps after a person has fixed it.
    #[error(transparent)]
    Account(#[from] AccountProblem),
    /// This machine cannot fetch now, so that nothing is known about the forge: a retry helps after a person has
    /// fixed it.
    #[error(transparent)]
    Local(WorldError),
}

impl From<ForgeError> for FetchError {
    fn from(error: ForgeError) -> Self {
        match error {
            ForgeError::Unavailable(why) => Self::Unavailable(why),
            ForgeError::Account(problem) => Self::Account(problem),
            other @ (ForgeError::Refused(_)
            | ForgeError::Moved { .. }
            | ForgeError::Unsupported(_)) => Self::Failed(other.to_string()),
        }
    }
}

/// Why this machine cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// The checkout cannot be used now: it is missing, or its disk is full.
    #[error("{0}")]
    Checkout(String),
    /// A git command failed in a checkout that can be used: it fails again.
    #[error("{0}")]
    Git(String),
    #[error(
        "the credential `{name}/{key}` does not exist: write it with `bailiwick secrets set {name} {key}`"
    )]
    NoCredential { name: String, key: String },
    #[error("the credential `{name}/{key}` is not a token: {why}")]
    BadCredential { name: String, key: String, why: String },
    #[error("{file} cannot be read: {why}")]
    Unreadable { file: String, why: String },
    /// The records of this machine cannot be read.
    #[error("{0}")]
    Records(String),
    #[error("the work on it ended unexpectedly (see the server log)")]
    Panicked,
}

impl WorldError {
    /// Whether the same works later, when a person has fixed this machine.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Git(_) => false,
            Self::Checkout(_)
            | Self::NoCredential { .. }
            | Self::BadCredential { .. }
            | Self::Unreadable { .. }
            | Self::Records(_)
            | Self::Panicked => true,
        }
    }

    /// Whether the credential of the repository has to be set.
    pub fn is_credential(&self) -> bool {
        match self {
            Self::NoCredential { .. } | Self::BadCredential { .. } => true,
            Self::Checkout(_)
            | Self::Git(_)
            | Self::Unreadable { .. }
            | Self::Records(_)
            | Self::Panicked => false,
        }
    }
}

impl From<WorldError> for FetchError {
    fn from(error: WorldError) -> Self {
        if error.is_temporary() { Self::Local(error) } else { Self::Failed(error.to_string()) }
    }
}

/// A fetched commit that is protected for runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedCommit {
    /// The commit; another name where the fetch was interrupted.
    pub name: String,
    /// When it was last fetched, if that is known.
    pub at: Option<Moment>,
    /// The ref that protects it: a new one for each fetch.
    pub by: String,
}

/// Work that runs beside its caller.
pub type BackgroundWork = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The clock, repositories, forges, agent programs and worktrees.
pub trait World: Send + Sync + 'static {
    /// The client of a forge.
    type Forge: Forge;

    /// The time.
    fn now(&self) -> Moment;

    /// A client of the forge of a repository.
    fn forge(
        &self,
        repository: &Repository,
        credential: Option<&[u8]>,
    ) -> Result<Self::Forge, ForgeError>;

    /// The commit of a ref, fetched if it is not here yet.
    fn fetch_commit(
        &self,
        repository: &Repository,
        reference: &str,
        sha: Option<&str>,
    ) -> impl Future<Output = Result<Option<String>, FetchError>> + Send;

    /// The commits that are protected for runs.
    fn fetched_commits(
        &self,
        _repository: &Repository,
    ) -> impl Future<Output = Result<Vec<FetchedCommit>, WorldError>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Releases these; commits that were fetched again meanwhile stay.
    fn release_commits(
        &self,
        _repository: &Repository,
        _fetched: &[FetchedCommit],
    ) -> impl Future<Output = Result<(), WorldError>> + Send {
        async { Ok(()) }
    }

    /// Why the checkout of a repository cannot be used now, if it cannot.
    fn checkout_problem(
        &self,
        _repository: &Repository,
    ) -> impl Future<Output = Option<WorldError>> + Send {
        async { None }
    }

    /// The paths that differ between two commits.
    fn changed_paths(
        &self,
        repository: &Repository,
        base: &str,
        head: &str,
    ) -> impl Future<Output = Result<Vec<String>, WorldError>> + Send;

    /// Probes what a stack names: its program, servers, skills and role, at a commit of the repository.
    fn stack_facts(
        &self,
        frozen: &FrozenStack,
        repository: Option<(&Repository, &str)>,
    ) -> impl Future<Output = StackFacts> + Send;

    /// A source for the context of a run; nothing if it does not apply.
    fn source(
        &self,
        repository: &Object<Repository>,
        run: &AgentDispatchRun,
        source: ContextSource,
    ) -> impl Future<Output = Result<Option<SourcePart>, FetchError>> + Send;

    /// Regular expressions of the machine's owner for further secrets.
    fn redactions(&self) -> impl Future<Output = Result<Vec<String>, WorldError>> + Send {
        async { Ok(Vec::new()) }
    }

    /// The capabilities of each agent program, by its name.
    fn capabilities(&self) -> impl Future<Output = BTreeMap<String, serde_json::Value>> + Send;

    /// The capabilities of one agent program; nothing if it is unknown.
    fn capability(&self, adapter: &str) -> impl Future<Output = Option<serde_json::Value>> + Send {
        async move { self.capabilities().await.remove(adapter) }
    }

    fn sleep(&self, millis: u64) -> impl Future<Output = ()> + Send;

    /// Completes after this time. Where nothing is slow it never does.
    fn timer(&self, _millis: u64) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Runs work in the background to its end. Returns it if there is no background; then the caller runs it. What it
    /// logs names the run that it is about.
    fn spawn(&self, _run: Option<&str>, work: BackgroundWork) -> Option<BackgroundWork> {
        Some(work)
    }

    /// The root .gitignore of a commit, line by line.
    fn ignored(
        &self,
        repository: &Repository,
        sha: &str,
    ) -> impl Future<Output = Option<Vec<String>>> + Send;

    /// The owners of all files of a commit, by its CODEOWNERS file.
    fn code_owners(
        &self,
        _repository: &Repository,
        _sha: &str,
    ) -> impl Future<Output = OwnerFacts> + Send {
        async { OwnerFacts::Unusable("there are no files here".to_owned()) }
    }

    /// The directory of a new workspace; nothing where none can be created.
    fn workspace_path(&self, _name: &str) -> Option<String> {
        None
    }

    fn has_files(&self, _path: &str) -> bool {
        false
    }

    /// The worktree of a run of the ledger; nothing if it has none.
    fn worktree(
        &self,
        _agent: &str,
    ) -> impl Future<Output = Result<Option<RunWorktree>, WorldError>> + Send {
        async { Ok(None) }
    }

    /// Performs an operation on the files of a workspace, which is compared with its target on the forge.
    fn work_on(
        &self,
        _repository: &Repository,
        _place: &WorkspacePlace,
        _operation: WorkspaceOperation,
    ) -> impl Future<Output = Result<WorkspaceReport, WorkspaceError>> + Send {
        async { Err(WorkspaceError::Failed("there are no workspaces here".to_owned())) }
    }
}
