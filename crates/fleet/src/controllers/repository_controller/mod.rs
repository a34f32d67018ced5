//! The observed status of repositories: our accounts, their labels, their workflows, their checkouts.

mod checkouts;
mod conditions;
mod forge_polling;
mod missed_events;

pub(super) use conditions::{Problem, record_use, repository_conditions, update_conditions};

use std::sync::{Arc, Mutex};

use bailiwick_resources::{ForgeFacts, ForgeUse, Kind, Moment, Object, Repository};

use super::forge_access::ForgeAccess;
use super::objects::ObjectQueries as _;
use super::summary::Task;
use super::{ReconcileError, ReconcileSummary};
use crate::ports::{
    Clock, Commits, FleetError, FleetStore, Forge as _, ForgeError, Forges, ObjectStore, Selection,
};
use crate::triggers::SourceEvent;
use checkouts::CheckoutTimes;
use conditions::has_forge;
use missed_events::MissedEvents;

/// The interval between observations of a forge.
const REFRESH_INTERVAL: u64 = 3_600_000;
/// The interval after a forge did not respond.
const RETRY_INTERVAL: u64 = 300_000;
/// The interval at which a forge with a problem is checked.
const RECOVERY_INTERVAL: u64 = 15_000;
/// The maximum number of stored names.
const MAX_NAMES: usize = 500;
/// How long a name may be.
const MAX_NAME_LENGTH: usize = 200;
/// The maximum number of stored accounts: after a change of the credential, the old account is still ours.
const MAX_ACCOUNTS: usize = 8;

/// Observes and polls the forges of repositories.
pub(super) struct RepositoryController<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    forges: Arc<ForgeAccess<S, W>>,
    missed_events: Mutex<MissedEvents>,
    checkouts: CheckoutTimes,
}

impl<S, W> RepositoryController<S, W> {
    pub(super) fn new(store: Arc<S>, world: Arc<W>, forges: Arc<ForgeAccess<S, W>>) -> Self {
        Self {
            store,
            world,
            forges,
            missed_events: Mutex::default(),
            checkouts: CheckoutTimes::default(),
        }
    }
}

impl<S: FleetStore, W: Clock + Forges + Commits> RepositoryController<S, W> {
    /// Reads our account and the labels from forges, and looks at checkouts, at an interval.
    pub(super) async fn observe_forges(self: &Arc<Self>, summary: &mut ReconcileSummary) {
        let all = match self.store.all_typed::<Repository>(Selection::of(Kind::Repository)).await {
            Ok(all) => all,
            Err(error) => return summary.record("repositories", Err(error)),
        };
        let now = self.world.now();
        for repository in all {
            let name = repository.name().to_owned();
            let is_checkout_due = self.checkouts.is_due(&repository, now);
            if is_checkout_due && !summary.is_backing_off(Task::Checkout, &name) {
                let (this, one) = (Arc::clone(self), repository.clone());
                let work = Box::pin(async move { this.observe_checkout(one, now).await });
                summary.run(&self.world, Task::Checkout, &name, work).await;
            }
            if !is_due(&repository, now) || summary.is_backing_off(Task::Observe, &name) {
                continue;
            }
            let this = Arc::clone(self);
            let work = Box::pin(async move { this.observe(repository, now).await });
            summary.run(&self.world, Task::Observe, &name, work).await;
        }
    }

