//! Runs an agent at a person's own terminal: with the same gate, proxy and sandbox as in a run, on the
//! person's own checkout. It has an attempt and events in the database but no ledger row: its work is not
//! verified or landed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiwick_kit::Bound;
use bailiwick_lifecycle::brief;
use bailiwick_lifecycle::ports::{Base, TreeChecks};
use bailiwick_lifecycle::supervision::{Budget, Prices, Redaction};
use bailiwick_model::attempt::{Attempt, Used};
use bailiwick_model::event::{Answer, EventKind as Happened, ExitReason, Phase};
use bailiwick_model::role::EscalationPolicy;
use bailiwick_model::task::Login;
use bailiwick_model::{AgentId, CommitId, Event, Settings, Source, TreeId};
use bailiwick_policy::facts::Enforcement;
use bailiwick_resources::AuditLevel;
use bailiwick_runner::agents::adapter::{Adapter, Assignment, Conversation};
use bailiwick_runner::agents::{self, Interactive, Person, unattended};
use bailiwick_runner::proxy::{Models, Upstream};
use bailiwick_runner::supervisor::{
    self, AttemptOutcome, Enclosure, Handle, PolicyJudge, Progress, RunDirectory, RunLock, Screen,
    Sinks, Supervision,
};
use bailiwick_source_control::{GitWork, Repository};

use super::sandbox_plan::{self, InstalledProgram, Scope};
use super::supervision::{APPROVAL_TIMEOUT, disk};
use super::{assign, granted};
use crate::context::{Context, variable};
use crate::database::{DatabaseEvents, OpenDatabase};
use crate::failure::Failure;
use crate::options::SandboxLevel;
use crate::policy_file::{self, CompiledPolicy, PolicySource};
use crate::running::tree_checks::TreeChecker;
use crate::verifying::AgentWork;
use crate::{agent_programs, logins, preconditions, sources, system};

