//! The work of a worker is put into the worktree of its agent on the server, and checked there as that of any other
//! agent. Nothing that the worker says about it is believed: what changed is computed from the commits.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_fleet::workers::{FinishReport, QueuedState, WorkerAttempt};
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_lifecycle::verification::Verification;
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::capability::RunMode;
use bailiwick_model::event::{ExitReason, Phase};
use bailiwick_model::{AgentId, RunStatus};
use bailiwick_source_control::SpawnLock;

use super::evidence::{self, JobLimits, JobsHere, WorkerEvidence};
use super::receiving::{self, CheckError, Refusal};
use crate::context::Context;
use crate::failure::Failure;
use crate::options::{CheckOptions, RunOptions};
use crate::verifying::{AgentWork, WorkOptions};
use crate::{launched_for, system};

/// How many pieces of work are checked at the same time.
const MAX_AT_ONCE: usize = 2;
/// How long a check that this machine could not make rests.
const RETRY_DELAY: Duration = Duration::from_secs(30);
/// How long a check rests that waits for workers.
const WAITING_DELAY: Duration = Duration::from_secs(1);
/// How often work is tried that may be the reason why it cannot be read here.
const MAX_TRIES: u32 = 3;

const PANICKED: &str = "internal error (see the server log)";

/// The agents whose work is being checked, each on a thread of its own. What a stopped server had not finished is
/// done again.
#[derive(Default)]
pub(super) struct WorkChecks {
    agents: Arc<Mutex<Agents>>,
}

#[derive(Default)]
struct Agents {
    running: BTreeSet<String>,
    /// Those whose last check did not complete.
    paused: BTreeMap<String, PausedCheck>,
    /// How often the work of an agent could not be read, for a reason that may be in the work.
    undecided: BTreeMap<String, u32>,
}

struct PausedCheck {
    at: Instant,
    rest: Duration,
    why: String,
}

impl Agents {
    /// Whether the work of an agent is to be checked now.
    fn begin(&mut self, agent: &str, now: Instant) -> bool {
        let rests = self
            .paused
            .get(agent)
            .is_some_and(|paused| now.saturating_duration_since(paused.at) < paused.rest);
        !rests && self.running.len() < MAX_AT_ONCE && self.running.insert(agent.to_owned())
    }

    fn end(&mut self, agent: &str, paused: Option<PausedCheck>) {
        self.running.remove(agent);
        match paused {
            Some(paused) => drop(self.paused.insert(agent.to_owned(), paused)),
            None => {
                self.paused.remove(agent);
                self.undecided.remove(agent);
            }
        }
    }

    /// Counts that the work of an agent could not be read, for a reason that may be in the work; whether it was tried
    /// often enough.
    fn count_undecided(&mut self, agent: &str) -> bool {
        let tries = self.undecided.entry(agent.to_owned()).or_default();
        *tries += 1;
        *tries >= MAX_TRIES
    }
}

impl WorkChecks {
    /// Starts to check the work of an attempt, unless that is under way already.
    pub(super) fn start(
        &self,
        context: &Context,
        attempt: WorkerAttempt,
        lease_millis: u64,
    ) -> Result<(), Failure> {
        if !locked(&self.agents).begin(&attempt.agent, Instant::now()) {
            return Ok(());
        }
        let (context, agents) = (context.clone(), Arc::clone(&self.agents));
        let agent = attempt.agent.clone();
        let name = format!("check-{agent}");
        let started = std::thread::Builder::new().name(name).spawn(move || {
            let mut slot = CheckSlot::new(Arc::clone(&agents), attempt.agent.clone());
            let span = tracing::info_span!("attempt", attempt = %attempt.agent);
            slot.paused = span.in_scope(|| settle(&context, &attempt, lease_millis, &agents));
        });
        if let Err(error) = started {
            locked(&self.agents).end(&agent, None);
            return Err(Failure::general(format!("no thread can be started: {error}")));
        }
        Ok(())
    }

    /// Why the work of an agent is not checked yet, if it was tried.
    pub(super) fn pause(&self, agent: &str) -> Option<String> {
        locked(&self.agents).paused.get(agent).map(|paused| paused.why.clone())
    }
}

fn locked(agents: &Mutex<Agents>) -> MutexGuard<'_, Agents> {
    agents.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A check that is under way. It has ended when this is dropped, also if its thread panics.
struct CheckSlot {
    agents: Arc<Mutex<Agents>>,
    agent: String,
    paused: Option<PausedCheck>,
}

