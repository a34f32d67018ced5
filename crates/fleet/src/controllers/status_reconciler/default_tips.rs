//! The tips of default branches, as the forges have them: stacks are judged by these commits. The branches of a
//! checkout can be old.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bailiwick_resources::{Object, Repository};

use crate::controllers::forge_health::first;
use crate::ports::{Clock, Commits, FetchError};

/// How long one pass waits for all forges together, in milliseconds.
const MAX_WAIT: u64 = 5_000;
/// How many fetches of one pass run at the same time.
const MAX_PARALLEL: usize = 16;

/// A repository and its default branch.
type TipKey = (String, String);

/// The last known tips of default branches.
pub(super) struct DefaultTips<W> {
    world: Arc<W>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    known: BTreeMap<TipKey, String>,
    /// A fetch that hangs is not started a second time, and no later pass waits for it.
    fetching: BTreeSet<TipKey>,
    waiting: Vec<Waker>,
}

/// Ends a fetch, also if it panics or is dropped.
struct EndOnDrop {
    state: Arc<Mutex<State>>,
    key: TipKey,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.fetching.remove(&self.key);
        state.waiting.drain(..).for_each(Waker::wake);
    }
}

impl<W> DefaultTips<W> {
    pub(super) fn new(world: Arc<W>) -> Self {
        Self { world, state: Arc::default() }
    }

    /// The first of these repositories whose tip is known, with the tip.
    pub(super) fn first_known<'a>(
        &self,
        repositories: &'a [Object<Repository>],
    ) -> Option<(&'a Object<Repository>, String)> {
        let state = lock(&self.state);
        repositories.iter().find_map(|one| Some((one, state.known.get(&key_of(one))?.clone())))
    }
}

impl<W: Clock + Commits> DefaultTips<W> {
    /// Fetches the tip that each of these lists needs: that of its first repository, or of the next one where the
    /// first has none. Each tip is fetched once. Where a forge does not answer, the last known tip stays.
    pub(super) async fn update(&self, lists: &[&[Object<Repository>]]) {
        let work = async {
            let mut tried = BTreeSet::new();
            loop {
                let next: BTreeMap<TipKey, &Object<Repository>> = lists
                    .iter()
                    .filter_map(|list| self.next_untried(list, &tried))
                    .map(|repository| (key_of(repository), repository))
                    .collect();
                if next.is_empty() {
                    return;
                }
                tried.extend(next.keys().cloned());
                self.fetch_all(next).await;
            }
        };
        first(pin!(work), self.world.timer(MAX_WAIT)).await;
    }

    /// The first repository that was not tried, unless one before it has a tip.
    fn next_untried<'a>(
        &self,
        list: &'a [Object<Repository>],
        tried: &BTreeSet<TipKey>,
    ) -> Option<&'a Object<Repository>> {
        let state = lock(&self.state);
        let settled = |one: &&Object<Repository>| {
            let key = key_of(one);
            !tried.contains(&key) || state.known.contains_key(&key)
        };
        list.iter().find(settled).filter(|one| !tried.contains(&key_of(one)))
    }

    async fn fetch_all(&self, wanted: BTreeMap<TipKey, &Object<Repository>>) {
        let mut started = BTreeSet::new();
        for (key, repository) in wanted {
            self.wait_until(|state| state.fetching.intersection(&started).count() < MAX_PARALLEL)
                .await;
            if lock(&self.state).fetching.insert(key.clone()) {
                started.insert(key.clone());
                self.start(key, repository).await;
            }
        }
        self.wait_until(|state| state.fetching.is_disjoint(&started)).await;
    }

    async fn start(&self, key: TipKey, repository: &Object<Repository>) {
        let (world, state) = (Arc::clone(&self.world), Arc::clone(&self.state));
        let end = EndOnDrop { state: Arc::clone(&state), key };
        let spec = repository.spec.clone();
        let work = Box::pin(async move {
            let branch = format!("refs/heads/{}", spec.default_branch);
            let found = world.fetch_commit(&spec, &branch, None).await;
            let mut state = lock(&state);
            match found {
                Ok(Some(tip)) => {
                    state.known.insert(end.key.clone(), tip);
                }
                // The forge has answered: there is no such branch.
                Ok(None) | Err(FetchError::Missing(_)) => {
                    state.known.remove(&end.key);
                }
                Err(
                    FetchError::Failed(_)
                    | FetchError::Unavailable(_)
                    | FetchError::Account(_)
                    | FetchError::Local(_),
                ) => {}
            }
            drop(state);
            drop(end);
        });
        if let Some(work) = self.world.spawn(None, work) {
            work.await;
        }
    }

    async fn wait_until(&self, is_met: impl Fn(&State) -> bool) {
        poll_fn(|context| {
            let mut state = lock(&self.state);
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

fn key_of(repository: &Object<Repository>) -> TipKey {
    (repository.spec.full_name.clone(), repository.spec.default_branch.clone())
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
