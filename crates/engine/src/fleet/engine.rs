//! Runs attempts of the control plane as Bailiwick runs: with the same spawn, supervisor, sandbox, gate and
//! checks as `bailiwick run -d`.
//!
//! Each attempt has its own supervisor process. It survives a kill of the control plane, which finds it by
//! name after a restart.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::sync::Arc;

use bailiwick_fleet::admission::compile::SkillFiles;
use bailiwick_fleet::ports::{
    Engine, EngineError, EngineEvent, FinishedWork, Launch, LaunchWorkspace, Launched,
    LaunchedChild, LaunchedState, ModelKey, Rebased,
};
use bailiwick_fleet::subagents::ParallelLimits;
use bailiwick_lifecycle::ports::{RunStore as _, StoreError, Work as _};
use bailiwick_model::attempt::{Attempt, Used};
use bailiwick_model::event::{Answer, EventKind, ExitReason};
use bailiwick_model::settings::AutoLand;
use bailiwick_model::task::Login;
use bailiwick_model::{AgentId, LedgerNote, Run, RunStatus, Source, Task};
use bailiwick_resources::RunCost;
use bailiwick_runner::agents;
use bailiwick_runner::proxy::ModelApi;
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use bailiwick_store::Store;
use tokio::runtime::Handle;

use super::children;
use super::rebasing::Rebases;
use crate::background::{self, Environment, Input};
use crate::context::{Context, set_variable};
use crate::failure::Failure;
use crate::managed::{Managed, ManagedSkill};
use crate::options::RunOptions;
use crate::reused_workspace::WorkspaceSource;
use crate::running::{bound_issue, granted};
use crate::spawning::{Naming, SpawnBindings, spawn};
use crate::verifying::{AgentWork, Places, VerificationReport};
use crate::work_patch::{Change, change};
use crate::{agent_programs, claiming, launched_for, logins};

/// A final message of this length may have been truncated in the attempt.
const CUT_FROM: usize = 3_900;
/// How many of the last events are searched for the full message.
const LAST_EVENTS: u32 = 500;

/// Runs of this machine.
pub struct LocalEngine {
    context: Context,
    store: Arc<Store>,
    rebases: Arc<Rebases>,
    verification: Verification,
}

/// Who checks the work of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// Its supervisor, on this machine.
    Here,
    /// The server that the work is sent to.
    ByServer,
}

impl LocalEngine {
    /// The state directory and the database.
    pub fn new(context: Context, store: Arc<Store>, verification: Verification) -> Self {
        Self { context, store, rebases: Arc::default(), verification }
    }

    /// Runs blocking work on a separate thread.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Context) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, EngineError> {
        let context = self.context.clone();
        let done = tokio::task::spawn_blocking(move || work(&context)).await;
        done.map_err(|error| EngineError(format!("it broke: {error}")))?
            .map_err(|failure| EngineError(failure.in_one_line()))
    }
}

pub(super) fn id(agent: &str) -> Result<AgentId, Failure> {
    AgentId::parse(agent).map_err(|error| Failure::general(error.to_string()))
}

impl Engine for LocalEngine {
    async fn launch(&self, launch: Launch) -> Result<(), EngineError> {
        let verification = self.verification;
        self.run_blocking(move |context| start(context, &launch, verification)).await
    }

    async fn state(&self, agent: &str) -> Result<Option<Launched>, EngineError> {
        let (agent, store) = (agent.to_owned(), Arc::clone(&self.store));
        self.run_blocking(move |context| look(context, &store, &id(&agent)?)).await
    }

    async fn is_held(&self, agent: &str) -> Result<bool, EngineError> {
        let agent = agent.to_owned();
        self.run_blocking(move |context| {
            let id = id(&agent)?;
            let held = RunDirectory::new(&context.state, id.as_str()).is_supervised();
            held.map_err(|error| Failure::general(format!("{id} cannot be looked at: {error}")))
        })
        .await
    }

    async fn children(&self, agent: &str) -> Result<Vec<LaunchedChild>, EngineError> {
        let agent = agent.to_owned();
        self.run_blocking(move |context| children::of(context, &id(&agent)?)).await
    }

