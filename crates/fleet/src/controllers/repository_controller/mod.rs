//! The observed status of repositories: our accounts, their labels, their workflows.

mod forge_polling;

use std::sync::Arc;

use bailiwick_resources::{ForgeKind, Kind, Moment, Object, Repository};

use super::forge_access::{ForgeAccess, ForgeUse, faults};
use super::objects::ObjectQueries as _;
use super::{ReconcileError, ReconcileSummary};
use crate::ports::{
    Clock, Commits, FleetError, FleetStore, Forge as _, Forges, ObjectStore, Selection,
};
use crate::triggers::SourceEvent;

/// How often a forge is asked.
const REFRESH_INTERVAL: u64 = 3_600_000;
/// How often a forge that did not answer is asked.
const RETRY_INTERVAL: u64 = 300_000;
/// How many names are kept.
const MAX_NAMES: usize = 500;
/// How long a name may be.
const MAX_NAME_LENGTH: usize = 200;
/// How many accounts are kept: after a change of the credential, the old account is still ours.
const MAX_ACCOUNTS: usize = 8;

/// Observes and polls the forges of repositories.
pub(super) struct RepositoryController<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    forges: Arc<ForgeAccess<S, W>>,
}

impl<S, W> RepositoryController<S, W> {
    pub(super) fn new(store: Arc<S>, world: Arc<W>, forges: Arc<ForgeAccess<S, W>>) -> Self {
        Self { store, world, forges }
    }
}

impl<S: FleetStore, W: Clock + Forges + Commits> RepositoryController<S, W> {
    /// Asks forges for our account and their labels, at an interval.
    pub(super) async fn observe_forges(&self, summary: &mut ReconcileSummary) {
        let all = match self.store.all_typed::<Repository>(Selection::of(Kind::Repository)).await {
            Ok(all) => all,
            Err(error) => return summary.record("repositories", Err(error)),
        };
        let now = self.world.now();
        for repository in all.into_iter().filter(|one| is_due(one, now)) {
            let name = repository.name().to_owned();
            let result = self.observe(repository, now).await;
            summary.record(&name, result);
        }
    }

    async fn observe(
        &self,
        mut repository: Object<Repository>,
        now: Moment,
    ) -> Result<bool, ReconcileError> {
        let asked = match self.forges.open(&repository).await {
            Ok(forge) => (forge.account().await, forge.labels().await),
            Err(error) => {
                // A credential that is not set yet: reported, and tried again.
                let (before, why) = (repository.status.fault.take(), error.to_string());
                repository.status.fault = faults(before.as_deref(), ForgeUse::Asking, Some(&why));
                repository.status.observed_at = Some(soon(now));
                return self.store.store_status(&repository, self.world.now()).await;
            }
        };
        let status = &mut repository.status;
        status.observed_at = Some(now);
        if asked.0.is_ok() && asked.1.is_ok() {
            status.fault = faults(status.fault.take().as_deref(), ForgeUse::Asking, None);
        }
        match asked.0 {
            Ok(Some(account)) => {
                let known =
                    status.own_accounts.iter().any(|own| own.eq_ignore_ascii_case(&account));
                if !known && account.len() <= MAX_NAME_LENGTH {
                    status.own_accounts.insert(0, account);
                    status.own_accounts.truncate(MAX_ACCOUNTS);
                }
            }
            Ok(None) => {}
            Err(_) => status.observed_at = Some(soon(now)),
        }
        match asked.1 {
            Ok(Some(labels)) => {
                status.known_labels.clear();
                labels.iter().for_each(|label| add(&mut status.known_labels, label));
            }
            Ok(None) => {}
            Err(_) => status.observed_at = Some(soon(now)),
        }
        self.store.store_status(&repository, self.world.now()).await
    }
}

/// Records the workflows that events name. A concurrent writer is no error: the next event names them again.
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
    let speaks = match repository.spec.forge {
        ForgeKind::Github | ForgeKind::Gitea => repository.spec.credential_ref.is_some(),
        ForgeKind::Generic | ForgeKind::Local => false,
    };
    let last = repository.status.observed_at;
    speaks && last.is_none_or(|last| now >= last.plus_millis(REFRESH_INTERVAL))
}

/// A time of observation that makes the next one due after the retry interval.
fn soon(now: Moment) -> Moment {
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
