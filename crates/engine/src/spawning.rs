//! `bailiwick spawn`: the agent's task, branch and worktree, recorded in the ledger.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bailiwick_kit::Bound;
use bailiwick_lifecycle::executor::{self, SpawnError};
use bailiwick_lifecycle::ports::{Preparation, RunStore as _, WorkspaceError, Workspaces as _};
use bailiwick_lifecycle::spawn::{Request, Step};
use bailiwick_model::settings::AutoLand;
use bailiwick_model::task::{Line, Login};
use bailiwick_model::{AgentId, RunName, Settings, Source, Task};
use bailiwick_policy::{Limits, Policy, ToolStack};
use bailiwick_runner::checks::OpenSetup;
use bailiwick_runner::environment::BaseTrust;
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::git::HeadError;
use bailiwick_source_control::{Repository, WorktreeWorkspaces};
use clap::Args;
use serde::Serialize;

use super::prepare::agent_id;
use super::run::How;
use crate::claiming::Patience;
use crate::context::{Context, variable};
use crate::counted::counted;
use crate::failure::Failure;
use crate::managed::Managed;
use crate::output::{self, Format, FormatOption};
use crate::running::{assign, detached};
use crate::verifying::worktree_setup::{self, WorktreeSetup};
use crate::verifying::{SandboxLevel, settings};
use crate::{agent_names, claiming, policy_file, wire};

/// Create an agent's worktree on its own branch and record it in the ledger
///
/// Reads the kit from the commit that the agent starts from, never from the working copy. An
/// interrupted spawn continues when the same task is spawned with the same id.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick spawn .bailiwick/tasks/example.toml\n  bailiwick \
                        spawn task.toml --agent-id fix-42 --base origin/main")]
pub struct Spawn {
    /// The task
    pub(crate) task: PathBuf,
    /// The agent's id; default: the task's, else generated
    #[arg(long, value_name = "ID")]
    pub(crate) agent_id: Option<AgentId>,
    /// The commit that the agent starts from
    #[arg(long, value_name = "REVISION", default_value = "HEAD")]
    pub(crate) base: String,
    /// Start the agent in the background, supervised as by `run`
    #[arg(long)]
    pub(crate) start: bool,
    /// Run the task's setup without a sandbox if this machine has none
    #[arg(long)]
    pub(crate) allow_setup: bool,
    #[command(flatten)]
    pub(crate) format: FormatOption,
}

/// An agent that was spawned.
#[derive(Debug, Serialize)]
pub(crate) struct Spawned {
    pub(crate) agent_id: String,
    /// What it is called in this repository.
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) branch: String,
    pub(crate) base: String,
    pub(crate) worktree: PathBuf,
    pub(crate) task: PathBuf,
    pub(crate) prompt: PathBuf,
    pub(crate) policy: PathBuf,
    pub(crate) policy_digest: String,
    pub(crate) spec_sha: String,
    pub(crate) dna: Option<String>,
}

impl Spawn {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let format = self.format.format;
        let (start, allow_setup) = (self.start, self.allow_setup);
        let spawned = self.spawn(context)?;
        if start {
            let id = AgentId::parse(&spawned.agent_id)
                .map_err(|error| Failure::general(error.to_string()))?;
            let how = How { allow_setup, ..How::default() };
            return detached::start(context, &id, &how, format);
        }
        if format == Format::Json {
            return output::json(&spawned);
        }
        print(&spawned, context);
        Ok(())
    }

    pub(crate) fn spawn(self, context: &Context) -> Result<Spawned, Failure> {
        context.require_repository()?;
        let source = wire::read_task(context, &self.task)?;
        let naming = Naming::Name(self.agent_id.as_ref());
        if self.start {
            let how = How::default();
            return spawn_startable(context, &source, naming, &self.base, &how);
        }
        // A person who starts an agent by hand has no sandbox that shows the result of a setup.
        let open = if self.allow_setup { OpenSetup::Allowed } else { OpenSetup::Refused };
        let lineage = Lineage { setup: SetupIn::Worktree(open), ..Lineage::default() };
        let check = |planned: &Planned<'_>| match planned.bound.task.workspace.setup.is_empty() {
            true => Ok(()),
            false => worktree_setup::require_allowed(open),
        };
        let patience = Patience::default();
        spawn_checked(context, &source, naming, &self.base, lineage, patience, &check)
    }
}

