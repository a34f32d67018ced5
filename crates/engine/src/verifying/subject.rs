//! Whose work is verified, and what binds it: from the ledger, or from a task that was named.

use std::path::{Path, PathBuf};

use bailiwick_kit::{Bound, bind, task_text};
use bailiwick_lifecycle::ports::{RunStore as _, Work as _, WorkError};
use bailiwick_model::task::Line;
use bailiwick_model::{
    AgentId, CommitId, LedgerNote, Run, RunState, Settings, Sha256Hex, Source, Task,
};
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::{GitWork, Repository, SpawnLock, WorktreeWorkspaces};

use crate::agent_state::{AgentState, SupervisorState};
use crate::context::Context;
use crate::failure::Failure;
use crate::{agent_names, launched_for, sources};

const SETTINGS: &str = "settings.toml";

/// How the work of an agent is found and read: what the caller names, and otherwise the defaults.
#[derive(Debug, Clone, Default)]
pub struct WorkOptions {
    /// The agent's worktree.
    pub worktree: Option<PathBuf>,
    /// The repository that the work is to land in.
    pub main_repository: Option<PathBuf>,
    /// The branch that it is to land on.
    pub base: Option<String>,
    /// When its snapshot starts.
    pub snapshot_start: SnapshotStart,
    /// What the work is compared with if no branch is named.
    pub against: ComparisonBase,
}

/// The base that the work of a control plane run is compared with. The work of other runs is always compared
/// with the branch that it lands on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ComparisonBase {
    /// The commit that it was launched on: branches of the checkout may be old or belong to others.
    #[default]
    Launch,
    /// The branch of the checkout that it is to land on.
    Branch,
}

/// When the snapshot of an agent's work starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SnapshotStart {
    /// When it is needed; a landing needs it once it has its locks.
    #[default]
    OnDemand,
    /// As soon as the worktree is known, in parallel with other reads.
    Immediate,
}

/// An agent's work with its task and policy.
pub struct AgentWork {
    /// The surroundings, as seen from the main repository.
    pub context: Context,
    /// The main repository.
    pub repository: Repository,
    /// The agent, where it has an id.
    pub agent: Option<AgentId>,
    /// Its row in the ledger, where it has one.
    pub run: Option<Run>,
    /// Its task, role and capabilities, from the commit that binds it.
    pub bound: Bound,
    /// The commit that it started from.
    pub base: CommitId,
    /// The commit whose kit binds it: the one that it started from, unless its task names another.
    pub kit_commit: String,
    /// The repository's settings, from the same commit.
    pub settings: Settings,
    /// Where it works.
    pub worktree: PathBuf,
    /// Its work, or why it cannot be found.
    pub work: Result<GitWork, WorkError>,
}

impl AgentWork {
    /// The work of an agent in the ledger.
    pub fn of_agent(
        context: &Context,
        id: &AgentId,
        options: &WorkOptions,
    ) -> Result<Self, Failure> {
        let context = seen_from(context, options)?;
        let (run, spec) = context.with_store(async |store| {
            let run = store.get(id).await?;
            let spec = store.spec(&run.spec_sha).await?;
            Ok((run, spec))
        })?;
        let spec = spec.ok_or_else(|| {
            Failure::general(format!(
                "the ledger has no task for `{id}`, so nothing says what must hold"
            ))
            .help("verify it by its task: bailiwick verify TASK.toml --worktree DIR")
        })?;
        let source = Source::new(format!("the task of {id}"), spec);
        Self::bound(context, &source, Some(id.clone()), Some(run), options)
    }

    /// The work that a task asked for.
    pub fn of_task(
        context: &Context,
        task: &Path,
        agent: Option<AgentId>,
        options: &WorkOptions,
    ) -> Result<Self, Failure> {
        Self::of_source(context, &sources::read_task(context, task)?, agent, options)
    }

