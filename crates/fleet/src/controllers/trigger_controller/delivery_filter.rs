//! Deliveries that match no rule, which is the usual case: evaluated in batches with shared reads, and marked in one
//! commit. A delivery that may match is evaluated alone, with fresh reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiwick_resources::{AgentTriggerRule, AnyObject, Object, Repository, WebhookDelivery};
use serde_json::Value;

use super::TriggerController;
use super::deliveries::{evaluated_delivery, wire_delivery};
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::repository_controller::is_news;
use crate::controllers::summary::Task;
use crate::controllers::{ReconcileError, ReconcileSummary};
use crate::ports::{Clock, Commits, Forges, ObjectStore, SecretStore, StackSources, Write};
use crate::triggers::{lookups, plan, wire};

/// The size of payloads that are read together; a single payload may be larger.
const MAX_BATCH_BYTES: u64 = 4 << 20;

type Payloads = BTreeMap<String, Vec<u8>>;

/// Shared reads for a batch of deliveries.
struct DeliveryFilter<'a> {
    rules: Vec<Object<AgentTriggerRule>>,
    repositories: BTreeMap<String, Object<Repository>>,
    payloads: &'a Payloads,
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources>
    TriggerController<S, W>
{
    /// Evaluates deliveries in order.
    pub(super) async fn evaluate_all(
        self: &Arc<Self>,
        due: &[AnyObject],
        summary: &mut ReconcileSummary,
    ) {
        let mut rest = due;
        while let Some((some, digests)) = next_batch(rest) {
            rest = rest.get(some.len()..).unwrap_or_default();
            if some.len() == 1 {
                // A single delivery shares no reads.
                self.evaluate_each(some, summary).await;
                continue;
            }
            let filtered = match self.store.blobs(&digests).await {
                Ok(payloads) => self.filter_deliveries(some, &payloads, summary).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = filtered {
                return summary.record("deliveries", Err(error));
            }
        }
    }

    async fn filter_deliveries(
        self: &Arc<Self>,
        some: &[AnyObject],
        payloads: &Payloads,
        summary: &mut ReconcileSummary,
    ) -> Result<(), ReconcileError> {
        let mut rest = some;
        while rest.len() > 1 {
            let filter = self.delivery_filter(rest, payloads).await?;
            let quiet: Vec<Write> =
                rest.iter().map_while(|object| filter.ignored(object)).collect();
            let (passed, others) = rest.split_at_checked(quiet.len()).unwrap_or((rest, &[]));
            if !self.mark_ignored(quiet, summary).await {
                self.evaluate_each(passed, summary).await;
            }
            // The first one that may match is evaluated alone: its result can matter for later ones.
            let (one, others) = others.split_at_checked(1).unwrap_or((others, &[]));
            self.evaluate_each(one, summary).await;
            rest = others;
        }
        self.evaluate_each(rest, summary).await;
        Ok(())
    }

    /// Evaluates each delivery alone, those of one repository in order.
    async fn evaluate_each(self: &Arc<Self>, some: &[AnyObject], summary: &mut ReconcileSummary) {
        for object in some {
            let group = (Task::Delivery, repository_of(object));
            let (this, delivery) = (Arc::clone(self), object.clone());
            let work = Box::pin(async move { this.evaluate_or_postpone(&delivery).await });
            summary.run_within(&self.world, group, &object.metadata.name, work).await;
        }
    }

    /// Marks deliveries in one commit. If it fails, another writer changed one of them, and each is evaluated alone.
    async fn mark_ignored(&self, quiet: Vec<Write>, summary: &mut ReconcileSummary) -> bool {
        let count = quiet.len();
        let noted = count == 0 || self.store.commit(quiet, self.world.now()).await.is_ok();
        summary.done += if noted { count } else { 0 };
        noted
    }

    async fn delivery_filter<'a>(
        &self,
        some: &[AnyObject],
        payloads: &'a Payloads,
    ) -> Result<DeliveryFilter<'a>, ReconcileError> {
        let deliveries = some.iter().filter_map(|object| object.typed::<WebhookDelivery>().ok());
        let names: BTreeSet<String> = deliveries.map(|one| one.spec.repository).collect();
        let mut repositories = BTreeMap::new();
        for name in names {
            // One that cannot be read is reported where its deliveries are evaluated.
            if let Ok(Some(repository)) = self.store.typed::<Repository>(&name).await {
                repositories.insert(name, repository);
            }
        }
        Ok(DeliveryFilter { rules: self.store.rules().await?, repositories, payloads })
    }
}

/// The repository that a delivery is for; empty if it cannot be read.
pub(super) fn repository_of(delivery: &AnyObject) -> &str {
    delivery.spec.get("repository").and_then(Value::as_str).unwrap_or_default()
}

/// The next deliveries whose payloads are read together, with their digests.
fn next_batch(rest: &[AnyObject]) -> Option<(&[AnyObject], BTreeSet<String>)> {
    let (mut digests, mut bytes, mut count) = (BTreeSet::new(), 0_u64, 0);
    for object in rest {
        if let Ok(delivery) = object.typed::<WebhookDelivery>() {
            bytes = bytes.saturating_add(delivery.spec.bytes);
            if count > 0 && bytes > MAX_BATCH_BYTES {
                break;
            }
            digests.insert(delivery.spec.payload_digest);
        }
        count += 1;
    }
    rest.get(..count).filter(|some| !some.is_empty()).map(|some| (some, digests))
}

impl DeliveryFilter<'_> {
    /// The write for a delivery that no rule matches; nothing if it needs lookups, names a new workflow or may match.
    fn ignored(&self, object: &AnyObject) -> Option<Write> {
        let delivery = object.typed::<WebhookDelivery>().ok()?;
        let spec = &delivery.spec;
        let repository = self.repositories.get(&spec.repository)?;
        let payload = self.payloads.get(&spec.payload_digest)?;
        let events = match wire::read(&wire_delivery(&delivery, repository), payload) {
            Ok(events) => events,
            Err(error) => {
                return evaluated_delivery(object, Vec::new(), Some(error.to_string())).ok();
            }
        };
        let asks = events.iter().any(|event| !lookups(event, &self.rules).is_empty());
        let own = &repository.status.own_accounts;
        if asks || is_news(repository, &events) || plan::may_match(&events, &self.rules, own) {
            return None;
        }
        evaluated_delivery(object, Vec::new(), None).ok()
    }
}
