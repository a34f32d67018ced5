//! Runs an agent, from a spawned task to its end.
//!
//! ```text
//! assign         the assignment of an attempt: prompt, tools, login, budget
//! declared       finds requests of a task that no run can fulfil
//! sandbox_plan   the files, programs and network of its sandbox
//! granted        the variables and private files that it gets
//! preloads       the files that it loads at the start, within its context limits
//! tree_checks    runs checks on its tree between its calls
//! spawn_to_run   spawns an agent that is started at once
//! service        runs an agent from its start to its result
//! observer       ports to the caller: progress, and stopping
//! finish         records the changes and runs the checks
//! bound_issue    reads the state of a run from its issue, and writes it there
//! issue_cascade  what the sub-agents of a run used, for its issue
//! hand_off       the agent that continues with the issue
//! issue_work     the files of the run for that agent
//! control        queries and stops supervisors
//! recover        records interrupted runs
//! run_list       all runs with their usage, for lists
//! versions       the versions that agent programs reported
//! interactive    an agent at a person's own terminal
//! ```

pub mod assign;
pub mod bound_issue;
pub mod control;
pub mod declared;
pub mod finish;
pub mod forbidden_files;
pub mod granted;
mod hand_off;
pub mod interactive;
mod issue_cascade;
mod issue_work;
pub mod observer;
pub mod preloads;
pub mod recover;
pub mod run_list;
pub mod sandbox_plan;
pub mod service;
pub mod skill_files;
pub mod skill_packages;
pub mod spawn_to_run;
pub mod tree_checks;
pub mod versions;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bailiwick_lifecycle::ports::{Delegation, ForbiddenFiles, TreeChecks};
use bailiwick_lifecycle::supervision::{Budget, Prices};
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::event::{EventKind, ExitReason, Phase};
use bailiwick_model::role::EscalationPolicy;
use bailiwick_model::settings::AutoLand;
use bailiwick_model::task::Login;
use bailiwick_model::{AgentId, Event, Run, RunState, RunStatus, Settings};
use bailiwick_policy::facts::Enforcement;
use bailiwick_policy::tool_lists::OWN_SERVER;
use bailiwick_policy::{PathPolicy, Policy};
use bailiwick_resources::AuditLevel;
use bailiwick_runner::agents::adapter::Conversation;
use bailiwick_runner::checks::OpenSetup;
use bailiwick_runner::sandbox::{Level, WorktreeAccess};
use bailiwick_runner::supervisor::{
    self, AttemptOutcome, Handle, PolicyJudge, Progress, RunDirectory, RunLock, SelfTestError,
    SelfTestResult, Sinks, Supervision,
};
use bailiwick_source_control::git::Imported;

use forbidden_files::NewFiles;
use observer::{RunObserver, RunView};
use tree_checks::TreeChecker;

use crate::context::Context;
use crate::database::{DatabaseEvents, OpenDatabase};
use crate::delegating::DelegationService;
use crate::failure::Failure;
use crate::options::{IfClosed, RunOptions, SandboxLevel};
use crate::verifying::{AgentWork, Places};
use crate::{agent_state, claiming, managed, policy_file, system};

/// How often and after which pause a locked run is tried again.
const LOCK_RETRIES: u32 = 10;
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(100);
/// After how long without a sign of life an agent is ended, unless its task says otherwise.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// How long a call waits for a person, unless the settings say otherwise.
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(300);

/// How many MiB an agent may add to the disk in an attempt, unless the settings say otherwise.
const DEFAULT_DISK_MIB: u32 = 20 * 1024;

/// How many bytes an agent may add to the disk.
fn disk(settings: &Settings) -> u64 {
    u64::from(settings.run.disk_mib.unwrap_or(DEFAULT_DISK_MIB)) << 20
}

/// How an attempt begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With the task's prompt.
    Fresh,
    /// Where the last one ended; with these words, or with "go on".
    Resume(Option<String>),
}

/// Options of an attempt.
#[derive(Debug, Clone, Default)]
pub struct AttemptOptions {
    /// The required sandbox level.
    pub sandbox: SandboxLevel,
    /// What may be spent from now on, in place of what the task says.
    pub budget: Option<Allowance>,
    /// How it is paid for, in place of what the task says.
    pub login: Option<Login>,
    /// Whether its setup may run as the person where this machine can make no sandbox.
    pub open_setup: OpenSetup,
    /// Nothing is shown while it runs.
    pub quiet: bool,
    /// Whether it begins if it was closed.
    pub if_closed: IfClosed,
    /// What it is given of the issue that it is bound to.
    pub issue: Option<bound_issue::IssueGrant>,
}