    /// The same, for a task whose text is at hand.
    pub fn of_source(
        context: &Context,
        source: &Source,
        agent: Option<AgentId>,
        options: &WorkOptions,
    ) -> Result<Self, Failure> {
        let named = Task::parse(source)?.task.agent_id;
        let context = seen_from(context, options)?;
        let agent = match agent.or(named) {
            Some(name) => Some(agent_names::resolve(&context, &name)?),
            None => None,
        };
        let run = match &agent {
            Some(id) => context.with_store(async |store| Ok(store.find(id).await?))?,
            None => None,
        };
        if let (Some(run), Some(id)) = (&run, &agent) {
            let digest = Sha256Hex::of(task_text::with_agent_id(source, id)?).to_string();
            if digest != run.spec_sha && Sha256Hex::of(&*source.text).to_string() != run.spec_sha {
                return Err(Failure::general(format!(
                    "{} differs from the one that `{id}` was spawned with",
                    source.file
                ))
                .help(format!("verify it by what was recorded: bailiwick verify {id}")));
            }
        }
        Self::bound(context, source, agent, run, options)
    }

    fn bound(
        context: Context,
        source: &Source,
        agent: Option<AgentId>,
        run: Option<Run>,
        options: &WorkOptions,
    ) -> Result<Self, Failure> {
        let repository = context.require_repository()?;
        if let Some(run) = &run {
            agent_names::require_here(run, &repository)?;
        }
        let recorded = run.as_ref().and_then(|run| run.worktree_path.as_ref()).map(PathBuf::from);
        let worktree = options
            .worktree
            .as_ref()
            .map(|path| context.directory.join(path))
            .or(recorded)
            .ok_or_else(|| {
                Failure::refused("it is not known where the agent worked")
                    .help("give its worktree: --worktree DIR")
            })?;
        let unnamed =
            AgentId::parse("unnamed").map_err(|error| Failure::general(error.to_string()))?;
        let name = agent.as_ref().unwrap_or(&unnamed);
        let open = |base: Option<String>| {
            GitWork::open(repository.root(), &worktree, &context.state, name, base)
        };
        let begun = match run.as_ref().and_then(|run| run.base.clone()) {
            Some(base) => CommitId::new(base),
            None => kit_commit_of(&repository, open(options.base.clone()).ok().as_ref())?,
        };
        let opened = open(None).and_then(|work| {
            match options.snapshot_start {
                SnapshotStart::Immediate => work.start_snapshot(&begun)?,
                SnapshotStart::OnDemand => {}
            }
            Ok(work)
        });
        let named = Task::parse(source)?.task.kit_commit;
        let kit_commit =
            sources::kit_commit(&repository, named.as_ref().map(Line::as_str), &begun)?;
        let (kit, settings) = std::thread::scope(|scope| {
            let settings = scope.spawn(|| settings(&repository, &kit_commit));
            let kit = sources::committed_kit(&context, &repository, &kit_commit)?;
            let lost = |_| Failure::general("the settings of the base commit were not read");
            Ok::<_, Failure>((kit, settings.join().map_err(lost)?))
        })?;
        let bound = bind(&kit, source)?;
        let settings = settings?;
        let checkout = match &agent {
            Some(id) => launched_for::checkout(&context.state, id).map_err(|error| {
                Failure::general(format!("cannot read which checkout `{id}` works for: {error}"))
            })?,
            None => None,
        };
        let work = match options.against {
            ComparisonBase::Launch if checkout.is_some() && options.base.is_none() => {
                opened.map(|work| work.on_commit(begun.clone()))
            }
            ComparisonBase::Launch | ComparisonBase::Branch => {
                let base = options.base.clone().or_else(|| settings.land.base.clone());
                opened.map(|work| work.with_base(base))
            }
        };
        Ok(Self {
            context,
            repository,
            agent,
            run,
            bound,
            base: begun,
            kit_commit,
            settings,
            worktree,
            work,
        })
    }

    /// Its work, or the failure that it cannot be found.
    pub fn git_work(&self) -> Result<&GitWork, Failure> {
        if self.work.is_err() {
            self.require_worktree()?;
        }
        self.work.as_ref().map_err(|error| Failure::general(error.to_string()))
    }