impl CheckSlot {
    fn new(agents: Arc<Mutex<Agents>>, agent: String) -> Self {
        let paused =
            PausedCheck { at: Instant::now(), rest: RETRY_DELAY, why: PANICKED.to_owned() };
        Self { agents, agent, paused: Some(paused) }
    }
}

impl Drop for CheckSlot {
    fn drop(&mut self) {
        locked(&self.agents).end(&self.agent, self.paused.take());
    }
}

/// What came of it.
enum Checked {
    /// The lock is kept until that is recorded.
    Done { _lock: SpawnLock },
    /// Another process works on it; it is looked at again.
    Busy,
    /// It was settled meanwhile.
    Settled,
    /// It was cancelled meanwhile.
    Cancelled,
    /// Workers have yet to run this number of commands and tests.
    Waits(usize),
}

/// Checks the work and records what came of it. A failure of this machine says nothing about the work: it stays, and
/// is checked again.
fn settle(
    context: &Context,
    attempt: &WorkerAttempt,
    lease_millis: u64,
    agents: &Mutex<Agents>,
) -> Option<PausedCheck> {
    // The work may be the reason for a panic: it is not tried for ever.
    let check = AssertUnwindSafe(|| check(context, attempt, lease_millis));
    let panicked = |_| Err(CheckError::Undecided(Failure::general(PANICKED)));
    let checked = catch_unwind(check).unwrap_or_else(panicked);
    let settled = match &checked {
        Ok(Checked::Busy | Checked::Settled) => return None,
        Ok(Checked::Waits(jobs)) => {
            let why = format!("workers have yet to run commands or tests of its checks: {jobs}");
            return Some(PausedCheck { at: Instant::now(), rest: WAITING_DELAY, why });
        }
        Ok(Checked::Done { .. }) => record(context, attempt, QueuedState::Checked, ""),
        Ok(Checked::Cancelled) => stop(context, attempt),
        Err(CheckError::Refused(refusal)) => {
            record(context, attempt, QueuedState::Refused, &refusal.to_string())
        }
        Err(CheckError::Undecided(failure)) => {
            let why = failure.in_one_line();
            let is_last = locked(agents).count_undecided(&attempt.agent);
            match is_last {
                true => {
                    let refusal = Refusal::Unreadable { tries: MAX_TRIES, why };
                    record(context, attempt, QueuedState::Refused, &refusal.to_string())
                }
                false => Err(why),
            }
        }
        Err(CheckError::Server(failure)) => Err(failure.in_one_line()),
    };
    let why = settled.err()?;
    context.notices.note(format_args!("the work of {} is not checked: {why}", attempt.agent));
    let why = format!("its work cannot be checked now, and is tried again: {why}");
    Some(PausedCheck { at: Instant::now(), rest: RETRY_DELAY, why })
}

/// Ends a cancelled attempt, with the jobs of its checks.
fn stop(context: &Context, attempt: &WorkerAttempt) -> Result<(), String> {
    context
        .with_store(async |store| Ok(store.cancel_checks(&attempt.agent).await?))
        .map_err(|failure| failure.in_one_line())?;
    record(context, attempt, QueuedState::Stopped, "")
}

fn record(
    context: &Context,
    attempt: &WorkerAttempt,
    state: QueuedState,
    detail: &str,
) -> Result<(), String> {
    context
        .with_store(async |store| Ok(store.settle_attempt(&attempt.agent, state, detail).await?))
        .map_err(|failure| failure.in_one_line())
}