/// How the id of a new agent is chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Naming<'a> {
    /// By a name that counts in this repository; by the task's, or a new one, where this gives none.
    Name(Option<&'a AgentId>),
    /// This id and no other.
    Exactly(&'a AgentId),
}

/// Where an agent comes from, which binds it besides its task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lineage {
    /// The identity of the attempt before it.
    pub(crate) fork_parent: Option<String>,
    /// What binds the agent that started it.
    pub(crate) above: Option<Policy>,
    /// The tool lists of its template.
    pub(crate) lists: ToolStack,
    /// Whether its template may write nothing.
    pub(crate) read_only: bool,
    /// What else is laid over its policy.
    pub(crate) limits: Limits,
    /// What the control plane hands it.
    pub(crate) managed: Option<Managed>,
    /// Where the setup of its task runs.
    pub(crate) setup: SetupIn,
}

/// Where the setup of a task runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SetupIn {
    /// In a sandbox when the agent is started; the result is shared.
    #[default]
    Sandbox,
    /// In a sandbox now; the result is put into the worktree.
    Worktree(OpenSetup),
}

impl Lineage {
    /// That of another attempt at the same task, which this policy binds.
    pub(crate) fn again(policy: Policy, fork_parent: Option<String>) -> Self {
        let mut above = policy.above.into_iter();
        let nearest = above.next().map(|nearest| Policy { above: above.collect(), ..nearest });
        Self {
            fork_parent,
            above: nearest,
            lists: policy.tool_lists,
            read_only: policy.read_only,
            // They are among the policies above.
            limits: Limits::default(),
            managed: None,
            setup: SetupIn::default(),
        }
    }

    fn narrow(&self, mut policy: Policy) -> Policy {
        policy.read_only = self.read_only;
        policy.tool_lists = self.lists.clone();
        match &self.above {
            Some(above) => policy.below(above),
            None => policy,
        }
    }

    /// With what is laid over it; what cannot be laid over it is an error, never left out.
    fn limit(&self, policy: Policy) -> Result<Policy, Failure> {
        self.limits.over(policy).map_err(|error| Failure::general(error.to_string()))
    }
}

/// Spawns an agent for a task.
pub(crate) fn spawn(
    context: &Context,
    source: &Source,
    naming: Naming<'_>,
    base: &str,
    lineage: Lineage,
) -> Result<Spawned, Failure> {
    spawn_within(context, source, naming, base, lineage, Patience::default())
}

/// The same for an agent that is started at once: what it needs is checked before anything is made.
pub(crate) fn spawn_startable(
    context: &Context,
    source: &Source,
    naming: Naming<'_>,
    base: &str,
    how: &How,
) -> Result<Spawned, Failure> {
    let login = how.login.map(Login::from);
    let chosen = |settings: &Settings| how.land.map_or(settings.run.land, AutoLand::from);
    let check = |planned: &Planned<'_>| {
        assign::require_startable(context, planned, login, how.sandbox)?;
        if how.sandbox == SandboxLevel::Off && !planned.bound.task.workspace.setup.is_empty() {
            worktree_setup::require_allowed(how.open_setup())?;
        }
        match chosen(planned.settings) {
            AutoLand::Auto => note_uncommitted(planned.repository),
            // Nobody is asked elsewhere.
            AutoLand::Ask if std::io::stderr().is_terminal() => {
                note_uncommitted(planned.repository)
            }
            AutoLand::Ask | AutoLand::Never => Ok(()),
        }
    };
    spawn_checked(context, source, naming, base, Lineage::default(), Patience::default(), &check)
}