/// Programs that people know, and our names for them.
const KNOWN: [&str; 4] = ["claude-code", "codex", "gemini", "opencode"];
/// Variables by which a program knows the person's terminal.
const OF_TERMINALS: [&str; 6] =
    ["TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "NO_COLOR", "TZ"];
/// The maximum number of denials that are listed at the end.
const MAX_DENIALS_SHOWN: usize = 10;

/// The request for a session.
pub struct SessionRequest {
    /// What binds the agent.
    pub what: PolicySource,
    /// The required sandbox level.
    pub sandbox: SandboxLevel,
    /// The name of the agent program, where its file does not tell.
    pub cli: Option<String>,
    /// How it is paid for, in place of what the task says.
    pub login: Option<Login>,
    /// The program, by its name or its path.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// The result of a session.
pub struct SessionResult {
    /// The id under which it is kept.
    pub id: AgentId,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// What was denied, the last of it.
    pub denied: Vec<Event>,
}

/// The caller's view of a session, with which it can end it.
pub trait SessionObserver {
    /// The program has started; the handle stops it.
    fn started(&self, handle: Handle);

    /// The program has ended.
    fn ended(&self);
}

/// The inputs of one session.
struct Setup {
    id: AgentId,
    directory: RunDirectory,
    _lock: RunLock,
    settings: Settings,
    bound: Bound,
    compiled: CompiledPolicy,
    inner: Arc<dyn Adapter>,
    adapter: Arc<dyn Adapter>,
    assignment: Assignment,
    enclosure: Enclosure,
    upstream: Option<Upstream>,
    files: Vec<(String, String)>,
    checks: Option<Arc<dyn TreeChecks>>,
}

/// Runs the program at the person's terminal, to its end.
pub fn run_session(
    context: &Context,
    request: &SessionRequest,
    screen: &Screen,
    observer: &dyn SessionObserver,
) -> Result<SessionResult, Failure> {
    let setup = prepare(context, request)?;
    let (id, directory) = (setup.id.clone(), setup.directory.clone());
    let result = attempt(context, setup, screen, observer);
    observer.ended();
    // What was decided is kept; the rest was the agent's.
    for place in directory.private_places() {
        let _ = std::fs::remove_dir_all(place);
    }
    let (outcome, denied) = result?;
    Ok(SessionResult { id, outcome, denied })
}

fn prepare(context: &Context, request: &SessionRequest) -> Result<Setup, Failure> {
    let repository = context.require_repository()?;
    let commit = repository.head()?;
    let here = |path: &Path| {
        std::fs::canonicalize(path).map_err(|error| {
            Failure::general(format!("{} cannot be used: {error}", path.display()))
        })
    };
    let (root, directory_now) = (here(repository.root())?, here(&context.directory)?);
    let (bound, compiled) = policy_file::bound(context, &request.what)?;
    if let Some(issue) = &bound.task.task.issue {
        let why =
            format!("a session at a terminal records no result on {issue}, which its task names");
        return Err(Failure::refused(why)
            .help("start the task with `bailiwick run`, or remove `issue` from it"));
    }
    context.notices.problems(&compiled.warnings);
    let inner = adapter(context, &repository, &commit, request)?;
    let adapter = Arc::new(interactive(inner.clone(), request, directory_now)?);
    let settings = settings(&repository, &commit)?;
    let found = program(adapter.as_ref(), &request.program, &context.state)?;
    let task = &bound.task;
    assign::require_prices(&settings, task, inner.as_ref(), &Budget::of(&task.budget).0)?;
    let resolved_login =
        logins::resolve(inner.as_ref(), request.login.unwrap_or(task.agent.login))?;
    preconditions::require_sandbox(request.sandbox)?;
    let (id, directory, lock) = begin(context, &compiled)?;
    let granted_values = granted::of(&task.agent, &directory)?;
    let (mut granted, mut secrets) = (granted_values.variables, granted_values.secrets);
    secrets.extend(resolved_login.iter().flat_map(|(_, own)| own.clone()));
    for name in OF_TERMINALS {
        granted.extend(variable(name)?.map(|value| (name.to_owned(), value)));
    }
    let assignment = Assignment {
        version: found.version.clone(),
        prompt: String::new(),
        system_prompt: Some(describe_limits(&bound)?),
        model: task.agent.model.as_ref().map(ToString::to_string),
        effort: task.agent.effort.as_ref().map(ToString::to_string),
        session: Conversation::New(system::random_name()?),
        worktree: root.clone(),
        repository: root.clone(),
        home: directory.home(),
        model_url: String::new(),
        login: request.login.unwrap_or(task.agent.login),
        gate: None,
        tools: Some(bound.role.tools.clone()),
        searches: assign::searches(&compiled.policy),
        sub_agents: task.agent.sub_agents.clone(),
        mcp_servers: assign::servers(&repository, &commit, &task.agent.mcp_servers)?,
        instructions: assign::instructions(&repository, &commit)?,
        skills: assign::skills(&repository, &commit)?,
        turns: None,
        usd: None,
        script: Vec::new(),
        granted,
        hidden: Redaction::new(secrets),
        granted_files: (!granted_values.files.is_empty()).then(|| directory.granted()),
        skill_files: None,
    };
    let enclosure = enclosure(context, &repository, &commit, &id, found, request, &compiled)?;
    let place = (&repository, commit.as_str());
    let checks =
        per_call_checks(context, request, place, (&id, root.as_path()), (&bound, &compiled))?;
    Ok(Setup {
        id,
        directory,
        _lock: lock,
        settings,
        bound,
        compiled,
        inner,
        adapter,
        assignment,
        enclosure,
        upstream: resolved_login.map(|(upstream, _)| upstream),
        files: granted_values.files,
        checks,
    })
}

/// The checks of the person's checkout between calls, against its current commit; `None` if no check runs per call.
fn per_call_checks(
    context: &Context,
    request: &SessionRequest,
    (repository, commit): (&Repository, &str),
    (id, root): (&AgentId, &Path),
    (bound, compiled): (&Bound, &CompiledPolicy),
) -> Result<Option<Arc<dyn TreeChecks>>, Failure> {
    let names = &compiled.policy.checks_per_call;
    if names.is_empty() {
        return Ok(None);
    }
    let tree = repository.git().line(["rev-parse", "--verify", &format!("{commit}^{{tree}}")])?;
    let base = Base {
        branch: "HEAD".to_owned(),
        tip: CommitId::new(commit),
        tree: TreeId::new(tree),
        found: "checked out when the agent began".to_owned(),
    };
    let subject = AgentWork {
        context: context.clone(),
        repository: repository.clone(),
        agent: Some(id.clone()),
        run: None,
        bound: bound.clone(),
        base: CommitId::new(commit),
        kit_commit: commit.to_owned(),
        settings: settings(repository, commit)?,
        worktree: root.to_owned(),
        work: GitWork::open(repository.root(), root, &context.state, id, None),
    };
    Ok(Some(Arc::new(TreeChecker::new(subject, names, request.sandbox, Some(base))?)))
}

/// The adapter that is named, or whose program it is.
fn adapter(
    context: &Context,
    repository: &Repository,
    commit: &str,
    request: &SessionRequest,
) -> Result<Arc<dyn Adapter>, Failure> {
    if let Some(name) = &request.cli {
        return agent_programs::adapter_named(context, repository, commit, name);
    }
    let file = file_name(&request.program);
    let known = KNOWN.iter().filter_map(|name| agents::adapter(name));
    let known: Vec<_> = known.collect();
    let programs: Vec<String> = known.iter().map(|one| one.program().to_owned()).collect();
    match known.into_iter().find(|one| one.program() == file) {
        Some(adapter) => Ok(Arc::from(adapter)),
        None => Err(Failure::refused(format!("`{file}` is not a known agent program"))
            .help(format!("it may be {}; or say whose it is with --cli", programs.join(", ")))),
    }
}

fn file_name(program: &str) -> String {
    let name = Path::new(program).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn interactive(
    inner: Arc<dyn Adapter>,
    request: &SessionRequest,
    directory: PathBuf,
) -> Result<Interactive, Failure> {
    let home = variable("HOME")?.map(PathBuf::from).unwrap_or_default();
    let mut files = BTreeMap::new();
    for name in Interactive::appearance_files(inner.as_ref()) {
        // The file is missing if the person has never used the program.
        if let Ok(text) = std::fs::read_to_string(home.join(&name)) {
            files.insert(name, text);
        }
    }
    let program = file_name(&request.program);
    let person = Person { program, arguments: request.arguments.clone(), directory, files };
    Interactive::new(inner, person).map_err(|error| Failure::refused(error.to_string()))
}

/// The program that the person names: the one at that path, or the first on PATH.
fn program(adapter: &dyn Adapter, named: &str, state: &Path) -> Result<InstalledProgram, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let parent = Path::new(named).parent().filter(|parent| !parent.as_os_str().is_empty());
    let path = match parent {
        None => path,
        Some(parent) => {
            let parent = std::path::absolute(parent).unwrap_or_else(|_| parent.to_path_buf());
            let mut first = OsString::from(parent);
            first.push(":");
            first.push(path);
            first
        }
    };
    sandbox_plan::program_on(&path, adapter, state)?.ok_or_else(|| {
        Failure::general(format!("no program `{named}` prints its version"))
            .help("`bailiwick doctor` lists the agent programs that are installed")
    })
}

/// The settings of the commit.
fn settings(repository: &Repository, commit: &str) -> Result<Settings, Failure> {
    let file = format!("{}/settings.toml", sources::REPOSITORY_KIT);
    match sources::committed_file(repository, commit, &file)? {
        Some(text) => Ok(Settings::parse(&Source::new(file, text))?),
        None => Ok(Settings::default()),
    }
}

/// Creates the id of a session and its directory with the policy.
fn begin(
    context: &Context,
    compiled: &CompiledPolicy,
) -> Result<(AgentId, RunDirectory, RunLock), Failure> {
    let name = system::random_name()?;
    let id = format!("exec-{}", name.get(..8).unwrap_or(&name));
    let id = AgentId::parse(&id).map_err(|error| Failure::general(error.to_string()))?;
    // The path of the run is resolved without links later, so the state directory must exist.
    let created = std::fs::create_dir_all(&context.state);
    let directory = RunDirectory::new(&context.state, id.as_str());
    let failed = |error: std::io::Error| {
        Failure::general(format!("{} cannot be used: {error}", directory.path().display()))
    };
    created.map_err(failed)?;
    directory.make().map_err(failed)?;
    let lock = directory.lock().map_err(failed)?;
    let lock = lock.ok_or_else(|| Failure::AtWork { agent: id.clone() })?;
    std::fs::write(directory.path().join("policy.json"), &compiled.json).map_err(failed)?;
    Ok((id, directory, lock))
}

/// How its limits are described to the agent. The person writes the rest.
fn describe_limits(bound: &Bound) -> Result<String, Failure> {
    let brief = brief::compose_for_run(bound, &Budget::of(&bound.task.budget).0)?;
    Ok(format!(
        "A person talks to you in their own terminal, and you work in their own checkout. What follows \
         is enforced: a call that breaks it is denied.\n\n{brief}"
    ))
}

fn enclosure(
    context: &Context,
    repository: &Repository,
    commit: &str,
    id: &AgentId,
    found: InstalledProgram,
    request: &SessionRequest,
    compiled: &CompiledPolicy,
) -> Result<Enclosure, Failure> {
    let root = repository.root();
    let work = GitWork::open(root, root, &context.state, id, None)
        .map_err(|error| Failure::general(error.to_string()))?;
    let policy = &compiled.policy;
    let scope = Scope::of(repository, Some(commit), root, policy)?;
    let mut enclosure = sandbox_plan::enclosed(found, &work, policy, request.sandbox, scope)?;
    if enclosure.commits {
        // A program that writes there decides what the person's own git does next.
        enclosure.commits = false;
        context.notices.note(
            "its role may commit, but your repository's .git is only read here: commit yourself, or \
             use `bailiwick run`",
        );
    }
    Ok(enclosure)
}

type Denied = Arc<Mutex<Vec<Event>>>;

fn attempt(
    context: &Context,
    setup: Setup,
    screen: &Screen,
    observer: &dyn SessionObserver,
) -> Result<(AttemptOutcome, Vec<Event>), Failure> {
    let database = context.database.open()?;
    let mut attempt = begin_attempt(&database, &setup)?;
    let denied = Denied::default();
    let files = granted::Files::write(&setup.directory, &setup.files);
    let result = files.and_then(|files| {
        run_self_test(context, &setup)?;
        database.record_events(&setup.id, [Happened::Phase { phase: Phase::Working }])?;
        let result = supervise(setup, (screen, observer), &database, &attempt, &denied);
        drop(files);
        result
    });
    match &result {
        Ok(outcome) => {
            update_attempt(&mut attempt, &outcome.progress);
            attempt.ending = Some(outcome.ending);
            attempt.detail.clone_from(&outcome.detail);
            attempt.exhausted = outcome.exhausted;
        }
        Err(failure) => {
            attempt.ending = Some(ExitReason::Failed);
            attempt.detail = failure.to_string();
        }
    }
    attempt.phase = Phase::Over;
    attempt.ended_at = Some(system::now_ms());
    database.update(&attempt)?;
    let denied = std::mem::take(&mut *denied.lock().unwrap_or_else(PoisonError::into_inner));
    result.map(|outcome| (outcome, denied))
}

fn begin_attempt(database: &OpenDatabase, setup: &Setup) -> Result<Attempt, Failure> {
    let assignment = &setup.assignment;
    let mut attempt = Attempt {
        run: setup.id.clone(),
        number: 0,
        cli: setup.adapter.name().to_owned(),
        version: assignment.version.clone(),
        model: assignment.model.clone().unwrap_or_default(),
        login: assignment.login.as_str().to_owned(),
        sandbox: setup.enclosure.level.as_str().to_owned(),
        session: None,
        phase: Phase::Working,
        ending: None,
        detail: String::new(),
        exhausted: None,
        started_at: system::now_ms(),
        ended_at: None,
        used: Used::default(),
        budget: Budget::of(&setup.bound.task.budget).0,
    };
    attempt.number = database.with(async |store| store.begin_attempt(&attempt).await)?;
    Ok(attempt)
}

/// Tests that the program obeys the gate of this session, without asking a person.
fn run_self_test(context: &Context, setup: &Setup) -> Result<(), Failure> {
    let self_test_results = context.state.join("canaries");
    let scratch = RunDirectory::new(setup.directory.path(), "canary");
    let adapter = unattended(Arc::clone(&setup.inner));
    let trying = || {
        let name = setup.inner.name();
        context.notices.progress(format_args!(
            "testing whether {name} obeys its gate, once for this version …"
        ));
    };
    let places = (self_test_results.as_path(), &scratch);
    let result = supervisor::run_self_test(
        adapter.as_ref(),
        &setup.assignment,
        &setup.enclosure,
        places,
        trying,
    );
    result.map(drop).map_err(|error| {
        Failure::general(error.to_string())
            .help("no agent was started; `bailiwick doctor` checks this machine")
    })
}

fn supervise(
    setup: Setup,
    (screen, observer): (&Screen, &dyn SessionObserver),
    database: &Arc<OpenDatabase>,
    attempt: &Attempt,
    denied: &Denied,
) -> Result<AttemptOutcome, Failure> {
    let Setup { id, directory, _lock, settings, bound, compiled, adapter, .. } = setup;
    let fail_fast = compiled.policy.escalation == EscalationPolicy::FailFast;
    let judge = PolicyJudge {
        worktree: setup.assignment.worktree.clone(),
        home: setup.assignment.home.clone(),
        // New files in a person's own checkout are not found after each call.
        enforcement: Enforcement::TextOnly,
        servers: setup.assignment.mcp_servers.keys().cloned().collect(),
        log: Mutex::new(directory.decisions()),
        redaction: setup.assignment.hidden.clone(),
        digest: compiled.digest,
        policy: compiled.policy,
    };
    // Who has named no model may choose one at the terminal, and another one later.
    let models = match setup.assignment.model {
        Some(_) => setup.assignment.models(adapter.as_ref()),
        None => Models::Any,
    };
    let supervision = Supervision {
        delegation: None,
        models,
        directory,
        adapter,
        redaction: setup.assignment.hidden.clone(),
        assignment: setup.assignment,
        enclosure: setup.enclosure,
        upstream: setup.upstream,
        hosts: bound.task.agent.hosts.iter().map(ToString::to_string).collect(),
        budget: Budget(attempt.budget),
        used: Used::default(),
        time: 0,
        prices: Prices::new(settings.prices.clone()),
        audit_level: AuditLevel::default(),
        call_policy: Arc::new(judge),
        checks: setup.checks,
        // What is new in a person's own checkout may be the person's.
        forbidden_files: None,
        fail_fast,
        warns_near_limit: false,
        // A person may think for as long as they like.
        idle: Duration::MAX,
        disk: disk(&settings),
        approval: settings
            .run
            .approval_seconds
            .map_or(APPROVAL_TIMEOUT, |seconds| Duration::from_secs(u64::from(seconds))),
        earlier: Vec::new(),
    };
    let sinks = sinks(database, id, attempt.clone(), Arc::clone(denied));
    supervisor::supervise_at(screen, supervision, sinks, |handle| observer.started(handle))
        .map_err(|error| Failure::general(error.to_string()))
}

/// Nothing is shown while the program has the screen.
fn sinks(database: &Arc<OpenDatabase>, run: AgentId, attempt: Attempt, denied: Denied) -> Sinks {
    let progress_database = Arc::clone(database);
    let mut attempt = attempt;
    Sinks {
        events: Box::new(DatabaseEvents { database: Arc::clone(database), run }),
        show: Box::new(move |event| {
            if let Happened::Decision { answer: Answer::Deny, .. } = &event.what {
                let mut denied = denied.lock().unwrap_or_else(PoisonError::into_inner);
                if denied.len() >= MAX_DENIALS_SHOWN {
                    denied.remove(0);
                }
                denied.push(event.clone());
            }
        }),
        progress: Box::new(move |progress| {
            update_attempt(&mut attempt, progress);
            // It is written again soon, and at the end.
            let _ = progress_database.update(&attempt);
        }),
    }
}

fn update_attempt(attempt: &mut Attempt, progress: &Progress) {
    attempt.used = progress.used;
    attempt.budget = progress.budget;
    if !progress.model.is_empty() {
        attempt.model.clone_from(&progress.model);
    }
}