/// A locked run with its stored state.
pub struct LockedRun {
    /// The agent's work, and the task, policy and settings that bind it.
    pub subject: AgentWork,
    /// Its id.
    pub id: AgentId,
    /// The directory of the run.
    pub directory: RunDirectory,
    kept: Arc<OpenDatabase>,
    earlier: Vec<Attempt>,
    lock: RunLock,
}

/// Locks a run; `None` if it stays locked for longer than a recovery takes.
fn lock_with_retry(directory: &RunDirectory) -> std::io::Result<Option<RunLock>> {
    for _ in 0..LOCK_RETRIES {
        if let Some(lock) = directory.lock()? {
            return Ok(Some(lock));
        }
        std::thread::sleep(LOCK_RETRY_PAUSE);
    }
    directory.lock()
}

impl LockedRun {
    /// The locked run of this agent.
    pub fn lock(context: &Context, id: &AgentId) -> Result<Self, Failure> {
        let directory = RunDirectory::new(&context.state, id.as_str());
        let lock = lock_with_retry(&directory).map_err(|error| {
            Failure::general(format!("the run `{id}` cannot be locked: {error}"))
        })?;
        let Some(lock) = lock else {
            return Err(Failure::AtWork { agent: id.clone() });
        };
        let subject = AgentWork::of_agent(context, id, &Places::default())?;
        let kept = context.database.open()?;
        recover::record_interruption(&kept, id, &directory)?;
        let earlier = kept.with(async |store| store.attempts(Some(id)).await)?;
        Ok(Self { subject, id: id.clone(), directory, kept, earlier, lock })
    }

    /// Runs the agent once, to its end.
    pub fn attempt(
        &mut self,
        start: &Start,
        options: &AttemptOptions,
        observer: &dyn RunObserver,
        begun: impl FnOnce(&Handle),
    ) -> Result<AttemptOutcome, Failure> {
        self.may_begin(start)?;
        claiming::take_again(&self.subject, &self.id, options.if_closed)?;
        self.require_open(options)?;
        let view = observer.view(&self.directory);
        let prepared = assign::prepare(self, start, options)?;
        if !options.quiet && self.earlier.is_empty() {
            self.note_default_budget(&prepared.budget);
        }
        let server_secrets = prepared.server_secrets.clone();
        let mut attempt = self.begin(&prepared)?;
        // Only now: the process that finds an attempt that was cut off removes them.
        let files = granted::Files::write(&self.directory, &prepared.files);
        view.phase(Phase::Proving);
        let went = files.and_then(|files| {
            let result = self.run_self_test(&prepared, &mut attempt)?;
            if result == SelfTestResult::Passed {
                self.note(EventKind::Phase { phase: Phase::Proving })?;
            }
            // The last look before it can be stopped by a request to its supervisor.
            self.require_open(options)?;
            view.phase(Phase::Working);
            attempt.phase = Phase::Working;
            self.kept.update(&attempt)?;
            self.note(EventKind::Phase { phase: Phase::Working })?;
            let outcome = self.supervise(prepared, &attempt, view, |handle| {
                begun(&handle);
                observer.started(handle);
            });
            drop(files);
            outcome
        });
        managed::forget(&self.directory.home(), &server_secrets);
        match went {
            Ok(outcome) => {
                self.end(attempt, &outcome)?;
                Ok(outcome)
            }
            Err(failure) => {
                attempt.phase = Phase::Over;
                attempt.ending.get_or_insert(ExitReason::Failed);
                attempt.detail = failure.to_string();
                attempt.ended_at = Some(system::now_ms());
                self.kept.update(&attempt)?;
                Err(failure)
            }
        }
    }

    /// Returns an error if the agent's parent no longer waits for it.
    fn require_open(&self, options: &AttemptOptions) -> Result<(), Failure> {
        match options.if_closed {
            IfClosed::Begin => Ok(()),
            IfClosed::Refuse => agent_state::require_open(&self.subject.context, &self.id),
        }
    }