    async fn answer(&self, agent: &str, question: &str, yes: bool) -> Result<bool, EngineError> {
        let (agent, question) = (agent.to_owned(), question.to_owned());
        self.run_blocking(move |context| {
            let directory = RunDirectory::new(&context.state, &agent);
            let answer = if yes { Answer::Allow } else { Answer::Deny };
            let asked = supervisor::ask(&directory, &Request::Answer { id: question, answer });
            match asked.map_err(|error| Failure::general(error.to_string()))? {
                Some(Reply::Done | Reply::Status(_)) => Ok(true),
                Some(Reply::Refused(_)) | None => Ok(false),
            }
        })
        .await
    }

    async fn events(
        &self,
        agent: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EngineEvent>, EngineError> {
        // Only the store blocks here: no thread per follower is needed.
        let failed = |failure: Failure| EngineError(failure.in_one_line());
        let (id, most) = (id(agent).map_err(failed)?, u32::try_from(limit).unwrap_or(u32::MAX));
        let events = self.store.run_events(&id, after, most).await;
        let told = |event: bailiwick_model::Event| -> Result<EngineEvent, EngineError> {
            let body =
                serde_json::to_value(&event).map_err(|error| EngineError(error.to_string()))?;
            let kind = body.get("kind").and_then(|kind| kind.as_str()).unwrap_or("event");
            let kind = kind.to_owned();
            Ok(EngineEvent { number: event.number, at: event.at, kind, body })
        };
        let events = events.map_err(|error| EngineError(error.to_string()))?;
        events.into_iter().map(told).collect()
    }

    async fn forget(&self, agent: &str) -> Result<(), EngineError> {
        let (agent, store) = (agent.to_owned(), Arc::clone(&self.store));
        self.run_blocking(move |context| {
            let id = id(&agent)?;
            let held = RunDirectory::new(&context.state, id.as_str()).is_supervised();
            if !held.map_err(|error| Failure::general(error.to_string()))? {
                Handle::current().block_on(store.delete_events(&id))?;
            }
            Ok(())
        })
        .await
    }

    async fn rebase(&self, agent: &str, onto: &str) -> Result<Rebased, EngineError> {
        let (agent, onto) = (agent.to_owned(), onto.to_owned());
        let rebases = Arc::clone(&self.rebases);
        self.run_blocking(move |context| rebases.rebase(context, id(&agent)?, &onto)).await
    }

    async fn give_back_claims(&self, agent: &str) -> Result<(), EngineError> {
        let agent = agent.to_owned();
        self.run_blocking(move |context| claiming::give_back(context, &id(&agent)?)).await
    }

    async fn cancel(&self, agent: &str) -> Result<(), EngineError> {
        let agent = agent.to_owned();
        self.run_blocking(move |context| {
            let directory = RunDirectory::new(&context.state, &agent);
            let stop = Request::Stop { why: "cancelled".to_owned() };
            supervisor::ask(&directory, &stop)
                .map(drop)
                .map_err(|error| Failure::general(error.to_string()))
        })
        .await
    }
}

/// Spawns and starts the agent; finished steps are not repeated.
fn start(context: &Context, launch: &Launch, verification: Verification) -> Result<(), Failure> {
    let context = Context { directory: (&launch.checkout).into(), ..context.clone() };
    let id = id(&launch.agent)?;
    let directory = RunDirectory::new(&context.state, id.as_str());
    let held = || {
        directory
            .is_supervised()
            .map_err(|error| Failure::general(format!("{id} cannot be looked at: {error}")))
    };
    let progress = || -> Result<(bool, bool), Failure> {
        let (run, attempts) = context.with_store(async |store| {
            Ok((store.find(&id).await?, store.attempts(Some(&id)).await?))
        })?;
        let spawned = run.as_ref().is_some_and(|run| !run.half_spawned);
        let is_done = spawned && !attempts.is_empty() && launch.resume.is_none();
        Ok((spawned, is_done))
    };
    if held()? || progress()?.1 {
        return Ok(());
    }
    // An agent without a login is refused before anything is created.
    let environment = Environment::Only(environment(launch)?);
    let _lock = launched_for::note(&context.state, &id, &launch.checkout).map_err(|error| {
        Failure::general(format!("the checkout of {id} cannot be noted: {error}"))
    })?;
    // Another server may have launched it while this one was paused, or waited for the lock.
    let (spawned, is_done) = progress()?;
    if held()? || is_done {
        return Ok(());
    }
    if !spawned {
        spawn_agent(&context, launch, &id)?;
    }
    if let Some(binding) = &launch.issue {
        bound_issue::bind_with(&context, &id, binding)?;
        // A refusal ends the attempt here, with its reason.
        bound_issue::require_entry(&context, &id)?;
    }
    let how = RunOptions {
        land: Some(AutoLand::Never),
        no_verify: verification == Verification::ByServer,
        ..RunOptions::default()
    };
    let input = match &launch.resume {
        None => Input::Nothing,
        Some(words) => Input::Words(written(words)?),
    };
    background::begin_with(&context, &id, &how, input, environment).map(drop)
}

fn spawn_agent(context: &Context, launch: &Launch, id: &AgentId) -> Result<(), Failure> {
    let source = Source::new(format!("the task of {id}"), task_text(launch)?);
    spawn(context, &source, Naming::Exactly(id), &launch.base, bindings(launch)?).map(drop)
}

/// Spawns the agent of an attempt that runs elsewhere; its work is put into the worktree when it has ended.
pub(super) fn prepare(context: &Context, launch: &Launch) -> Result<(), Failure> {
    let context = Context { directory: (&launch.checkout).into(), ..context.clone() };
    let id = id(&launch.agent)?;
    let _lock = launched_for::note(&context.state, &id, &launch.checkout).map_err(|error| {
        Failure::general(format!("the checkout of {id} cannot be noted: {error}"))
    })?;
    let run = context.with_store(async |store| Ok(store.find(&id).await?))?;
    match run.is_some_and(|run| !run.half_spawned) {
        true => Ok(()),
        false => spawn_agent(&context, launch, &id),
    }
}

/// The variables that an attempt gets on another machine: those that were granted to it, where the model is, and one
/// key of it if the task uses it.
pub(super) fn granted(launch: &Launch) -> Result<Vec<(String, String)>, Failure> {
    let task = Task::parse(&Source::new("the task", launch.task.as_str()))?;
    if spends_a_login(&task) {
        return Err(Failure::general("a login of this machine cannot be used on a worker")
            .help("use the login api-key in its stack"));
    }
    let mut names = logins::ENDPOINT_VARIABLES.to_vec();
    match (launch.model_key, wire_of(&task)) {
        (ModelKey::Lent, Some(wire)) => names.extend(logins::keys(wire)),
        (ModelKey::Lent | ModelKey::Withheld, _) => {}
    }
    let mut all = Vec::new();
    for name in names {
        all.extend(set_variable(name)?.map(|value| (name.to_owned(), value)));
    }
    all.extend(launch.environment.iter().cloned());
    let known: Vec<(OsString, OsString)> =
        all.iter().map(|(name, value)| (name.into(), value.into())).collect();
    require_key(&task, &known)?;
    Ok(all)
}

/// The name of the agent program of a task.
pub(super) fn program_of(launch: &Launch) -> Result<String, Failure> {
    let task = Task::parse(&Source::new("the task", launch.task.as_str()))?;
    let name = task.agent.cli.as_ref().map_or(agent_programs::USUAL, |cli| cli.as_str());
    Ok(name.to_owned())
}

fn wire_of(task: &Task) -> Option<ModelApi> {
    let name = task.agent.cli.as_ref().map_or(agent_programs::USUAL, |cli| cli.as_str());
    agents::adapter(name).and_then(|adapter| adapter.wire())
}

/// The environment of its supervisor: variables that programs need to find their files, the admitted
/// variables, and the model key if the task uses it.
fn environment(launch: &Launch) -> Result<Vec<(OsString, OsString)>, Failure> {
    let task = Task::parse(&Source::new("the task", launch.task.as_str()))?;
    let ours = |name: &&str| Some((OsString::from(name), std::env::var_os(name)?));
    let needed = background::NEEDED.iter().chain(&logins::ENDPOINT_VARIABLES);
    let mut all: Vec<(OsString, OsString)> = needed.filter_map(ours).collect();
    match launch.model_key {
        ModelKey::Lent => all.extend(logins::CREDENTIAL_VARIABLES.iter().filter_map(ours)),
        ModelKey::Withheld if spends_a_login(&task) => {
            return Err(Failure::general(
                "it is to be paid for with a login of this machine, which is not lent to it",
            )
            .help("grant it a key of its own, or set modelKey of its pool to every-run"));
        }
        ModelKey::Withheld => {}
    }
    all.extend(launch.environment.iter().map(|(name, value)| (name.into(), value.into())));
    require_key(&task, &all)?;
    Ok(all)
}

/// Whether its task names a login that is not a variable. Such a login cannot be withheld, only refused.
fn spends_a_login(task: &Task) -> bool {
    match task.agent.login {
        Login::ApiKey => false,
        Login::Subscription | Login::Bedrock | Login::Vertex => true,
    }
}

/// An agent without a key is not started, since it would fail.
fn require_key(task: &Task, environment: &[(OsString, OsString)]) -> Result<(), Failure> {
    let Some(wire) = wire_of(task).filter(|_| !spends_a_login(task)) else { return Ok(()) };
    let keys = logins::keys(wire);
    if keys.iter().any(|key| environment.iter().any(|(name, _)| name == key)) {
        return Ok(());
    }
    Err(Failure::general("no key of the model is lent to it, and none was granted")
        .help(format!("grant {}, or set modelKey of its pool to every-run", keys.join(" or "))))
}

/// Writes a text to a private file.
fn written(words: &str) -> Result<File, Failure> {
    let failed =
        |error: std::io::Error| Failure::general(format!("its words cannot be handed on: {error}"));
    let mut file = tempfile::tempfile().map_err(failed)?;
    file.write_all(words.as_bytes()).and_then(|()| file.rewind()).map_err(failed)?;
    Ok(file)
}

/// The limits of the agent besides its task: those of stack, profile and repository.
fn bindings(launch: &Launch) -> Result<SpawnBindings, Failure> {
    let limits = launch.limits.clone();
    let managed = Managed {
        servers: limits.mcp_servers,
        subagents: limits.subagents,
        parallel: ParallelLimits { pool: launch.belongs.capacity, ..limits.parallel },
        belongs: launch.belongs.clone(),
        contract: None,
        audit_level: limits.audit_level,
        skills: limits.skills.into_iter().map(|skill| from_commit(skill, launch)).collect(),
        sources: launch.sources.clone(),
    };
    let workspace = match &launch.workspace {
        LaunchWorkspace::New => WorkspaceSource::Base,
        LaunchWorkspace::NotReused(why) => WorkspaceSource::NotReused(why.clone()),
        LaunchWorkspace::TakeOver(earlier) => WorkspaceSource::TakeOver(id(earlier)?),
    };
    let managed = Some(managed);
    Ok(SpawnBindings { limits: limits.limits, managed, workspace, ..SpawnBindings::default() })
}

/// A skill out of the commit whose kit binds the agent.
fn from_commit(skill: SkillFiles, launch: &Launch) -> ManagedSkill {
    let SkillFiles { name, path, package } = skill;
    let commit = launch.kit_from.as_ref().unwrap_or(&launch.base).clone();
    ManagedSkill { name, path, commit, package }
}

/// The task with all texts for the agent.
fn task_text(launch: &Launch) -> Result<String, Failure> {
    let mut task: toml::Table = launch
        .task
        .parse()
        .map_err(|error| Failure::general(format!("its task cannot be read: {error}")))?;
    let mut body = toml::Table::new();
    body.insert("text".to_owned(), toml::Value::String(launch.context.clone()));
    task.insert("body".to_owned(), toml::Value::Table(body));
    if let Some(kit) = &launch.kit_from {
        let header = task.get_mut("task").and_then(toml::Value::as_table_mut);
        let header = header.ok_or_else(|| Failure::general("its task has no [task]"))?;
        header.insert("kit-commit".to_owned(), toml::Value::String(kit.clone()));
    }
    toml::to_string(&task)
        .map_err(|error| Failure::general(format!("its task cannot be written: {error}")))
}

/// The current state of a run. Each pass of the controllers calls this for each run, so it uses the open store.
fn look(context: &Context, store: &Store, id: &AgentId) -> Result<Option<Launched>, Failure> {
    // This comes first: once the run is unlocked, its supervisor has written everything.
    let directory = RunDirectory::new(&context.state, id.as_str());
    let held = directory
        .is_supervised()
        .map_err(|error| Failure::general(format!("{id} cannot be looked at: {error}")))?;
    // If its supervisor was killed, its granted files are still there. They are deleted at once.
    if !held
        && directory.granted().exists()
        && let Ok(Some(_start_block)) = directory.block_start()
    {
        granted::forget(&directory).map_err(|error| {
            Failure::general(format!("what {id} was granted cannot be taken away: {error}"))
        })?;
    }
    let (run, attempts, note, cursor) = Handle::current().block_on(async {
        let (run, attempts) = (store.find(id).await?, store.attempts(Some(id)).await?);
        // A running attempt has no verdict yet, and many events.
        let note = match held {
            true => None,
            false => {
                store
                    .last_run_note(id, (LedgerNote::Verified, LedgerNote::VerificationFailed))
                    .await?
            }
        };
        Ok::<_, StoreError>((run, attempts, note, store.last_event(id).await?))
    })?;
    let Some(run) = run else { return Ok(None) };
    let mut launched = Launched {
        state: LaunchedState::Starting,
        session: attempts.iter().rev().find_map(|attempt| attempt.session.clone()),
        cost: cost(&attempts),
        attempts: u64::try_from(attempts.len()).unwrap_or(u64::MAX),
        is_claimed: false,
        cursor,
        detail: attempts.last().map(|attempt| attempt.detail.clone()).unwrap_or_default(),
        questions: Vec::new(),
        work: None,
        pod_problem: None,
    };
    if held {
        let asked = supervisor::ask(&directory, &Request::Status);
        if let Ok(Some(Reply::Status(standing))) = asked {
            launched.questions = standing.questions;
        }
        launched.state = match (attempts.last(), launched.questions.is_empty()) {
            (None, _) => LaunchedState::Starting,
            (Some(_), true) => LaunchedState::Running,
            (Some(_), false) => LaunchedState::WaitingForApproval,
        };
        return Ok(Some(launched));
    }
    let Some(last) = attempts.last() else {
        // It is unlocked and was never begun: the process that started it was killed.
        launched.state = match run.status {
            RunStatus::Failed => LaunchedState::Failed,
            RunStatus::Running | RunStatus::Done | RunStatus::Merged | RunStatus::Rejected => {
                LaunchedState::Starting
            }
        };
        launched.detail = run.summary.unwrap_or_default();
        return Ok(Some(launched));
    };
    let verdict = note.filter(|(at, _, _)| *at >= last.started_at);
    launched.state = match last.ending {
        Some(ExitReason::Completed) => match &verdict {
            Some((_, kind, _)) if kind == LedgerNote::Verified.as_str() => LaunchedState::Verified,
            Some(_) => LaunchedState::Rejected,
            // It ended, and its supervisor was killed before its work was checked.
            None => LaunchedState::Failed,
        },
        Some(ExitReason::Stopped) => LaunchedState::Stopped,
        Some(ExitReason::BudgetExhausted) => LaunchedState::BudgetExhausted,
        Some(ExitReason::EnforcementLost | ExitReason::Denied) => LaunchedState::EnforcementLost,
        Some(ExitReason::Failed | ExitReason::TimedOut | ExitReason::CutOff) | None => {
            LaunchedState::Failed
        }
    };
    if let Some((_, _, text)) = verdict {
        let shown: VerificationReport = serde_json::from_str(&text)
            .map_err(|error| Failure::general(format!("the verdict cannot be read: {error}")))?;
        let work = finished(context, id, &run, &shown)?;
        let report =
            work.as_ref().map(|_| answer(context, id, last, cursor)).transpose()?.flatten();
        launched.work = work.map(|work| FinishedWork { report, ..work });
    }
    Ok(Some(launched))
}

fn cost(attempts: &[Attempt]) -> RunCost {
    let used = attempts.iter().map(|attempt| attempt.used);
    used.fold(RunCost::default(), |sum, used: Used| RunCost {
        tokens: sum.tokens.saturating_add(used.tokens),
        micro_usd: sum.micro_usd.saturating_add(used.micro_usd),
        turns: sum.turns.saturating_add(used.turns),
        tool_calls: sum.tool_calls.saturating_add(used.tool_calls),
        denied: sum.denied.saturating_add(used.denied),
    })
}

/// The final message of the agent. An attempt stores only the beginning of a long one; the last events have
/// all of it.
fn answer(
    context: &Context,
    id: &AgentId,
    last: &Attempt,
    cursor: u64,
) -> Result<Option<String>, Failure> {
    let short = last.detail.trim();
    if short.chars().count() < CUT_FROM {
        return Ok(Some(short.to_owned()).filter(|short| !short.is_empty()));
    }
    let after = cursor.saturating_sub(u64::from(LAST_EVENTS));
    let events =
        context.with_store(async |store| Ok(store.run_events(id, after, LAST_EVENTS).await?))?;
    let beginning: String = short.chars().take(CUT_FROM / 4).collect();
    let said =
        |what: EventKind| if let EventKind::Text { text } = what { Some(text) } else { None };
    let own = events.into_iter().rev().filter(|event| event.agent.is_none());
    let whole =
        own.filter_map(|event| said(event.what)).find(|text| text.trim().starts_with(&beginning));
    Ok(Some(whole.unwrap_or_else(|| short.to_owned())))
}

/// The verified commit: the one that the checks saw, even if the worktree has changed.
fn finished(
    context: &Context,
    id: &AgentId,
    run: &Run,
    shown: &VerificationReport,
) -> Result<Option<FinishedWork>, Failure> {
    let (Some(commit), Some(tree)) = (&shown.work, &shown.worktree_tree) else { return Ok(None) };
    // Its worktree may be put away by now, and where we were started is of no matter.
    let context = launched_for::context_of(context, id)?;
    let repository = context.require_repository()?;
    let git = repository.git();
    let said = |error: bailiwick_lifecycle::ports::WorkError| Failure::general(error.to_string());
    let begun = match &run.base {
        Some(base) => base.clone(),
        None => {
            let subject = AgentWork::of_agent(&context, id, &Places::default())?;
            subject.git_work()?.base().map_err(said)?.tip.into()
        }
    };
    // Nothing of a patch that is too long is proposed; the run ends all the same.
    let Some(Change { patch, history, files }) = change(&git, &begun, commit)? else {
        return Ok(None);
    };
    Ok(Some(FinishedWork {
        base: begun,
        commit: commit.clone(),
        tree: tree.clone(),
        files,
        patch,
        history,
        merges: shown.merged_tree.is_some(),
        verified: shown.failed.is_empty(),
        verdict: shown.summary(),
        report: None,
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bailiwick_fleet::ports::{Engine as _, LaunchedState};
    use bailiwick_lifecycle::ports::{NewRun, RunStore as _};
    use bailiwick_model::attempt::{Allowance, Attempt, Used};
    use bailiwick_model::event::{ExitReason, Phase};
    use bailiwick_model::{AgentId, LedgerNote};
    use bailiwick_runner::supervisor::RunDirectory;
    use bailiwick_store::{Location, Store};
    use bailiwick_testkit::Scratch;

    use super::{LocalEngine, Verification};
    use crate::context::Context;
    use crate::database::Database;
    use crate::launched_for;
    use crate::notices::Notices;
    use crate::verifying::VerificationReport;

    async fn for_a_moment(over: impl Fn() -> bool) {
        for _ in 0..200 {
            if over() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// An engine that was started where there is no repository.
    async fn engine(scratch: &Scratch) -> LocalEngine {
        let database = Location::file(scratch.state().join("bailiwick.db"));
        let store = Arc::new(Store::open(database.clone()).await.unwrap());
        let context = Context {
            directory: scratch.place().join("home"),
            state: scratch.state(),
            user_kit: scratch.place().join("config"),
            kit_root: None,
            database: Database::at(database),
            global_options: String::new(),
            notices: Notices::default(),
        };
        LocalEngine::new(context, store, Verification::Here)
    }

    /// A run that has begun.
    async fn begun(engine: &LocalEngine, base: &str) -> (AgentId, Attempt) {
        let id = AgentId::parse("one").unwrap();
        let run = NewRun {
            id: id.clone(),
            branch: "agent/one".to_owned(),
            parent: None,
            spec_sha: "0".repeat(64),
            worktree: None,
            dna: None,
            creator: None,
            fork_parent: None,
            half_spawned: false,
            base: Some(base.to_owned()),
            named: None,
        };
        engine.store.record(&run, None).await.unwrap();
        let attempt = Attempt {
            run: id.clone(),
            number: 1,
            cli: "script".to_owned(),
            version: String::new(),
            model: String::new(),
            login: String::new(),
            sandbox: String::new(),
            session: None,
            phase: Phase::Working,
            ending: None,
            detail: "Done.".to_owned(),
            exhausted: None,
            started_at: 1,
            ended_at: None,
            used: Used::default(),
            budget: Allowance::default(),
        };
        engine.store.begin_attempt(&attempt).await.unwrap();
        (id, attempt)
    }

    #[tokio::test]
    async fn a_run_is_held_as_long_as_somebody_has_its_lock() {
        let scratch = Scratch::bare();
        let engine = engine(&scratch).await;
        let held = async |agent: &str| engine.is_held(agent).await.unwrap();
        assert!(!held("one").await, "nobody has heard of it");
        let lock = RunDirectory::new(&scratch.state(), "one").lock().unwrap();
        assert!(held("one").await);
        assert!(!held("two").await);
        drop(lock);
        let directory = RunDirectory::new(&scratch.state(), "one");
        for_a_moment(|| !directory.is_supervised().unwrap()).await;
        assert!(!held("one").await);
        assert!(engine.is_held("no id").await.is_err());
    }

    /// Where we were started is of no matter, and neither is whether its worktree is still there.
    #[tokio::test]
    async fn what_was_verified_is_read_where_the_run_s_checkout_is() {
        let scratch = Scratch::repository();
        scratch.write("src/a.txt", "before\n");
        let base = scratch.commit("before");
        scratch.write("src/a.txt", "after\n");
        let work = scratch.commit("after");
        let tree = scratch.git(&["rev-parse", "HEAD^{tree}"]).trim().to_owned();
        let engine = engine(&scratch).await;
        let (id, mut attempt) = begun(&engine, &base).await;
        (attempt.phase, attempt.ending) = (Phase::Over, Some(ExitReason::Completed));
        engine.store.update_attempt(&attempt).await.unwrap();
        let shown = VerificationReport {
            agent_id: Some(id.to_string()),
            base_branch: None,
            base: Some(base.clone()),
            work: Some(work.clone()),
            worktree_tree: Some(tree.clone()),
            merged_tree: None,
            passed: Vec::new(),
            failed: Vec::new(),
            left_out: Vec::new(),
        };
        let shown = serde_json::to_string(&shown).unwrap();
        engine.store.append_run_note(&id, LedgerNote::Verified, &shown).await.unwrap();
        let lost = engine.state("one").await.unwrap_err();
        assert!(lost.to_string().contains("not in a git repository"), "{lost}");
        let checkout = scratch.root().display().to_string();
        launched_for::note(&scratch.state(), &id, &checkout).unwrap();
        let launched = engine.state("one").await.unwrap().unwrap();
        assert_eq!(launched.state, LaunchedState::Verified);
        let found = launched.work.unwrap();
        assert_eq!((found.base, found.commit, found.tree), (base, work, tree));
        assert_eq!(found.files, ["src/a.txt"]);
        let patch = String::from_utf8_lossy(&found.patch);
        assert!(patch.contains("+after"), "{patch}");
        let history = String::from_utf8(found.history.unwrap()).unwrap();
        assert!(history.contains("+after") && !history.contains("before"), "{history}");
        assert!(found.verified && !found.merges);
        assert_eq!(found.report.as_deref(), Some("Done."));
    }

    /// Its supervisor was killed: its granted files are removed, and it can be locked again.
    #[tokio::test]
    async fn a_look_takes_away_what_was_granted_and_leaves_the_lock_as_it_is() {
        let scratch = Scratch::bare();
        let engine = engine(&scratch).await;
        begun(&engine, &"0".repeat(40)).await;
        let directory = RunDirectory::new(&scratch.state(), "one");
        directory.make().unwrap();
        std::fs::create_dir(directory.granted()).unwrap();
        std::fs::write(directory.granted().join("KEY"), "x").unwrap();
        let held = directory.lock().unwrap();
        engine.state("one").await.unwrap();
        assert!(directory.granted().exists(), "somebody is at work");
        drop(held);
        // A program that another test starts at this moment has it until it is itself.
        for_a_moment(|| !directory.is_supervised().unwrap()).await;
        let lock = directory.path().join("lock");
        std::fs::write(&lock, "somebody").unwrap();
        engine.state("one").await.unwrap();
        assert!(!directory.granted().exists());
        assert_eq!(std::fs::read_to_string(&lock).unwrap(), "somebody");
    }
}