fn check(
    context: &Context,
    attempt: &WorkerAttempt,
    lease_millis: u64,
) -> Result<Checked, CheckError> {
    if let Some(ended) = ended(context, attempt)? {
        return Ok(ended);
    }
    let id = AgentId::parse(&attempt.agent).map_err(|error| Failure::general(error.to_string()))?;
    let checkout = launched_for::checkout(&context.state, &id)
        .map_err(|error| Failure::general(format!("cannot read its checkout: {error}")))?;
    let checkout: PathBuf =
        checkout.ok_or_else(|| Failure::general("the checkout of the run is not known"))?;
    let context = Context { directory: checkout, ..context.clone() };
    let finish = attempt.finish.as_ref().ok_or_else(|| Failure::general("it has not ended"))?;
    let claim = finish.work.as_ref().ok_or(Refusal::NoWork)?;
    let subject = AgentWork::of_agent(&context, &id, &WorkOptions::default())?;
    let limits = JobLimits::of(subject.time_of_a_check());
    let open = evidence::open_jobs(&context, attempt, lease_millis, limits)?;
    if open > 0 {
        return Ok(Checked::Waits(open));
    }
    let lock = match subject.lock(&id) {
        Ok(lock) => lock,
        Err(Failure::AtWork { .. } | Failure::Refused { .. }) => return Ok(Checked::Busy),
        Err(failure) => return Err(failure.into()),
    };
    if let Some(ended) = ended(&context, attempt)? {
        return Ok(ended);
    }
    let bundle =
        context.with_store(async |store| Ok(store.work_of_attempt(&attempt.agent).await?))?;
    receiving::receive(&subject, claim, &bundle)?;
    record_attempt(&context, &id, attempt, finish)?;
    subject.recover()?;
    let open_setup = RunOptions::default().open_setup();
    let checks = CheckOptions { open_setup, ..CheckOptions::default() };
    if !evidence::is_permitted(attempt, &subject)
        || !evidence::pool_permits(&context, &attempt.pool)?
    {
        let verification = subject.verify(RunMode::Both, checks, &[], &mut |_| {})?;
        return finish_check(&context, attempt, &subject, &verification, lock);
    }
    // The jobs for workers are queued before any of the others is run here.
    for here in [JobsHere::Wait, JobsHere::Run] {
        let parts = (attempt, &subject, claim);
        let mut evidence = WorkerEvidence::new(&context, parts, lease_millis, here)?;
        let verification = subject.verify_with_evidence(RunMode::Both, checks, &mut evidence)?;
        match (evidence.awaited()?, here) {
            (0, JobsHere::Wait) => {}
            (0, JobsHere::Run) => {
                return finish_check(&context, attempt, &subject, &verification, lock);
            }
            (awaited, _) => return Ok(Checked::Waits(awaited)),
        }
        if let Some(ended) = ended(&context, attempt)? {
            return Ok(ended);
        }
    }
    // Nothing is open after the second pass, which has ended above.
    Ok(Checked::Busy)
}

/// Records the result, unless the attempt has ended otherwise meanwhile.
fn finish_check(
    context: &Context,
    attempt: &WorkerAttempt,
    subject: &AgentWork,
    verification: &Verification,
    lock: SpawnLock,
) -> Result<Checked, CheckError> {
    if let Some(ended) = ended(context, attempt)? {
        return Ok(ended);
    }
    subject.record_verification(verification)?;
    Ok(Checked::Done { _lock: lock })
}

/// How an attempt has ended, if its work does not wait for its check any more: a worktree that has moved on must not be
/// reset.
fn ended(context: &Context, attempt: &WorkerAttempt) -> Result<Option<Checked>, Failure> {
    let row = context.with_store(async |store| Ok(store.queued_attempt(&attempt.agent).await?))?;
    let waiting =
        row.filter(|row| row.state == QueuedState::Finished && row.fence == attempt.fence);
    Ok(match waiting {
        None => Some(Checked::Settled),
        Some(row) if row.is_cancelled => Some(Checked::Cancelled),
        Some(_) => None,
    })
}

/// Records the attempt in the ledger of the server, once.
fn record_attempt(
    context: &Context,
    id: &AgentId,
    attempt: &WorkerAttempt,
    finish: &FinishReport,
) -> Result<(), Failure> {
    let (summary, cost, now) = (&finish.summary, attempt.cost(), system::now_ms());
    let mut record = Attempt {
        run: id.clone(),
        number: 1,
        cli: summary.cli.clone(),
        version: summary.version.clone(),
        model: summary.model.clone(),
        login: summary.login.clone(),
        sandbox: summary.sandbox.clone(),
        session: attempt.report.session.clone(),
        phase: Phase::Over,
        ending: Some(ExitReason::Completed),
        detail: finish.detail.clone(),
        exhausted: None,
        started_at: now,
        ended_at: Some(now),
        used: Used {
            tokens: cost.tokens,
            micro_usd: cost.micro_usd,
            turns: cost.turns,
            tool_calls: cost.tool_calls,
            denied: cost.denied,
        },
        budget: Allowance::default(),
    };
    context.with_store(async |store| {
        let known = store.attempts(Some(id)).await?;
        match known.first() {
            None => record.number = store.begin_attempt(&record).await?,
            // It was recorded before, and its work was not checked.
            Some(known) => (record.number, record.started_at) = (known.number, known.started_at),
        }
        store.update_attempt(&record).await?;
        let run = store.get(id).await?;
        if run.status == RunStatus::Running {
            let worker = format!("completed by the worker {}", attempt.worker);
            store.change_status(id, RunStatus::Done, Some(&worker)).await?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