    /// Whether an agent may be started at all.
    fn may_begin(&self, start: &Start) -> Result<(), Failure> {
        let Some(run) = &self.subject.run else {
            return Err(Failure::general(format!("`{}` is not in the ledger", self.id)));
        };
        require_not_quarantined(&self.id, &self.earlier)?;
        // A resumed conversation repeats earlier calls. Their inputs were not recorded, so they cannot be compared.
        let goes_on = matches!(start, Start::Resume(_)) && self.session().is_some();
        if goes_on && self.audit_level()? < AuditLevel::Inputs {
            return Err(Failure::refused(format!(
                "`{}` cannot be taken up again: its auditLevel is `metadata`, so that nobody could tell which \
                 calls were decided",
                self.id
            ))
            .help("try it again, or write `auditLevel: inputs` or more in its tool profile"));
        }
        // One that is done can be told something more, as long as it has neither landed nor was rejected.
        let again = matches!(start, Start::Resume(_)) && run.status == RunStatus::Done;
        if (run.status != RunStatus::Running && !again) || run.half_spawned {
            let text = format!("`{}` is {}, and cannot be started again", self.id, run.state);
            return Err(Failure::refused(text).help(next_step_hint(run)));
        }
        match (start, self.earlier.last()) {
            (Start::Fresh, Some(_)) => {
                Err(Failure::refused(format!("`{}` has run already", self.id))
                    .help(format!("resume it: bailiwick resume {}", self.id)))
            }
            // It may have been killed between its spawn and its first attempt.
            (Start::Fresh, None) | (Start::Resume(_), Some(_) | None) => Ok(()),
        }
    }

    fn begin(&self, prepared: &assign::Prepared) -> Result<Attempt, Failure> {
        let assignment = &prepared.assignment;
        let mut attempt = Attempt {
            run: self.id.clone(),
            number: 0,
            cli: prepared.adapter.name().to_owned(),
            version: assignment.version.clone(),
            model: assignment.model.clone().unwrap_or_default(),
            login: assignment.login.as_str().to_owned(),
            sandbox: prepared.enclosure.level.as_str().to_owned(),
            session: match &assignment.session {
                Conversation::Resume(id) => Some(id.clone()),
                Conversation::New(_) => None,
            },
            phase: Phase::Proving,
            ending: None,
            detail: String::new(),
            exhausted: None,
            started_at: system::now_ms(),
            ended_at: None,
            used: Used::default(),
            budget: prepared.budget,
        };
        attempt.number = self.kept.with(async |store| store.begin_attempt(&attempt).await)?;
        Ok(attempt)
    }

    fn run_self_test(
        &self,
        prepared: &assign::Prepared,
        attempt: &mut Attempt,
    ) -> Result<SelfTestResult, Failure> {
        let kept = self.subject.context.state.join("canaries");
        let scratch = RunDirectory::new(self.directory.path(), "canary");
        supervisor::run_self_test(
            prepared.adapter.as_ref(),
            &prepared.assignment,
            &prepared.enclosure,
            (&kept, &scratch),
            || {},
        )
        .map_err(|error| {
            // A self-test that could not run is no evidence against earlier work, so that work is not lost.
            attempt.ending = Some(match error.why {
                SelfTestError::Lost(_) => ExitReason::EnforcementLost,
                SelfTestError::NotAttempted(_) => ExitReason::Failed,
            });
            Failure::general(error.to_string())
                .help("no agent was started; `bailiwick doctor` checks this machine")
        })
    }

