//! Whether the checkouts of repositories can be used: looked at in short intervals, and a fact in their status.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bailiwick_resources::{Moment, Object, Repository};

use super::conditions::update_conditions;
use super::{ReconcileError, RepositoryController};
use crate::controllers::objects::ObjectQueries as _;
use crate::ports::{Clock, Commits, FleetStore, Forges};

/// The interval between two looks at a checkout, in milliseconds.
const INTERVAL: u64 = 60_000;
/// The interval while a checkout cannot be used.
const RECOVERY_INTERVAL: u64 = 15_000;

/// When each checkout was last looked at by this process, and at which generation of its repository.
#[derive(Debug, Default)]
pub(super) struct CheckoutTimes(Mutex<BTreeMap<String, (Moment, u64)>>);

impl CheckoutTimes {
    pub(super) fn is_due(&self, repository: &Object<Repository>, now: Moment) -> bool {
        let interval = match repository.status.checkout_problem {
            Some(_) => RECOVERY_INTERVAL,
            None => INTERVAL,
        };
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(repository.name()).is_none_or(|(last, generation)| {
            *generation != repository.metadata.generation || now >= last.plus_millis(interval)
        })
    }

    fn store(&self, repository: &Object<Repository>, now: Moment) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(repository.name().to_owned(), (now, repository.metadata.generation));
    }
}

impl<S: FleetStore, W: Clock + Forges + Commits> RepositoryController<S, W> {
    pub(super) async fn observe_checkout(
        &self,
        looked_at: Object<Repository>,
        now: Moment,
    ) -> Result<bool, ReconcileError> {
        let problem = self.world.checkout_problem(&looked_at.spec).await;
        let problem = problem.map(|problem| problem.to_string());
        // The status may have changed meanwhile.
        let Some(mut repository) = self.store.typed::<Repository>(looked_at.name()).await? else {
            return Ok(false);
        };
        let is_news = repository.status.checkout_problem != problem;
        if is_news {
            repository.status.checkout_problem = problem;
            update_conditions(&mut repository, now);
            self.store.store_status(&repository, self.world.now()).await?;
        }
        self.checkouts.store(&looked_at, now);
        Ok(is_news)
    }
}
