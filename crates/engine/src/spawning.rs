//! Spawning an agent: its task, branch and worktree, recorded in the ledger.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bailiwick_kit::Bound;
use bailiwick_lifecycle::executor::{self, SpawnError};
use bailiwick_lifecycle::ports::{Preparation, RunStore as _, WorkspaceError, Workspaces as _};
use bailiwick_lifecycle::spawn::{Request, Step};
use bailiwick_model::task::Line;
use bailiwick_model::{AgentId, CommitId, RunName, Settings, Source, Task};
use bailiwick_policy::{Limits, Policy, ToolStack};
use bailiwick_runner::checks::OpenSetup;
use bailiwick_runner::environment::BaseTrust;
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::git::HeadError;
use bailiwick_source_control::{Repository, WorktreeWorkspaces};
use serde::Serialize;

use crate::claiming::{self, ClaimWait};
use crate::context::{Context, variable};
use crate::failure::Failure;
use crate::managed::ManagedRunConfig;
use crate::notices::Notices;
use crate::reused_workspace::{self, NewRun, WorkspaceSource};
use crate::verifying::settings;
use crate::verifying::worktree_setup::{self, WorktreeSetup};
use crate::{agent_names, policy_file, sources, system};

/// An agent that was spawned.
#[derive(Debug, Serialize)]
pub struct Spawned {
    pub agent_id: String,
    /// What it is called in this repository.
    pub name: String,
    pub role: String,
    pub branch: String,
    pub base: String,
    pub worktree: PathBuf,
    pub task: PathBuf,
    pub prompt: PathBuf,
    pub policy: PathBuf,
    pub policy_digest: String,
    pub spec_sha: String,
    pub dna: Option<String>,
}

/// How the id of a new agent is chosen.
#[derive(Debug, Clone, Copy)]
pub enum Naming<'a> {
    /// By a name that counts in this repository; by the task's, or a new one, where this gives none.
    Name(Option<&'a AgentId>),
    /// This id and no other.
    Exactly(&'a AgentId),
}

/// Where an agent comes from, which binds it besides its task.
#[derive(Debug, Clone, Default)]
pub struct SpawnBindings {
    /// The identity of the attempt before it.
    pub fork_parent: Option<String>,
    /// What binds the agent that started it.
    pub above: Option<Policy>,
    /// The tool lists of its template.
    pub lists: ToolStack,
    /// Whether its template may write nothing.
    pub read_only: bool,
    /// What else is laid over its policy.
    pub limits: Limits,
    /// What the control plane hands it.
    pub managed: Option<ManagedRunConfig>,
    /// Where the setup of its task runs.
    pub setup: SetupIn,
    /// Where the files of its worktree come from.
    pub workspace: WorkspaceSource,
}

/// Where the setup of a task runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SetupIn {
    /// In a sandbox when the agent is started; the result is shared.
    #[default]
    Sandbox,
    /// In a sandbox now; the result is put into the worktree.
    Worktree(OpenSetup),
}

impl SpawnBindings {
    /// That of another attempt at the same task, which this policy binds.
    pub fn again(policy: Policy, fork_parent: Option<String>) -> Self {
        let mut above = policy.ancestors.into_iter();
        let nearest = above.next().map(|nearest| Policy { ancestors: above.collect(), ..nearest });
        Self {
            fork_parent,
            above: nearest,
            lists: policy.tool_lists,
            read_only: policy.read_only,
            // They are among the policies above.
            limits: Limits::default(),
            managed: None,
            setup: SetupIn::default(),
            workspace: WorkspaceSource::Base,
        }
    }

    fn narrow(&self, mut policy: Policy) -> Policy {
        policy.read_only = self.read_only;
        policy.tool_lists = self.lists.clone();
        match &self.above {
            Some(above) => policy.with_ancestors_of(above),
            None => policy,
        }
    }

    /// With what is laid over it; what cannot be laid over it is an error, never left out.
    fn limit(&self, policy: Policy) -> Result<Policy, Failure> {
        self.limits.apply_to(policy).map_err(|error| Failure::general(error.to_string()))
    }
}

/// Spawns an agent for a task.
pub fn spawn(
    context: &Context,
    source: &Source,
    naming: Naming<'_>,
    base: &str,
    bindings: SpawnBindings,
) -> Result<Spawned, Failure> {
    spawn_within(context, source, naming, base, bindings, ClaimWait::default())
}