    fn supervise(
        &self,
        prepared: assign::Prepared,
        attempt: &Attempt,
        mut view: Box<dyn RunView>,
        begun: impl FnOnce(Handle),
    ) -> Result<AttemptOutcome, Failure> {
        let compiled = policy_file::recorded(&self.directory)?;
        let settings = &self.subject.settings;
        let task = &self.subject.bound.task;
        let earlier = self.all_events()?;
        let delegates = prepared.assignment.mcp_servers.contains_key(OWN_SERVER);
        let level = prepared.enclosure.level;
        let login = prepared.assignment.login;
        let mut all = compiled.policy.all();
        let fail_fast = all.any(|policy| policy.escalation == EscalationPolicy::FailFast);
        drop(all);
        let checks = self.per_call_checks(&compiled.policy.checks_per_call, level)?;
        let forbidden_files = self.forbidden_files(&compiled.policy, &prepared)?;
        let judge = PolicyJudge {
            worktree: prepared.assignment.worktree.clone(),
            home: prepared.assignment.home.clone(),
            enforcement: enforcement(level),
            servers: prepared.assignment.mcp_servers.keys().cloned().collect(),
            log: Mutex::new(self.directory.decisions()),
            redaction: prepared.assignment.hidden.clone(),
            digest: compiled.digest,
            policy: compiled.policy,
        };
        let (kept, run) = (Arc::clone(&self.kept), self.id.clone());
        let told = Arc::clone(&self.kept);
        let mut standing = attempt.clone();
        let before = used(&self.earlier);
        let sinks = Sinks {
            events: Box::new(DatabaseEvents { kept, run }),
            show: Box::new(move |event| view.show(event)),
            progress: Box::new(move |progress| {
                apply(&mut standing, progress, &before);
                // It is written again soon, and at the end.
                let _ = told.update(&standing);
            }),
        };
        let supervision = Supervision {
            models: prepared.assignment.models(prepared.adapter.as_ref()),
            directory: self.directory.clone(),
            adapter: prepared.adapter,
            redaction: prepared.assignment.hidden.clone(),
            assignment: prepared.assignment,
            enclosure: prepared.enclosure,
            upstream: prepared.upstream,
            hosts: task.agent.hosts.iter().map(ToString::to_string).collect(),
            budget: Budget(prepared.budget),
            used: used(&self.earlier),
            time: self.earlier.iter().map(took).fold(0, u64::saturating_add),
            prices: Prices::new(settings.prices.clone()),
            audit_level: self.audit_level()?,
            judge: Arc::new(judge),
            checks,
            forbidden_files,
            fail_fast,
            announces_limit: prepared.announces_limit,
            idle: task
                .agent
                .idle_minutes
                .map_or(IDLE_TIMEOUT, |minutes| Duration::from_secs(60 * u64::from(minutes))),
            disk: disk(settings),
            approval: settings
                .run
                .approval_seconds
                .map_or(APPROVAL_TIMEOUT, |seconds| Duration::from_secs(u64::from(seconds))),
            delegation: delegates.then(|| self.delegation(level, login) as Arc<dyn Delegation>),
            earlier,
        };
        let outcome = supervisor::supervise(supervision, sinks, begun)
            .map_err(|error| Failure::general(error.to_string()));
        if delegates {
            self.delegation(level, login).end_below();
        }
        outcome
    }

    /// What removes new files that the agent may not make; `None` where it runs without a sandbox, in a
    /// worktree that its setup has written to.
    fn forbidden_files(
        &self,
        policy: &Policy,
        prepared: &assign::Prepared,
    ) -> Result<Option<Arc<dyn ForbiddenFiles>>, Failure> {
        let paths = PathPolicy::of(policy);
        let writes = prepared.enclosure.access != WorktreeAccess::ReadOnly;
        if paths.is_unlimited() || !writes || prepared.enclosure.level == Level::Off {
            return Ok(None);
        }
        let worktree = prepared.assignment.worktree.clone();
        let AgentWork { repository, base, .. } = &self.subject;
        let files = NewFiles::new(repository, base, worktree, &self.directory, paths)
            .map_err(|error| Failure::general(error.to_string()))?;
        Ok(Some(Arc::new(files)))
    }

    /// The checks of its tree between calls; `None` if no check runs per call.
    fn per_call_checks(
        &self,
        names: &[String],
        level: Level,
    ) -> Result<Option<Arc<dyn TreeChecks>>, Failure> {
        if names.is_empty() {
            return Ok(None);
        }
        let subject = AgentWork::of_agent(&self.subject.context, &self.id, &Places::default())?;
        Ok(Some(Arc::new(TreeChecker::new(subject, names, level.into(), None)?)))
    }

    /// Answers the agent's delegation calls. The agents that it starts use the same login.
    fn delegation(&self, level: Level, login: Login) -> Arc<DelegationService> {
        let how = RunOptions {
            land: Some(AutoLand::Never),
            no_verify: false,
            sandbox: level.into(),
            login: Some(login),
            allow_setup: false,
        };
        let context = self.subject.context.clone();
        let caller = Some(self.id.clone());
        Arc::new(DelegationService {
            context,
            caller,
            root: None,
            limits: Allowance::default(),
            how,
        })
    }

    /// Reports the default budget of a run whose task names none.
    fn note_default_budget(&self, budget: &Allowance) {
        let stated = &self.subject.bound.task.budget;
        if let (true, Some(tokens), Some(turns)) =
            (Budget::is_default(stated), budget.tokens, budget.turns)
        {
            self.subject.context.notices.note(format_args!(
                "the task has no budget, so it may use {tokens} tokens and {turns} turns; change that \
                 under [budget]"
            ));
        }
    }

