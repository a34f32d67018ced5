//! Whether forges answer: each use of a forge has a deadline, and its outcome is a fact in the status of the
//! repository, from which the conditions follow. A slow answer is reported while it is still awaited.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use bailiwick_resources::{ForgeUse, Object, Reason, Repository};

use super::ReconcileError;
use super::objects::ObjectQueries as _;
use super::repository_controller::{Problem, record_use, soon, update_conditions};
use crate::ports::{Clock, FleetError, ObjectStore};

/// How often a report is stored again after a write conflict.
const MAX_TRIES: u32 = 4;

/// How long one use of a forge may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    /// After this time, its repository reports a slow forge, in milliseconds.
    slow_after: u64,
    /// After this time more, the answer is awaited no longer, in milliseconds.
    rest: u64,
}

impl Deadline {
    /// A single answer.
    pub(super) const ANSWER: Self = Self { slow_after: 5_000, rest: 25_000 };
    /// Several pages, a log, or a write with the search for an earlier one.
    pub(super) const SEVERAL: Self = Self { slow_after: 5_000, rest: 115_000 };
    /// A fetch by git, whose own timeout is shorter.
    pub(super) const FETCH: Self = Self { slow_after: 15_000, rest: 885_000 };

    fn seconds(self) -> u64 {
        (self.slow_after + self.rest) / 1_000
    }
}

/// How the wait for an answer ended.
pub(super) enum Waited<T> {
    Answered(T),
    /// The deadline has passed, with a message.
    TimedOut(String),
}

/// Records whether forges answer.
pub(super) struct ForgeHealth<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    /// Problems that this process has stored, because the callers' copies of a repository can be older.
    stored: Mutex<BTreeSet<(String, ForgeUse)>>,
}

impl<S, W> ForgeHealth<S, W> {
    pub(super) fn new(store: Arc<S>, world: Arc<W>) -> Self {
        Self { store, world, stored: Mutex::default() }
    }
}

impl<S: ObjectStore, W: Clock> ForgeHealth<S, W> {
    /// Waits for the answer of a forge, and reports while it is slow.
    pub(super) async fn wait<T>(
        &self,
        repository: &Object<Repository>,
        used_for: ForgeUse,
        deadline: Deadline,
        answer: impl Future<Output = T> + Send,
    ) -> Waited<T> {
        let mut answer = pin!(answer);
        if let Some(answer) = first(answer.as_mut(), self.world.timer(deadline.slow_after)).await {
            return Waited::Answered(answer);
        }
        let why = format!(
            "no answer for {} seconds; check the forge and the network between it and this machine",
            deadline.slow_after / 1_000
        );
        self.report(repository, used_for, Some(Problem::new(Reason::ForgeSlow, why))).await;
        match first(answer, self.world.timer(deadline.rest)).await {
            Some(answer) => Waited::Answered(answer),
            None => {
                let why = format!(
                    "no answer within {} seconds; check the forge and the network between it and \
                     this machine",
                    deadline.seconds()
                );
                let problem = Problem::new(Reason::ForgeSlow, why.clone());
                self.report(repository, used_for, Some(problem)).await;
                Waited::TimedOut(why)
            }
        }
    }

    /// Reports how a use of a forge ended, if that is news.
    pub(super) async fn report(
        &self,
        repository: &Object<Repository>,
        used_for: ForgeUse,
        problem: Option<Problem>,
    ) {
        let name = repository.name();
        let known = repository.status.forge_problems.iter().any(|one| one.used_for == used_for);
        let stored = || self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), used_for);
        if problem.is_none() && !known && !stored().contains(&key) {
            return;
        }
        let works = problem.is_none();
        // The operation itself matters more: a report that cannot be stored is repeated by the next use.
        if self.store_report(name, used_for, problem).await.is_ok() {
            match works {
                true => stored().remove(&key),
                false => stored().insert(key),
            };
        }
    }

    /// Reports that a forge has answered at all: what it refused before stays.
    pub(super) async fn report_answer(&self, repository: &Object<Repository>, used_for: ForgeUse) {
        let stored = self.store.typed::<Repository>(repository.name()).await.ok().flatten();
        let is_silence = |reason| matches!(reason, Reason::ForgeSlow | Reason::ForgeUnreachable);
        let problems = stored.iter().flat_map(|one| &one.status.forge_problems);
        let mut ours = problems.filter(|one| one.used_for == used_for);
        if ours.any(|one| is_silence(one.reason)) {
            self.report(repository, used_for, None).await;
        }
    }

    async fn store_report(
        &self,
        name: &str,
        used_for: ForgeUse,
        problem: Option<Problem>,
    ) -> Result<(), ReconcileError> {
        let mut tries = 0;
        loop {
            let Some(mut now) = self.store.typed::<Repository>(name).await? else { return Ok(()) };
            let before = now.status.clone();
            record_use(&mut now.status, used_for, problem.clone());
            if now.status == before {
                return Ok(());
            }
            if before.forge_problems.is_empty() && now.status.observed_at.is_some() {
                // It is soon observed whether the forge answers again.
                now.status.observed_at = Some(soon(self.world.now()));
            }
            update_conditions(&mut now, self.world.now());
            match self.store.store_status(&now, self.world.now()).await {
                Err(ReconcileError::Store(FleetError::Conflict { .. })) if tries < MAX_TRIES => {
                    tries += 1;
                }
                stored => return stored.map(drop),
            }
        }
    }
}

/// The result of `work`, or nothing if the timer fires first.
pub(super) async fn first<T>(
    mut work: Pin<&mut impl Future<Output = T>>,
    timer: impl Future<Output = ()>,
) -> Option<T> {
    let mut timer = pin!(timer);
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        timer.as_mut().poll(context).map(|()| None)
    })
    .await
}
