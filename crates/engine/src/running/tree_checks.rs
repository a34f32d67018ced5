//! The checks that run after each tool call, on the agent's current tree.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_lifecycle::ports::{
    Base, ChecksNotRun, Preparation, Snapshot, TreeChecks, Work as _, WorkError,
};
use bailiwick_lifecycle::verification::{self, CheckResult, PlannedCheck};
use bailiwick_model::capability::RunMode;
use bailiwick_runner::process::Cancellation;

use crate::failure::Failure;
use crate::options::{CheckOptions, SandboxLevel};
use crate::verifying::AgentWork;

/// How often the tree is read before this is an error: a file can disappear while it is read.
const SNAPSHOT_TRIES: u32 = 3;
/// The pause before the tree is read again.
const PAUSE: Duration = Duration::from_millis(200);
/// The maximum time that a call waits, however long the checks take.
const MAX_TIME: Duration = Duration::from_hours(24);

/// Runs the per-call checks of one agent, one at a time.
pub struct TreeChecker {
    subject: Mutex<AgentWork>,
    checks: Vec<PlannedCheck>,
    options: CheckOptions,
    /// What the tree is compared with; by default the branch that it lands on.
    base: Option<Base>,
    time: Duration,
}

impl TreeChecker {
    /// The checks of these names. It is an error if the role does not have one of them.
    pub fn new(
        subject: AgentWork,
        names: &[String],
        sandbox: SandboxLevel,
        base: Option<Base>,
    ) -> Result<Self, Failure> {
        let refused = |error: verification::NoCheck| Failure::general(error.to_string());
        let all = verification::of_role(&subject.bound.capabilities).map_err(refused)?;
        let marked = |name: &String| -> Result<PlannedCheck, Failure> {
            let named = |planned: &&PlannedCheck| planned.check.capability.to_string() == *name;
            let planned = all.iter().find(named).cloned().ok_or_else(|| {
                let role = &subject.bound.role.name;
                Failure::general(format!("role {role} has no check of {name}, which is to run"))
            })?;
            // There is nothing to merge yet.
            Ok(PlannedCheck { on: RunMode::Worktree, ..planned })
        };
        let checks = names.iter().map(marked).collect::<Result<Vec<_>, _>>()?;
        let options =
            CheckOptions { ignore_stored_verdicts: false, sandbox, ..CheckOptions::default() };
        let Preparation { prefetch, setup, .. } = Preparation::of(&subject.bound.task);
        let commands = checks.len().saturating_add(prefetch.len()).saturating_add(setup.len());
        let commands = u32::try_from(commands).unwrap_or(u32::MAX);
        let time = subject.time_of_a_check().saturating_mul(commands).min(MAX_TIME);
        Ok(Self { subject: Mutex::new(subject), checks, options, base, time })
    }

    fn subject(&self) -> MutexGuard<'_, AgentWork> {
        // It is only read.
        self.subject.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn base(&self, subject: &AgentWork) -> Result<Base, WorkError> {
        match (&self.base, &subject.work) {
            (Some(base), _) => Ok(base.clone()),
            (None, Ok(work)) => work.base(),
            (None, Err(error)) => Err(error.clone()),
        }
    }

    fn take_snapshot(&self) -> Result<Snapshot, WorkError> {
        let subject = self.subject();
        let work = subject.work.as_ref().map_err(Clone::clone)?;
        work.snapshot(&self.base(&subject)?)
    }
}

impl TreeChecks for TreeChecker {
    fn snapshot(&self) -> Result<Snapshot, WorkError> {
        for _ in 1..SNAPSHOT_TRIES {
            if let Ok(work) = self.take_snapshot() {
                return Ok(work);
            }
            std::thread::sleep(PAUSE);
        }
        self.take_snapshot()
    }

    fn check(
        &self,
        work: &Snapshot,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Vec<CheckResult>, ChecksNotRun> {
        let subject = self.subject();
        let base = self.base(&subject)?;
        let until = Cancellation {
            cancelled: Arc::clone(cancelled),
            deadline: Some(Instant::now() + self.time),
        };
        subject
            .check_tree(self.checks.clone(), self.options, until, (&base, work))
            .map_err(|failure| ChecksNotRun::Check(failure.into()))
    }

    fn time(&self) -> Duration {
        self.time
    }
}
