//! Runs an agent, from a spawned task to its end.
//!
//! ```text
//! attempt        one attempt: checks whether it may begin, proves the sandbox, and records its end
//! supervision    what the supervisor of an attempt gets
//! usage          what attempts have used
//! next_steps     what can be done with a run: resume, land, respawn
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
mod attempt;
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
mod next_steps;
pub mod observer;
pub mod preloads;
pub mod recover;
pub mod run_list;
pub mod sandbox_plan;
pub mod service;
pub mod skill_files;
pub mod skill_packages;
pub mod spawn_to_run;
mod supervision;
pub mod tree_checks;
mod usage;
pub mod versions;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_model::attempt::{Allowance, Attempt};
use bailiwick_model::event::EventKind;
use bailiwick_model::task::Login;
use bailiwick_model::{AgentId, Event};
use bailiwick_resources::AuditLevel;
use bailiwick_runner::checks::OpenSetup;
use bailiwick_runner::supervisor::{RunDirectory, RunLock};
use bailiwick_source_control::git::Imported;

use crate::context::Context;
use crate::database::OpenDatabase;
use crate::failure::Failure;
use crate::managed;
use crate::options::{IfClosed, SandboxLevel};
use crate::verifying::{AgentWork, WorkOptions};

pub use next_steps::{next_step_hint, require_landable};
pub(crate) use supervision::recorded_enforcement;

/// How often and after which pause a locked run is tried again.
const LOCK_RETRIES: u32 = 10;
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(100);

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
    database: Arc<OpenDatabase>,
    /// Its earlier attempts, oldest first.
    earlier: Vec<Attempt>,
    lock: RunLock,
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
        let subject = AgentWork::of_agent(context, id, &WorkOptions::default())?;
        let database = context.database.open()?;
        recover::record_interruption(&database, id, &directory)?;
        let earlier = database.with(async |store| store.attempts(Some(id)).await)?;
        Ok(Self { subject, id: id.clone(), directory, database, earlier, lock })
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
                self.record_event(EventKind::Error { message })
            }
            Err(error) => {
                let message = format!("the agent's commits were not taken: {error}");
                self.subject.context.notices.note(&message);
                self.record_event(EventKind::Error { message })
            }
        }
    }

    /// Stores an event.
    pub fn record_event(&self, what: EventKind) -> Result<(), Failure> {
        self.record_events([what])
    }

    /// Stores events in one transaction.
    pub fn record_events(&self, all: impl IntoIterator<Item = EventKind>) -> Result<(), Failure> {
        Ok(self.database.record_events(&self.id, all)?)
    }

    fn all_events(&self) -> Result<Vec<Event>, Failure> {
        if self.earlier.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.database.with(async |store| store.run_events(&self.id, 0, u32::MAX).await)?)
    }

    /// How much of each call is recorded; everything where no control plane says otherwise.
    fn audit_level(&self) -> Result<AuditLevel, Failure> {
        let managed = managed::ManagedRunConfig::of(&self.directory)?;
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
        usage::total(&self.earlier).turns
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

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