/// The same for who cannot wait for a claim as long as the settings say.
pub(crate) fn spawn_within(
    context: &Context,
    source: &Source,
    naming: Naming<'_>,
    base: &str,
    lineage: Lineage,
    patience: Patience<'_>,
) -> Result<Spawned, Failure> {
    spawn_checked(context, source, naming, base, lineage, patience, &|_| Ok(()))
}

/// Says before the agent starts that its work could not land as the checkout is now.
fn note_uncommitted(repository: &Repository) -> Result<(), Failure> {
    let changed = repository.uncommitted()?;
    if let Some(first) = changed.first() {
        let more = match changed.len() {
            1 => String::new(),
            count => format!(" and {}", counted(count - 1, "more file")),
        };
        output::note(format_args!(
            "{} has uncommitted changes ({first}{more}), which the agent does not see: commit or stash them, or \
             the work cannot land there",
            repository.root().display()
        ));
    }
    Ok(())
}

/// An agent of which nothing is made yet.
pub(crate) struct Planned<'a> {
    pub(crate) repository: &'a Repository,
    /// The commit whose kit binds it.
    pub(crate) commit: &'a str,
    pub(crate) bound: &'a Bound,
    pub(crate) settings: &'a Settings,
    /// What the person calls the commit that it starts from.
    pub(crate) revision: &'a str,
}