    /// Returns an error if the worktree of an agent was removed; it says where its work is.
    pub fn require_worktree(&self) -> Result<(), Failure> {
        let Some(run) = self.run.as_ref().filter(|_| !self.worktree.exists()) else {
            return Ok(());
        };
        let id = &run.id;
        let kept_reference = format!("refs/bailiwick/kept/{id}");
        let is_kept = self.repository.commit(&kept_reference)?.is_some();
        let help = match run.state {
            RunState::Merged | RunState::RolledBack => match self.landed_commit(id)? {
                Some(commit) => format!("what it landed: git show {commit:.12}"),
                None => format!("what it landed: bailiwick ledger show {id}"),
            },
            RunState::HalfSpawned
            | RunState::Ready
            | RunState::Running
            | RunState::Done
            | RunState::Failed
            | RunState::Rejected => {
                let place = if is_kept { &kept_reference } else { &run.branch };
                format!("what is kept of its work: git diff {:.12} {place}", self.base)
            }
        };
        let text = format!("the worktree of `{id}` was removed, and it is {}", run.state);
        Err(Failure::general(text).help(help))
    }

    /// The commit as which the work of an agent has landed, if the ledger names it.
    fn landed_commit(&self, id: &AgentId) -> Result<Option<String>, Failure> {
        let events =
            self.context.with_store(async |store| Ok(store.events(id.as_str()).await?))?;
        let landed = events.iter().rev().find(|event| event.is(LedgerNote::Landed));
        let detail: Option<serde_json::Value> =
            landed.and_then(|event| serde_json::from_str(&event.detail).ok());
        Ok(detail.and_then(|detail| Some(detail.get("commit")?.as_str()?.to_owned())))
    }

    /// Locks the agent against a concurrent landing, rejection or spawn.
    pub fn lock(&self, id: &AgentId) -> Result<SpawnLock, Failure> {
        let directory = RunDirectory::new(&self.context.state, id.as_str());
        let is_supervised = directory.is_supervised().map_err(|error| {
            Failure::general(format!("cannot find out whether `{id}` is running: {error}"))
        })?;
        if is_supervised {
            return Err(self.busy(id)?);
        }
        let workspaces = WorktreeWorkspaces::new(self.repository.clone(), &self.context.state);
        Ok(workspaces.lock(id)?)
    }

    /// The error for a locked run: its supervisor or another command has the lock.
    fn busy(&self, id: &AgentId) -> Result<Failure, Failure> {
        let attempts =
            self.context.with_store(async |store| Ok(store.attempts(Some(id)).await?))?;
        let state = self
            .run
            .as_ref()
            .map(|run| AgentState::of(run, attempts.last(), SupervisorState::Running));
        if state.is_none_or(|state| state == AgentState::AtWork) {
            return Ok(Failure::AtWork { agent: id.clone() });
        }
        Ok(Failure::refused(format!("another command works on `{id}` at this moment"))
            .help("try again when it has ended"))
    }
}

/// The surroundings as seen from the main repository.
fn seen_from(context: &Context, options: &WorkOptions) -> Result<Context, Failure> {
    let mut context = context.clone();
    if let Some(main) = &options.main_repository {
        let directory = std::fs::canonicalize(context.directory.join(main)).map_err(|error| {
            Failure::general(format!("the repository {} cannot be used: {error}", main.display()))
        })?;
        context.kit_root = context.kit_root.map(|root| context.directory.join(root));
        context.directory = directory;
    }
    Ok(context)
}

/// The commit whose kit binds work that the ledger does not know: where it left the base branch;
/// what is checked out where there is no work to be found.
fn kit_commit_of(repository: &Repository, work: Option<&GitWork>) -> Result<CommitId, Failure> {
    let found = work.map(|work| work.snapshot(&work.base()?));
    match found {
        Some(Ok(snapshot)) => Ok(snapshot.merge_base),
        Some(Err(_)) | None => Ok(CommitId::new(repository.head()?)),
    }
}

/// The settings of a commit; the defaults if it has none.
pub fn settings(repository: &Repository, commit: &str) -> Result<Settings, Failure> {
    let file = format!("{}/{SETTINGS}", sources::REPOSITORY_KIT);
    match sources::committed_file(repository, commit, &file)? {
        None => Ok(Settings::default()),
        Some(text) => Ok(Settings::parse(&Source::new(file, text))?),
    }
}
