//! Narrow views of the wide ports: a controller names the few that it uses. Every adapter of a wide port has them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use bailiwick_resources::{
    AgentDispatchRun, AnyObject, ContextSource, Kind, Moment, Object, Repository,
};

use super::engine::{Engine, EngineError, EngineEvent};
use super::forge::{Forge, ForgeError};
use super::store::{Applied, FleetError, FleetStore, Page, PersonRecord, Selection, Write};
use super::workspaces::{
    RunWorktree, WorkspaceError, WorkspaceOperation, WorkspacePlace, WorkspaceReport,
};
use super::world::{BackgroundWork, FetchError, FetchedCommit, World, WorldError};
use crate::admission::OwnerFacts;
use crate::admission::conditions::StackFacts;
use crate::admission::snapshot::FrozenStack;
use crate::bundle::SourcePart;

/// Objects and the bytes that they name.
pub trait ObjectStore: Send + Sync + 'static {
    /// See [`FleetStore::get`].
    fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<AnyObject>, FleetError>> + Send;

    /// See [`FleetStore::list`].
    fn list(&self, selection: &Selection) -> impl Future<Output = Result<Page, FleetError>> + Send;

    /// See [`FleetStore::count_both`].
    fn count_both(
        &self,
        kind: Kind,
        first: (&str, &str),
        second: (&str, &str),
    ) -> impl Future<Output = Result<u64, FleetError>> + Send;

    /// See [`FleetStore::commit`].
    fn commit(
        &self,
        writes: Vec<Write>,
        now: Moment,
    ) -> impl Future<Output = Result<Applied, FleetError>> + Send;

    /// See [`FleetStore::blob`].
    fn blob(
        &self,
        digest: &str,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, FleetError>> + Send;

    /// See [`FleetStore::blobs`].
    fn blobs(
        &self,
        digests: &BTreeSet<String>,
    ) -> impl Future<Output = Result<BTreeMap<String, Vec<u8>>, FleetError>> + Send;

    /// See [`FleetStore::people`].
    fn people(&self) -> impl Future<Output = Result<Vec<PersonRecord>, FleetError>> + Send;
}

impl<S: FleetStore> ObjectStore for S {
    fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<AnyObject>, FleetError>> + Send {
        FleetStore::get(self, kind, namespace, name)
    }

    fn list(&self, selection: &Selection) -> impl Future<Output = Result<Page, FleetError>> + Send {
        FleetStore::list(self, selection)
    }

    fn count_both(
        &self,
        kind: Kind,
        first: (&str, &str),
        second: (&str, &str),
    ) -> impl Future<Output = Result<u64, FleetError>> + Send {
        FleetStore::count_both(self, kind, first, second)
    }

    fn commit(
        &self,
        writes: Vec<Write>,
        now: Moment,
    ) -> impl Future<Output = Result<Applied, FleetError>> + Send {
        FleetStore::commit(self, writes, now)
    }

    fn blob(
        &self,
        digest: &str,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, FleetError>> + Send {
        FleetStore::blob(self, digest)
    }

    fn blobs(
        &self,
        digests: &BTreeSet<String>,
    ) -> impl Future<Output = Result<BTreeMap<String, Vec<u8>>, FleetError>> + Send {
        FleetStore::blobs(self, digests)
    }

    fn people(&self) -> impl Future<Output = Result<Vec<PersonRecord>, FleetError>> + Send {
        FleetStore::people(self)
    }
}

/// Values of secrets.
pub trait SecretStore: Send + Sync + 'static {
    /// See [`FleetStore::secret_value`].
    fn secret_value(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, FleetError>> + Send;
}

impl<S: FleetStore> SecretStore for S {
    fn secret_value(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, FleetError>> + Send {
        FleetStore::secret_value(self, namespace, name, key)
    }
}

pub trait AgentEvents: Send + Sync + 'static {
    /// See [`Engine::events`].
    fn events(
        &self,
        agent: &str,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EngineEvent>, EngineError>> + Send;

    /// See [`Engine::new_event`].
    fn new_event(&self) -> impl Future<Output = ()> + Send;

    /// See [`Engine::forget`].
    fn forget(&self, agent: &str) -> impl Future<Output = Result<(), EngineError>> + Send;
}

impl<E: Engine> AgentEvents for E {
    fn events(
        &self,
        agent: &str,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EngineEvent>, EngineError>> + Send {
        Engine::events(self, agent, after, limit)
    }

    fn new_event(&self) -> impl Future<Output = ()> + Send {
        Engine::new_event(self)
    }

    fn forget(&self, agent: &str) -> impl Future<Output = Result<(), EngineError>> + Send {
        Engine::forget(self, agent)
    }
}

/// Which agents are running.
pub trait AgentPresence: Send + Sync + 'static {
    /// See [`Engine::is_running`].
    fn is_running(&self, agent: &str) -> impl Future<Output = Result<bool, EngineError>> + Send;
}

impl<E: Engine> AgentPresence for E {
    fn is_running(&self, agent: &str) -> impl Future<Output = Result<bool, EngineError>> + Send {
        Engine::is_running(self, agent)
    }
}

/// The time. A caller that waits can also limit the wait, and let work run beside it.
pub trait Clock: Background {
    /// See [`World::now`].
    fn now(&self) -> Moment;
}

impl<W: World> Clock for W {
    fn now(&self) -> Moment {
        World::now(self)
    }
}

/// Time limits, and work beside the caller.
pub trait Background: Send + Sync + 'static {
    /// See [`World::timer`].
    fn timer(&self, millis: u64) -> impl Future<Output = ()> + Send;