/// Spawns an agent if `check` finds nothing that stands against it.
fn spawn_checked(
    context: &Context,
    source: &Source,
    naming: Naming<'_>,
    base: &str,
    lineage: Lineage,
    patience: Patience<'_>,
    check: &dyn Fn(&Planned<'_>) -> Result<(), Failure>,
) -> Result<Spawned, Failure> {
    let repository = context.require_repository()?;
    let Some(commit) = repository.commit(base)? else {
        return Err(no_commit(&repository, base));
    };
    let (named, base) = (base, commit);
    let named_kit = Task::parse(source)?.task.kit_commit;
    let named_kit = named_kit.as_ref().map(Line::as_str);
    let binding = wire::binding_commit(&repository, named_kit, &base)?;
    let kit = wire::committed_kit(context, &repository, &binding)?;
    let bound = wire::bind_committed(context, &kit, source, named)?;
    wire::note_differences(context)?;
    let place = claiming::place(&repository)?;
    let (name, id) = match naming {
        Naming::Exactly(id) => (id.clone(), id.clone()),
        Naming::Name(given) => {
            let name = agent_id(&bound, given)?;
            let id = agent_names::id_for(context, &place, &name)?;
            (name, id)
        }
    };
    let settings = settings(&repository, &binding)?;
    check(&Planned {
        repository: &repository,
        commit: &binding,
        bound: &bound,
        settings: &settings,
        revision: named,
    })?;
    let workspaces = WorktreeWorkspaces::new(repository.clone(), &context.state).with_base(named);
    let worktree = workspaces.worktree_path(&id);
    let mut request = Request::new(
        &bound,
        id.clone(),
        base.clone(),
        worktree.display().to_string(),
        variable("KEI_CREATOR_ID")?.or(variable("USER")?),
        wire::random()?,
    )?;
    let compiled = policy_file::of_bound(context, &bound, Some(&id), Some(&worktree))?;
    let limited = lineage.limit(lineage.narrow(compiled.policy.clone()))?;
    let compiled = compiled.changed(|_| limited);
    if let Some(parent) = &bound.task.task.parent_agent {
        let parent = Some(agent_names::resolve(context, parent)?.to_string());
        (request.run.parent, request.run.creator) = (parent.clone(), parent);
    }
    request.run.fork_parent.clone_from(&lineage.fork_parent);
    let workspaces = match lineage.setup {
        SetupIn::Sandbox => {
            request.preparation.setup.clear();
            workspaces
        }
        SetupIn::Worktree(open) => {
            let setup = WorktreeSetup {
                state: context.state.clone(),
                repository: repository.clone(),
                agent: id.clone(),
                base: base.clone(),
                trust: if binding == base { BaseTrust::Trusted } else { BaseTrust::Untrusted },
                preparation: request.preparation.clone(),
                time: worktree_setup::time(&settings),
                open,
            };
            workspaces.with_setup_runner(Arc::new(move |worktree: &Path, _: &Preparation, held| {
                setup.run(worktree, held).map_err(unset)
            }))
        }
    };
    request.run.named = Some(RunName { name: name.clone(), repository: place });
    wire::warn(&bound.warnings);
    let policy = context.state.join("runs").join(id.as_str()).join("policy.json");
    let make = || {
        let lock = workspaces.lock(&id)?;
        // The policy of an agent that is there already stays as it is: the plan refuses its id.
        if may_be_spawned(context, &id, &request)? {
            wire::write_whole(&policy, &compiled.json)?;
            if let Some(managed) = &lineage.managed {
                managed.keep(&RunDirectory::new(&context.state, id.as_str()))?;
            }
        }
        let dna = wire::with_store(context, async |store| {
            let done = executor::spawn(&request, store, &workspaces, tell).await;
            done.map_err(|error| explain(error, &id, &source.file))?;
            Ok(store.get(&id).await?.dna)
        });
        drop(lock);
        dna
    };
    let claimant = (&id, &bound.task, &compiled.policy);
    let dna = claiming::take_for(context, &repository, &settings, claimant, patience, make)?;
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

/// Whether no agent has this id, or only one of the same repository whose spawn was cut short.
fn may_be_spawned(context: &Context, id: &AgentId, request: &Request) -> Result<bool, Failure> {
    let recorded = wire::with_store(context, async |store| Ok(store.find(id).await?))?;
    let wanted = request.run.named.as_ref().map(|named| &named.repository);
    Ok(recorded.is_none_or(|run| {
        run.half_spawned && (run.repository.is_none() || run.repository.as_ref() == wanted)
    }))
}

/// Tells a person what was made.
pub(crate) fn print(spawned: &Spawned, context: &Context) {
    output::line(format_args!("agent     {}", spawned.name));
    if spawned.name != spawned.agent_id {
        output::line(format_args!(
            "id        {} (another repository has an agent `{}`)",
            spawned.agent_id, spawned.name
        ));
    }
    output::line(format_args!("dna       {}", spawned.dna.as_deref().unwrap_or("-")));
    output::line(format_args!("branch    {} on {:.12}", spawned.branch, spawned.base));
    output::line(format_args!("worktree  {}", spawned.worktree.display()));
    output::line(format_args!("prompt    {}", spawned.prompt.display()));
    output::line(format_args!("policy    {}", spawned.policy.display()));
    output::next_step(format_args!("bailiwick run {}{}", spawned.name, context.repeated));
}

fn tell(step: &Step) {
    output::progress(match step {
        Step::RecordRun => "recording the run …",
        Step::WriteTask => "writing the task …",
        Step::AddWorktree => "making the worktree …",
        Step::MakeReady => "making it ready …",
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
    Failure::usage(format!("`{base}` names no commit"))
        .help("give --base a branch, a tag or a commit that is in this repository")
}

/// After the first step, nothing is lost: the same call goes on where it stopped.
fn explain(error: SpawnError, id: &AgentId, task: &str) -> Failure {
    match error {
        SpawnError::Refused(refusal) => Failure::usage(refusal.to_string()),
        SpawnError::Store(error) => error.into(),
        SpawnError::Workspace(error) => Failure::from(error).help(format!(
            "nothing is lost; once it is mended, go on with: bailiwick spawn {task} --agent-id {id}"
        )),
    }
}