    /// Records how an attempt ended.
    fn end(&mut self, mut attempt: Attempt, outcome: &AttemptOutcome) -> Result<(), Failure> {
        apply(&mut attempt, &outcome.progress, &used(&self.earlier));
        attempt.phase = Phase::Over;
        attempt.ending = Some(outcome.ending);
        attempt.detail.clone_from(&outcome.detail);
        attempt.exhausted = outcome.exhausted;
        attempt.ended_at = Some(system::now_ms());
        self.kept.update(&attempt)?;
        let status = match outcome.ending {
            ExitReason::Completed => Some(RunStatus::Done),
            ExitReason::EnforcementLost | ExitReason::Denied => Some(RunStatus::Failed),
            // It can be resumed.
            ExitReason::Failed
            | ExitReason::Stopped
            | ExitReason::TimedOut
            | ExitReason::BudgetExhausted
            | ExitReason::CutOff => None,
        };
        // A message that the agent has not received keeps the run open.
        let heard = outcome.messages.is_empty() || outcome.ending != ExitReason::Completed;
        let open = self.subject.run.as_ref().is_some_and(|run| run.status == RunStatus::Running);
        if let Some(status) = status.filter(|_| heard && open) {
            use bailiwick_lifecycle::ports::RunStore as _;
            let summary = format!("{}: {}", outcome.ending, first_line(&outcome.detail));
            self.kept
                .with(async |store| store.change_status(&self.id, status, Some(&summary)).await)?;
        }
        self.earlier.push(attempt);
        Ok(())
    }

    /// New files outside of the agent's scope, which do not land.
    pub fn left_out(&self) -> Result<Vec<String>, Failure> {
        forbidden_files::left_out(&self.subject.worktree, &self.directory)
            .map_err(|error| Failure::general(error.to_string()))
    }

    /// Imports the commits of an agent that may commit.
    ///
    /// If they are not valid, this is reported, and they are not imported. The files stay in the worktree.
    pub fn import(&self) -> Result<(), Failure> {
        let layer = self.directory.git_layer().join("common");
        if !layer.join("upper").is_dir() {
            return Ok(());
        }
        match self.subject.git_work()?.import(&layer) {
            Ok(Imported::Nothing | Imported::Commits { .. }) => Ok(()),
            Ok(Imported::Deleted) => {
                let message = "the agent deleted its branch; its commits were not taken".to_owned();
                self.note(EventKind::Error { message })
            }
            Err(error) => {
                let message = format!("the agent's commits were not taken: {error}");
                self.subject.context.notices.note(&message);
                self.note(EventKind::Error { message })
            }
        }
    }

    /// Stores an event.
    pub fn note(&self, what: EventKind) -> Result<(), Failure> {
        self.note_all([what])
    }

    /// Stores events in one transaction.
    pub fn note_all(&self, all: impl IntoIterator<Item = EventKind>) -> Result<(), Failure> {
        Ok(self.kept.note(&self.id, all)?)
    }

    fn all_events(&self) -> Result<Vec<Event>, Failure> {
        if self.earlier.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.kept.with(async |store| store.run_events(&self.id, 0, u32::MAX).await)?)
    }

    /// How much of each call is recorded; everything where no control plane says otherwise.
    fn audit_level(&self) -> Result<AuditLevel, Failure> {
        let managed = managed::Managed::of(&self.directory)?;
        Ok(managed.map(|managed| managed.audit_level).unwrap_or_default())
    }

    /// The conversation of the last attempt.
    fn session(&self) -> Option<&str> {
        self.earlier.iter().rev().find_map(|attempt| attempt.session.as_deref())
    }

    /// How it is paid for: as a person says now, else as in the last attempt, else as the task says.
    fn login(&self, named: Option<Login>) -> Login {
        let last = self.earlier.last().and_then(|attempt| Login::parse(&attempt.login));
        named.or(last).unwrap_or(self.subject.bound.task.agent.login)
    }

    /// How many answers of its model earlier attempts have had.
    pub fn turns(&self) -> u64 {
        used(&self.earlier).turns
    }

    /// What earlier attempts were allowed, the last of them.
    fn allowed(&self) -> Option<Allowance> {
        self.earlier.last().map(|attempt| attempt.budget)
    }

    /// Unlocks the run.
    pub fn release(self) -> (AgentWork, AgentId) {
        drop(self.lock);
        (self.subject, self.id)
    }

    /// Where the agent works.
    pub fn worktree(&self) -> &Path {
        &self.subject.worktree
    }
}