    /// See [`World::spawn`].
    fn spawn(&self, run: Option<&str>, work: BackgroundWork) -> Option<BackgroundWork>;
}

impl<W: World> Background for W {
    fn timer(&self, millis: u64) -> impl Future<Output = ()> + Send {
        World::timer(self, millis)
    }

    fn spawn(&self, run: Option<&str>, work: BackgroundWork) -> Option<BackgroundWork> {
        World::spawn(self, run, work)
    }
}

/// Clients of forges.
pub trait Forges: Send + Sync + 'static {
    /// A client of one repository.
    type Forge: Forge;

    /// See [`World::forge`].
    fn forge(
        &self,
        repository: &Repository,
        credential: Option<&[u8]>,
    ) -> Result<Self::Forge, ForgeError>;
}

impl<W: World> Forges for W {
    type Forge = <W as World>::Forge;

    fn forge(
        &self,
        repository: &Repository,
        credential: Option<&[u8]>,
    ) -> Result<Self::Forge, ForgeError> {
        World::forge(self, repository, credential)
    }
}

/// The commits of repositories.
pub trait Commits: Send + Sync + 'static {
    /// See [`World::fetch_commit`].
    fn fetch_commit(
        &self,
        repository: &Repository,
        reference: &str,
        sha: Option<&str>,
    ) -> impl Future<Output = Result<Option<String>, FetchError>> + Send;

    /// See [`World::fetched_commits`].
    fn fetched_commits(
        &self,
        repository: &Repository,
    ) -> impl Future<Output = Result<Vec<FetchedCommit>, WorldError>> + Send;

    /// See [`World::release_commits`].
    fn release_commits(
        &self,
        repository: &Repository,
        fetched: &[FetchedCommit],
    ) -> impl Future<Output = Result<(), WorldError>> + Send;

    /// See [`World::checkout_problem`].
    fn checkout_problem(
        &self,
        repository: &Repository,
    ) -> impl Future<Output = Option<WorldError>> + Send;

    /// See [`World::changed_paths`].
    fn changed_paths(
        &self,
        repository: &Repository,
        base: &str,
        head: &str,
    ) -> impl Future<Output = Result<Vec<String>, WorldError>> + Send;
}

impl<W: World> Commits for W {
    fn fetch_commit(
        &self,
        repository: &Repository,
        reference: &str,
        sha: Option<&str>,
    ) -> impl Future<Output = Result<Option<String>, FetchError>> + Send {
        World::fetch_commit(self, repository, reference, sha)
    }

    fn fetched_commits(
        &self,
        repository: &Repository,
    ) -> impl Future<Output = Result<Vec<FetchedCommit>, WorldError>> + Send {
        World::fetched_commits(self, repository)
    }

    fn release_commits(
        &self,
        repository: &Repository,
        fetched: &[FetchedCommit],
    ) -> impl Future<Output = Result<(), WorldError>> + Send {
        World::release_commits(self, repository, fetched)
    }

