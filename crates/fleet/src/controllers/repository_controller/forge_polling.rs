//! Polls the forge for checks that have ended, in case their webhooks were lost.

use std::collections::BTreeMap;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{Kind, Object, Repository, WebhookDelivery};

use crate::controllers::forge_access::{ForgeUse, faults};
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::repository_controller::RepositoryController;
use crate::controllers::summary::Task;
use crate::controllers::{ReconcileError, ReconcileSummary};
use crate::ports::{Clock, Commits, FleetStore, Forge as _, Forges, IncomingDelivery, Selection};
use crate::triggers::dedupe::POLLED;
use crate::triggers::delivery_name;

/// The event of a job, as in a webhook.
const JOB: &str = "workflow_job";
/// The event of a workflow run without jobs.
const RUN: &str = "workflow_run";

impl<S: FleetStore, W: Clock + Forges + Commits> RepositoryController<S, W> {
    /// Polls the forges of repositories that ask for it, at their intervals. A failure that a webhook has brought is
    /// a duplicate.
    pub(in crate::controllers) async fn poll_forges(&self, summary: &mut ReconcileSummary) {
        let all = match self.store.all_typed::<Repository>(Selection::of(Kind::Repository)).await {
            Ok(all) => all,
            Err(error) => return summary.record("repositories", Err(error)),
        };
        for repository in all {
            let Some(every) = repository.spec.poll_every else { continue };
            let last = repository.status.polled_at;
            if last.is_some_and(|last| self.world.now() < last.plus_millis(every.millis())) {
                continue;
            }
            let name = repository.name().to_owned();
            if summary.is_backing_off(Task::Poll, &name) {
                continue;
            }
            let result = self.poll(repository).await;
            summary.record_with_backoff(Task::Poll, &name, result);
        }
    }

    async fn poll(&self, mut repository: Object<Repository>) -> Result<bool, ReconcileError> {
        let now = self.world.now();
        let cursor = repository.status.poll_cursor.clone();
        let asked = match self.forges.open(&repository).await {
            Ok(forge) => forge.checks_since(cursor.as_deref()).await.map_err(ReconcileError::from),
            Err(error) => Err(error),
        };
        // Also after an error the interval passes before the next poll.
        repository.status.polled_at = Some(now);
        let (checks, next) = match asked {
            Ok(answer) => answer,
            Err(error @ ReconcileError::Store(_)) => return Err(error),
            Err(error) => {
                let (before, why) = (repository.status.fault.take(), error.to_string());
                repository.status.fault = faults(before.as_deref(), ForgeUse::Asking, Some(&why));
                return self.store.store_status(&repository, self.world.now()).await;
            }
        };
        // A polled check is stored like a webhook before rules see it, so that it can be replayed and is stored once.
        for check in checks {
            let event = if check.payload.get(JOB).is_some() { JOB } else { RUN };
            let bytes = check.payload.to_string().into_bytes();
            let digest = Sha256Hex::of(&bytes);
            let delivery_id = format!("{POLLED}{}/{}/{}", check.id, check.sha, digest.prefix(16));
            let name = delivery_name(&repository.spec.full_name, &delivery_id);
            let spec = WebhookDelivery {
                forge: repository.spec.forge,
                delivery_id,
                event: event.to_owned(),
                repository: repository.name().to_owned(),
                payload_digest: digest.to_string(),
                bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
                received_at: now,
                headers: BTreeMap::new(),
            };
            self.store.receive(IncomingDelivery { name, spec, payload: bytes }).await?;
        }
        repository.status.poll_cursor = next.or(cursor);
        let before = repository.status.fault.take();
        repository.status.fault = faults(before.as_deref(), ForgeUse::Asking, None);
        self.store.store_status(&repository, self.world.now()).await
    }
}