/// What can be done with a run of which no agent is running.
pub fn next_step_hint(run: &Run) -> String {
    let id = &run.id;
    match run.state {
        RunState::HalfSpawned => {
            format!("its spawn was interrupted; continue: bailiwick spawn TASK --agent-id {id}")
        }
        RunState::Ready => format!("start it: bailiwick run {id}"),
        RunState::Running => format!("resume it: bailiwick resume {id}"),
        RunState::Done => format!("check its work, and land it: bailiwick land {id}"),
        RunState::Merged => {
            format!(
                "to undo it: bailiwick rollback {id}; after that, bailiwick respawn {id} tries again"
            )
        }
        RunState::Failed | RunState::RolledBack | RunState::Rejected => {
            format!("a new run of its task: bailiwick respawn {id}")
        }
    }
}

/// Returns an error if a limit may not have held in an attempt, or if its role ended it: nothing more comes
/// of such a run.
fn require_not_quarantined(id: &AgentId, attempts: &[Attempt]) -> Result<(), Failure> {
    let bad = |attempt: &&Attempt| {
        matches!(attempt.ending, Some(ExitReason::EnforcementLost | ExitReason::Denied))
    };
    let Some(attempt) = attempts.iter().find(bad) else { return Ok(()) };
    let ending = attempt.ending.map(ExitReason::as_str).unwrap_or_default();
    Err(Failure::refused(format!(
        "`{id}` is quarantined ({ending}): {}",
        first_line(&attempt.detail)
    ))
    .help(format!("a new run of its task: bailiwick respawn {id}")))
}

/// Returns an error if the work of a run may not land by what its attempts were: only one that came to its
/// end, under limits that held, may. Work without an attempt is judged by its checks alone.
pub fn require_landable(context: &Context, id: &AgentId) -> Result<(), Failure> {
    let attempts = context.with_store(async |store| Ok(store.attempts(Some(id)).await?))?;
    require_not_quarantined(id, &attempts)?;
    match attempts.last().map(|attempt| attempt.ending) {
        None | Some(Some(ExitReason::Completed)) => Ok(()),
        Some(ending) => {
            let ending = ending.map_or("working", ExitReason::as_str);
            Err(Failure::refused(format!(
                "`{id}` cannot land: the last attempt was stopped ({ending})"
            ))
            .help(format!("resume it: bailiwick resume {id}")))
        }
    }
}

/// What enforces the limits on paths of a run: only the full sandbox can decide what a command's text does not.
fn enforcement(level: Level) -> Enforcement {
    match level {
        Level::Full => Enforcement::Kernel,
        Level::Partial | Level::Off => Enforcement::TextOnly,
    }
}

/// The same for the level that was recorded with an attempt; an unknown one is trusted with nothing.
pub(crate) fn recorded_enforcement(level: Option<&str>) -> Enforcement {
    match level {
        Some(level) if level == Level::Full.as_str() => enforcement(Level::Full),
        Some(_) | None => enforcement(Level::Off),
    }
}

/// What attempts have used together.
fn used(attempts: &[Attempt]) -> Used {
    attempts.iter().fold(Used::default(), |sum, attempt| Used {
        tokens: sum.tokens.saturating_add(attempt.used.tokens),
        micro_usd: sum.micro_usd.saturating_add(attempt.used.micro_usd),
        turns: sum.turns.saturating_add(attempt.used.turns),
        tool_calls: sum.tool_calls.saturating_add(attempt.used.tool_calls),
        denied: sum.denied.saturating_add(attempt.used.denied),
    })
}

fn took(attempt: &Attempt) -> u64 {
    attempt.ended_at.map_or(0, |ended| ended.saturating_sub(attempt.started_at))
}

/// Progress counts what earlier attempts have used; an attempt only what is its own.
fn apply(attempt: &mut Attempt, progress: &Progress, before: &Used) {
    attempt.used = Used {
        tokens: progress.used.tokens.saturating_sub(before.tokens),
        micro_usd: progress.used.micro_usd.saturating_sub(before.micro_usd),
        turns: progress.used.turns.saturating_sub(before.turns),
        tool_calls: progress.used.tool_calls.saturating_sub(before.tool_calls),
        denied: progress.used.denied.saturating_sub(before.denied),
    };
    attempt.budget = progress.budget;
    if progress.session.is_some() {
        attempt.session.clone_from(&progress.session);
    }
    if !progress.model.is_empty() {
        attempt.model.clone_from(&progress.model);
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
