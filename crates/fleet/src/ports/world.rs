//! What the control plane sees of the world besides its store: the clock, repositories, forges, agent
//! programs.

use std::collections::BTreeMap;
use std::future::Future;

use bailiwick_resources::{AgentDispatchRun, ContextSource, Moment, Object, Repository};

use thiserror::Error;

use super::forge::{Forge, ForgeError};
use super::workspaces::{WorkspaceError, WorkspaceOperation, WorkspacePlace, WorkspaceReport};
use crate::admission::conditions::StackFacts;
use crate::admission::snapshot::Frozen;
use crate::bundle::SourcePart;

/// Why something could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FetchError {
    /// There is no such thing.
    #[error("{0}")]
    Missing(String),
    /// It could not be had, and asking again does not help.
    #[error("{0}")]
    Failed(String),
    /// Nobody answered: it can be asked again.
    #[error("nobody answered: {0}")]
    Unavailable(String),
}

impl From<ForgeError> for FetchError {
    fn from(error: ForgeError) -> Self {
        match error {
            ForgeError::Unavailable(why) => Self::Unavailable(why),
            other @ (ForgeError::Refused(_)
            | ForgeError::Moved { .. }
            | ForgeError::Unsupported(_)) => Self::Failed(other.to_string()),
        }
    }
}

/// A commit that was fetched and is kept for runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedCommit {
    /// Its commit; or another name where the fetch was cut off.
    pub name: String,
    /// When it was last fetched, if that is known.
    pub at: Option<Moment>,
    /// The ref that keeps it: another one each time that it is fetched.
    pub by: String,
}

/// The world.
pub trait World: Send + Sync + 'static {
    /// How forges are spoken to.
    type Forge: Forge;

    /// The time.
    fn now(&self) -> Moment;

    /// The forge of a repository, spoken to with this credential.
    fn forge(
        &self,
        repository: &Repository,
        credential: Option<&[u8]>,
    ) -> Result<Self::Forge, ForgeError>;

    /// The commit of a ref or a commit of the repository, fetched if it is not here yet.
    fn commit(
        &self,
        repository: &Repository,
        reference: &str,
        sha: Option<&str>,
    ) -> impl Future<Output = Result<Option<String>, String>> + Send;

    /// The same, with an error that says whether a retry may help.
    fn fetch_commit(
        &self,
        repository: &Repository,
        reference: &str,
        sha: Option<&str>,
    ) -> impl Future<Output = Result<Option<String>, FetchError>> + Send {
        async move { self.commit(repository, reference, sha).await.map_err(FetchError::Failed) }
    }

    /// The commits that are kept for runs.
    fn fetched_commits(
        &self,
        _repository: &Repository,
    ) -> impl Future<Output = Result<Vec<FetchedCommit>, String>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Releases these; what was fetched again meanwhile stays.
    fn release_commits(
        &self,
        _repository: &Repository,
        _fetched: &[FetchedCommit],
    ) -> impl Future<Output = Result<(), String>> + Send {
        async { Ok(()) }
    }

    /// The paths that differ between two commits.
    fn changed_paths(
        &self,
        repository: &Repository,
        base: &str,
        head: &str,
    ) -> impl Future<Output = Result<Vec<String>, String>> + Send;

    /// What is really there of what a stack names: its program, its servers, its skills, its role; those of
    /// the repository at a commit.
    fn stack_facts(
        &self,
        frozen: &Frozen,
        repository: Option<(&Repository, &str)>,
    ) -> impl Future<Output = StackFacts> + Send;

    /// A source that is attached to a run's context; nothing if there is none of it.
    fn source(
        &self,
        repository: &Object<Repository>,
        run: &AgentDispatchRun,
        source: ContextSource,
    ) -> impl Future<Output = Result<Option<SourcePart>, FetchError>> + Send;

    /// Regular expressions for what else is secret, as the person whose machine this is says; or why nobody
    /// knows them.
    fn redactions(&self) -> impl Future<Output = Result<Vec<String>, String>> + Send {
        async { Ok(Vec::new()) }
    }

    /// What each agent program can do here, by its name.
    fn capabilities(&self) -> impl Future<Output = BTreeMap<String, serde_json::Value>> + Send;

    /// What one agent program can do here; nothing if nobody knows it.
    fn capability(&self, adapter: &str) -> impl Future<Output = Option<serde_json::Value>> + Send {
        async move { self.capabilities().await.remove(adapter) }
    }

    /// Waits.
    fn sleep(&self, millis: u64) -> impl Future<Output = ()> + Send;

    /// The root .gitignore of a commit, line by line.
    fn ignored(
        &self,
        repository: &Repository,
        sha: &str,
    ) -> impl Future<Output = Option<Vec<String>>> + Send;

    /// Where a workspace of this name is made; nothing where none can be.
    fn workspace_path(&self, _name: &str) -> Option<String> {
        None
    }

    /// Whether a workspace has its files.
    fn has_files(&self, _path: &str) -> bool {
        false
    }

    /// The worktree of a run of the ledger: its directory and its branch; nothing if it has none.
    fn worktree(
        &self,
        _agent: &str,
    ) -> impl Future<Output = Result<Option<(String, String)>, String>> + Send {
        async { Ok(None) }
    }

    /// Does something with the files of a workspace of this repository.
    fn work_on(
        &self,
        _repository: &Repository,
        _place: &WorkspacePlace,
        _operation: WorkspaceOperation,
    ) -> impl Future<Output = Result<WorkspaceReport, WorkspaceError>> + Send {
        async { Err(WorkspaceError::Failed("there are no workspaces here".to_owned())) }
    }
}