    fn checkout_problem(
        &self,
        repository: &Repository,
    ) -> impl Future<Output = Option<WorldError>> + Send {
        World::checkout_problem(self, repository)
    }

    fn changed_paths(
        &self,
        repository: &Repository,
        base: &str,
        head: &str,
    ) -> impl Future<Output = Result<Vec<String>, WorldError>> + Send {
        World::changed_paths(self, repository, base, head)
    }
}

/// What a stack and its runs need from the machine: programs, files of a commit, attached sources, redaction rules.
pub trait StackSources: Send + Sync + 'static {
    /// See [`World::stack_facts`].
    fn stack_facts(
        &self,
        frozen: &FrozenStack,
        repository: Option<(&Repository, &str)>,
    ) -> impl Future<Output = StackFacts> + Send;

    /// See [`World::ignored`].
    fn ignored(
        &self,
        repository: &Repository,
        sha: &str,
    ) -> impl Future<Output = Option<Vec<String>>> + Send;

    /// See [`World::code_owners`].
    fn code_owners(
        &self,
        repository: &Repository,
        sha: &str,
    ) -> impl Future<Output = OwnerFacts> + Send;

    /// See [`World::source`].
    fn source(
        &self,
        repository: &Object<Repository>,
        run: &AgentDispatchRun,
        source: ContextSource,
    ) -> impl Future<Output = Result<Option<SourcePart>, FetchError>> + Send;

    /// See [`World::redactions`].
    fn redactions(&self) -> impl Future<Output = Result<Vec<String>, WorldError>> + Send;

    /// See [`World::capability`].
    fn capability(&self, adapter: &str) -> impl Future<Output = Option<serde_json::Value>> + Send;
}

impl<W: World> StackSources for W {
    fn stack_facts(
        &self,
        frozen: &FrozenStack,
        repository: Option<(&Repository, &str)>,
    ) -> impl Future<Output = StackFacts> + Send {
        World::stack_facts(self, frozen, repository)
    }

    fn ignored(
        &self,
        repository: &Repository,
        sha: &str,
    ) -> impl Future<Output = Option<Vec<String>>> + Send {
        World::ignored(self, repository, sha)
    }

    fn code_owners(
        &self,
        repository: &Repository,
        sha: &str,
    ) -> impl Future<Output = OwnerFacts> + Send {
        World::code_owners(self, repository, sha)
    }

    fn source(
        &self,
        repository: &Object<Repository>,
        run: &AgentDispatchRun,
        source: ContextSource,
    ) -> impl Future<Output = Result<Option<SourcePart>, FetchError>> + Send {
        World::source(self, repository, run, source)
    }

    fn redactions(&self) -> impl Future<Output = Result<Vec<String>, WorldError>> + Send {
        World::redactions(self)
    }

    fn capability(&self, adapter: &str) -> impl Future<Output = Option<serde_json::Value>> + Send {
        World::capability(self, adapter)
    }
}

/// The files of workspaces.
pub trait Worktrees: Send + Sync + 'static {
    /// See [`World::workspace_path`].
    fn workspace_path(&self, name: &str) -> Option<String>;

    /// See [`World::has_files`].
    fn has_files(&self, path: &str) -> bool;

    /// See [`World::worktree`].
    fn worktree(
        &self,
        agent: &str,
    ) -> impl Future<Output = Result<Option<RunWorktree>, WorldError>> + Send;

    /// See [`World::work_on`].
    fn work_on(
        &self,
        repository: &Repository,
        place: &WorkspacePlace,
        operation: WorkspaceOperation,
    ) -> impl Future<Output = Result<WorkspaceReport, WorkspaceError>> + Send;
}

impl<W: World> Worktrees for W {
    fn workspace_path(&self, name: &str) -> Option<String> {
        World::workspace_path(self, name)
    }

    fn has_files(&self, path: &str) -> bool {
        World::has_files(self, path)
    }

    fn worktree(
        &self,
        agent: &str,
    ) -> impl Future<Output = Result<Option<RunWorktree>, WorldError>> + Send {
        World::worktree(self, agent)
    }

    fn work_on(
        &self,
        repository: &Repository,
        place: &WorkspacePlace,
        operation: WorkspaceOperation,
    ) -> impl Future<Output = Result<WorkspaceReport, WorkspaceError>> + Send {
        World::work_on(self, repository, place, operation)
    }
}