    async fn observe(
        &self,
        repository: Object<Repository>,
        now: Moment,
    ) -> Result<bool, ReconcileError> {
        let (account, labels, facts, problem) = match self.forges.open(&repository).await {
            Ok(forge) => {
                let account = forge.account().await;
                // A forge that does not respond to one request is not sent the next.
                let labels = match &account {
                    Err(away) if away.is_temporary() => Err(away.clone()),
                    Ok(_) | Err(_) => forge.labels().await,
                };
                let facts = match &account {
                    Err(away) if away.is_temporary() => Err(away.clone()),
                    Ok(_) | Err(_) => forge.facts().await,
                };
                let refused =
                    account.as_ref().err().or(facts.as_ref().err()).or(labels.as_ref().err());
                let problem = match refused {
                    // Reported where it was noticed.
                    Some(ForgeError::Unavailable(_)) | None => None,
                    Some(error) => Some(Problem::of(&ReconcileError::Forge(error.clone()))),
                };
                (account, labels, facts, problem)
            }
            Err(error @ ReconcileError::Store(_)) => return Err(error),
            // A credential that is not set yet: reported, and tried again.
            Err(error) => (Ok(None), Ok(None), Ok(None), Some(Problem::of(&error))),
        };
        // The status has changed meanwhile where the forge was slow.
        let Some(mut repository) = self.store.typed::<Repository>(repository.name()).await? else {
            return Ok(true);
        };
        let status = &mut repository.status;
        let failed = account.is_err() || labels.is_err() || facts.is_err() || problem.is_some();
        let lacks_something =
            |facts: &ForgeFacts| !facts.may_write || !facts.missing_scopes.is_empty();
        let is_checked_soon = facts.iter().flatten().any(lacks_something);
        status.observed_at = Some(if failed || is_checked_soon { soon(now) } else { now });
        if let Ok(facts) = facts {
            status.forge_facts = facts.or_else(|| status.forge_facts.take());
        }
        if problem.is_some() || !failed {
            record_use(status, ForgeUse::Asking, problem);
        }
        if let Ok(Some(account)) = account {
            let known = status.own_accounts.iter().any(|own| own.eq_ignore_ascii_case(&account));
            if !known && account.len() <= MAX_NAME_LENGTH {
                status.own_accounts.insert(0, account);
                status.own_accounts.truncate(MAX_ACCOUNTS);
            }
        }
        if let Ok(Some(labels)) = labels {
            status.known_labels.clear();
            labels.iter().for_each(|label| add(&mut status.known_labels, label));
        }
        update_conditions(&mut repository, now);
        self.store.store_status(&repository, self.world.now()).await
    }
}

/// Records the workflows in events. A concurrent write is not an error: the next event names them again.
pub(super) async fn record_workflows(
    store: &impl ObjectStore,
    at: Moment,
    repository: &Object<Repository>,
    events: &[SourceEvent],
) -> Result<(), ReconcileError> {
    if !is_news(repository, events) {
        return Ok(());
    }
    let Some(mut now) = store.typed::<Repository>(repository.name()).await? else {
        return Ok(());
    };
    let before = now.status.known_workflows.clone();
    for workflow in events.iter().filter_map(|event| event.workflow.as_deref()) {
        add(&mut now.status.known_workflows, workflow);
    }
    if now.status.known_workflows == before {
        return Ok(());
    }
    match store.store_status(&now, at).await {
        Ok(_) | Err(ReconcileError::Store(FleetError::Conflict { .. })) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether events name an unknown workflow.
pub(super) fn is_news(repository: &Object<Repository>, events: &[SourceEvent]) -> bool {
    let known = &repository.status.known_workflows;
    let mut workflows = events.iter().filter_map(|event| event.workflow.as_ref());
    workflows.any(|workflow| !known.contains(workflow) && workflow.len() <= MAX_NAME_LENGTH)
}

fn is_due(repository: &Object<Repository>, now: Moment) -> bool {
    let status = &repository.status;
    let interval = if status.forge_problems.iter().any(|one| one.used_for == ForgeUse::Asking) {
        // The observation after a failure is dated back by this much.
        REFRESH_INTERVAL - RETRY_INTERVAL + RECOVERY_INTERVAL
    } else {
        REFRESH_INTERVAL
    };
    let last = status.observed_at;
    let is_changed = status.observed_generation != repository.metadata.generation;
    let is_old = last.is_none_or(|last| now >= last.plus_millis(interval));
    has_forge(&repository.spec) && (is_changed || is_old)
}

/// A time of observation that makes the next one due after the retry interval.
pub(super) fn soon(now: Moment) -> Moment {
    Moment::from_millis(now.millis().saturating_sub(REFRESH_INTERVAL - RETRY_INTERVAL))
}

/// Adds a name, in order.
fn add(names: &mut Vec<String>, name: &str) {
    if name.len() > MAX_NAME_LENGTH || names.len() >= MAX_NAMES {
        return;
    }
    if let Err(place) = names.binary_search_by(|known| known.as_str().cmp(name)) {
        names.insert(place, name.to_owned());
    }
}
