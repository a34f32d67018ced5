//! Jobs that run beside the passes. A pass waits a moment for each job that it starts; a longer job finishes in the
//! background, the pass continues, and a later pass collects the result. An object with a running job is not started
//! a second time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bailiwick_resources::Moment;

use super::ReconcileError;
use super::forge_health::first;
use super::summary::Task;
use crate::ports::{Clock, WorldError};

/// How long a pass waits for one job, in milliseconds.
const MAX_WAIT: u64 = 100;
/// How many slow jobs of one controller run in parallel. They never delay others.
const MAX_SLOW_JOBS: usize = 16;

/// After this time a job is reported, in milliseconds: every request in it has a shorter deadline.
const OVERDUE: u64 = 20 * 60 * 1_000;

/// Identifies a job: no two jobs with the same key run at the same time.
pub(super) type JobKey = (Task, String);

/// The work of a job. It is boxed, because a pass would otherwise need stack space for each.
pub(super) type JobFuture = Pin<Box<dyn Future<Output = Result<bool, ReconcileError>> + Send>>;

/// The result of a job for one object.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) task: Task,
    /// The object that backs off after a failure.
    pub(super) name: String,
    pub(super) result: Result<bool, ReconcileError>,
}

/// The jobs of a control plane.
#[derive(Debug, Default)]
pub(super) struct BackgroundJobs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<JobKey, Moment>,
    /// Jobs of these keys took long the last time, so that no pass waits for them; and when that was.
    slow: BTreeMap<JobKey, Moment>,
    finished: Vec<Finished>,
    /// Overdue jobs that were reported.
    reported: BTreeSet<JobKey>,
    waiting: Vec<Waker>,
}

#[derive(Debug)]
struct Finished {
    key: JobKey,
    outcome: Outcome,
}

/// Delivers the outcome of a job, also if the job panics.
struct DeliverOnDrop {
    jobs: Arc<BackgroundJobs>,
    finished: Option<Finished>,
}

impl Drop for DeliverOnDrop {
    fn drop(&mut self) {
        let mut state = self.jobs.state();
        state.finished.extend(self.finished.take());
        state.waiting.drain(..).for_each(Waker::wake);
    }
}

impl BackgroundJobs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a job with this key is running, or its outcome was not collected.
    pub(super) fn is_running(&self, task: Task, name: &str) -> bool {
        let state = self.state();
        !state.running.is_empty() && state.running.contains_key(&(task, name.to_owned()))
    }

    /// Runs a job, unless one of the same key is running, and waits for it a moment.
    pub(super) async fn run<W: Clock>(
        self: &Arc<Self>,
        world: &Arc<W>,
        key: JobKey,
        name: String,
        work: JobFuture,
    ) {
        let Some(is_slow) = self.start(&key, world.now()) else { return };
        let task = key.0;
        let run = task.is_about_a_run().then(|| name.clone());
        let panicked = Err(ReconcileError::World(WorldError::Panicked));
        let outcome = Outcome { task, name, result: panicked };
        let finished = Some(Finished { key: key.clone(), outcome });
        let mut delivery = DeliverOnDrop { jobs: Arc::clone(self), finished };
        let (clock, begun) = (Arc::clone(world), world.now());
        let job = Box::pin(async move {
            let result = work.await;
            if let Some(finished) = &mut delivery.finished {
                finished.outcome.result = result;
                let took = clock.now().millis().saturating_sub(begun.millis());
                if took <= MAX_WAIT {
                    delivery.jobs.state().slow.remove(&finished.key);
                }
            }
        });
        if let Some(job) = world.spawn(run.as_deref(), job) {
            job.await;
        } else if !is_slow {
            let finished = self.wait_for(|state| state.has_finished(&key));
            if first(pin!(finished), world.timer(MAX_WAIT)).await.is_none() {
                self.state().slow.insert(key, begun);
            }
        }
    }

    /// Marks a job as running. Nothing if it must not start; else whether it is one that took long.
    fn start(&self, key: &JobKey, now: Moment) -> Option<bool> {
        let mut state = self.state();
        let is_slow = state.slow.contains_key(key);
        let running = state.running.keys().filter(|(task, _)| *task == key.0);
        if state.running.contains_key(key) || (is_slow && running.count() >= MAX_SLOW_JOBS) {
            return None;
        }
        state.running.insert(key.clone(), now);
        Some(is_slow)
    }

    /// Collects the outcomes of finished jobs.
    pub(super) fn take_finished(&self) -> Vec<Outcome> {
        let mut state = self.state();
        let finished = std::mem::take(&mut state.finished);
        for one in &finished {
            state.running.remove(&one.key);
            state.reported.remove(&one.key);
        }
        finished.into_iter().map(|one| one.outcome).collect()
    }

    /// The jobs that have not finished for very long, each once.
    pub(super) fn take_overdue(&self, now: Moment) -> Vec<String> {
        let mut state = self.state();
        // Objects that are gone are forgotten.
        state.slow.retain(|_, since| now <= since.plus_millis(OVERDUE));
        let State { running, reported, .. } = &mut *state;
        let overdue = running.iter().filter(|(_, begun)| now > begun.plus_millis(OVERDUE));
        let news = overdue.filter(|(key, _)| reported.insert((*key).clone()));
        news.map(|((_, name), _)| name.clone()).collect()
    }

    /// Waits for a finished job whose outcome was not collected.
    pub(super) async fn wait_for_finished(&self) {
        self.wait_for(|state| !state.finished.is_empty()).await;
    }

    async fn wait_for(&self, is_met: impl Fn(&State) -> bool) {
        poll_fn(|context| {
            let mut state = self.state();
            if is_met(&state) {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                state.waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl State {
    fn has_finished(&self, key: &JobKey) -> bool {
        self.finished.iter().any(|one| one.key == *key)
    }
}