/// The same with another limit for the wait for a claim.
pub fn spawn_within(
    context: &Context,
    source: &Source,
    naming: Naming<'_>,
    base: &str,
    bindings: SpawnBindings,
    wait: ClaimWait<'_>,
) -> Result<Spawned, Failure> {
    spawn_checked(context, source, naming, base, bindings, wait, &|_| Ok(()))
}

/// A planned agent. Nothing is created yet.
pub struct PlannedAgent<'a> {
    pub repository: &'a Repository,
    /// The commit whose kit binds it.
    pub kit_commit: &'a str,
    pub bound: &'a Bound,
    pub settings: &'a Settings,
    /// What the person calls the commit that it starts from.
    pub revision: &'a str,
}

/// Spawns an agent if `check` passes.
pub fn spawn_checked(
    context: &Context,
    source: &Source,
    naming: Naming<'_>,
    base: &str,
    bindings: SpawnBindings,
    wait: ClaimWait<'_>,
    check: &dyn Fn(&PlannedAgent<'_>) -> Result<(), Failure>,
) -> Result<Spawned, Failure> {
    let repository = context.require_repository()?;
    let Some(commit) = repository.commit(base)? else {
        return Err(no_commit(&repository, base));
    };
    let (revision, base) = (base, commit);
    let named = Task::parse(source)?.task.kit_commit;
    let named = named.as_ref().map(Line::as_str);
    let kit_commit = sources::kit_commit(&repository, named, &base)?;
    let kit = sources::committed_kit(context, &repository, &kit_commit)?;
    let bound = sources::bind_committed(context, &kit, source, revision)?;
    sources::note_differences(context)?;
    let place = agent_names::place(&repository)?;
    let (name, id) = match naming {
        Naming::Exactly(id) => (id.clone(), id.clone()),
        Naming::Name(requested_id) => {
            let name = agent_id(&bound, requested_id)?;
            let id = agent_names::id_for(context, &place, &name)?;
            (name, id)
        }
    };
    let assigned = claiming::migrations::assign(context, &repository, &base, &id, source)?;
    let source = assigned.as_ref().map_or(source, |assigned| &assigned.source);
    let bound = match assigned {
        Some(_) => sources::bind_committed(context, &kit, source, revision)?,
        None => bound,
    };
    let settings = settings(&repository, &kit_commit)?;
    check(&PlannedAgent {
        repository: &repository,
        kit_commit: &kit_commit,
        bound: &bound,
        settings: &settings,
        revision,
    })?;
    let workspaces =
        WorktreeWorkspaces::new(repository.clone(), &context.state).with_base(revision);
    let worktree = workspaces.worktree_path(&id);
    let mut request = Request::new(
        &bound,
        id.clone(),
        base.clone(),
        worktree.display().to_string(),
        variable("KEI_CREATOR_ID")?.or(variable("USER")?),
        system::random()?,
    )?;
    let compiled = policy_file::of_bound(context, &bound, Some(&id), Some(&worktree))?;
    let limited = bindings.limit(bindings.narrow(compiled.policy.clone()))?;
    let compiled = compiled.changed(|_| limited);
    if let Some(parent) = &bound.task.task.parent_agent {
        let parent = Some(agent_names::resolve(context, parent)?.to_string());
        (request.run.parent, request.run.creator) = (parent.clone(), parent);
    }
    request.run.fork_parent.clone_from(&bindings.fork_parent);
    let new = NewRun { id: &id, base: &base, policy: &compiled.policy };
    let reused = reused_workspace::reuse_workspace(context, &repository, new, &bindings.workspace)?;
    let workspaces = match &reused {
        Some(reused) => {
            // The earlier run already has the copies.
            request.preparation.copy.clear();
            workspaces.with_files_of(reused.path().to_owned())
        }
        None => workspaces,
    };
    let workspaces = match bindings.setup {
        SetupIn::Sandbox => {
            request.preparation.setup.clear();
            workspaces
        }
        SetupIn::Worktree(open) => {
            let setup = WorktreeSetup {
                state: context.state.clone(),
                repository: repository.clone(),
                agent: id.clone(),
                base: CommitId::new(base.as_str()),
                trust: if kit_commit == base { BaseTrust::Trusted } else { BaseTrust::Untrusted },
                preparation: request.preparation.clone(),
                time: worktree_setup::time(&settings),
                open,
                notices: context.notices.clone(),
            };
            workspaces.with_setup_runner(Arc::new(
                move |worktree: &Path, _: &Preparation, lock_file| {
                    setup.run(worktree, lock_file).map_err(unset)
                },
            ))
        }
    };
    request.run.named = Some(RunName { name: name.clone(), repository: place });
    context.notices.problems(&bound.warnings);
    let policy = context.state.join("runs").join(id.as_str()).join("policy.json");
    let make = || {
        let lock = workspaces.lock(&id)?;
        // The policy of an agent that is there already stays as it is: the plan refuses its id.
        if may_be_spawned(context, &id, &request)? {
            if let Some(assigned) = &assigned {
                assigned.store()?;
            }
            system::write_whole(&policy, &compiled.json)?;
            if let Some(managed) = &bindings.managed {
                managed.store(&RunDirectory::new(&context.state, id.as_str()))?;
            }
        }
        let dna = context.with_store(async |store| {
            let result = executor::spawn(&request, store, &workspaces, |step| {
                report(&context.notices, step)
            })
            .await;
            result.map_err(|error| explain(error, &id, &source.file))?;
            Ok(store.get(&id).await?.dna)
        });
        drop(lock);
        dna
    };
    let claimant = (&id, &bound.task, &compiled.policy);
    let dna = claiming::take_for(context, &repository, &settings, claimant, wait, make)?;
    let directory = workspaces.task_directory(&id);
    Ok(Spawned {
        agent_id: id.to_string(),
        name: name.to_string(),
        role: bound.role.name.to_string(),
        branch: id.branch(),
        base,
        worktree,
        task: directory.join("task.toml"),
        prompt: directory.join("prompt.md"),
        policy,
        policy_digest: compiled.digest,
        spec_sha: request.run.spec_sha.clone(),
        dna,
    })
}

/// Whether no agent has this id, or only one of the same repository, task and base whose spawn was cut short.
fn may_be_spawned(context: &Context, id: &AgentId, request: &Request) -> Result<bool, Failure> {
    let recorded = context.with_store(async |store| Ok(store.find(id).await?))?;
    let repository = request.run.named.as_ref().map(|named| &named.repository);
    Ok(recorded.is_none_or(|run| {
        run.half_spawned
            && (run.repository.is_none() || run.repository.as_ref() == repository)
            && run.spec_sha == request.run.spec_sha
            && run.base == request.run.base
    }))
}

fn report(notices: &Notices, step: &Step) {
    notices.progress(match step {
        Step::RecordRun => "recording the run …",
        Step::WriteTask => "writing the task …",
        Step::AddWorktree => "making the worktree …",
        Step::MakeReady => "preparing it …",
        Step::FinishSpawn => return,
    });
}

/// Why a worktree is not set up.
fn unset(failure: Failure) -> WorkspaceError {
    let what = "the worktree cannot be set up".to_owned();
    WorkspaceError { what, why: failure.to_string() }
}

fn no_commit(repository: &Repository, base: &str) -> Failure {
    if base == "HEAD" {
        return match repository.head() {
            Err(HeadError::NoCommit) => {
                Failure::general("the repository has no commit yet, so an agent has no base")
                    .help("commit once: git add --all && git commit -m start")
            }
            Err(other) => other.into(),
            Ok(_) => Failure::general("HEAD changed meanwhile; start the command again"),
        };
    }
    Failure::refused(format!("`{base}` names no commit"))
        .help("give --base a branch, a tag or a commit that is in this repository")
}

/// After the first step, nothing is lost: the same call goes on where it stopped.
fn explain(error: SpawnError, id: &AgentId, task: &str) -> Failure {
    match error {
        SpawnError::Refused(refusal) => Failure::refused(refusal.to_string()),
        SpawnError::Store(error) => error.into(),
        SpawnError::Workspace(error) => Failure::from(error).help(format!(
            "nothing is lost; once it is fixed, continue with: bailiwick spawn {task} --agent-id {id}"
        )),
    }
}

/// The id that was given, or that the task gives, or a new one.
pub fn agent_id(bound: &Bound, requested: Option<&AgentId>) -> Result<AgentId, Failure> {
    match requested.or(bound.task.task.agent_id.as_ref()) {
        Some(id) => Ok(id.clone()),
        None => Ok(AgentId::make(&bound.role.name, system::now_ms(), system::random()?)),
    }
}
