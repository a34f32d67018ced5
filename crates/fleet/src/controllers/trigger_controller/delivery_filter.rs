//! Deliveries that match no rule, which are most of them: evaluated in batches with shared reads, and marked
//! in one commit. A delivery that may match is evaluated by itself, with fresh reads.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_resources::{AgentTriggerRule, AnyObject, Object, Repository, WebhookDelivery};

use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::repository_controller::is_news;
use crate::controllers::summary::Task;
use crate::controllers::trigger_controller::{
    TriggerController, evaluated_delivery, wire_delivery,
};
use crate::controllers::{ReconcileError, ReconcileSummary};
use crate::ports::{ObjectStore, SecretStore, World, Write};
use crate::triggers::{lookups, plan, wire};

/// How many bytes of payloads are read at once; a single payload may be larger.
const MAX_BATCH_BYTES: u64 = 4 << 20;

/// Bytes by their digests.
type Payloads = BTreeMap<String, Vec<u8>>;

/// What deliveries are filtered by.
struct DeliveryFilter<'a> {
    rules: Vec<Object<AgentTriggerRule>>,
    repositories: BTreeMap<String, Object<Repository>>,
    payloads: &'a Payloads,
}

impl<S: ObjectStore + SecretStore, W: World> TriggerController<S, W> {
    /// Looks at deliveries in their order.
    pub(super) async fn evaluate_all(&self, due: &[AnyObject], summary: &mut ReconcileSummary) {
        let mut rest = due;
        while let Some((some, digests)) = next_batch(rest) {
            rest = rest.get(some.len()..).unwrap_or_default();
            if some.len() == 1 {
                // Nothing is shared by one alone.
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
        &self,
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
            // The first that is not quiet, by itself; what it changes may matter to those behind it.
            let (one, others) = others.split_at_checked(1).unwrap_or((others, &[]));
            self.evaluate_each(one, summary).await;
            rest = others;
        }
        self.evaluate_each(rest, summary).await;
        Ok(())
    }

    async fn evaluate_each(&self, some: &[AnyObject], summary: &mut ReconcileSummary) {
        for object in some {
            let result = self.evaluate_or_postpone(object).await;
            summary.record_with_backoff(Task::Delivery, &object.metadata.name, result);
        }
    }

    /// Notes all of them at once; whether that went well. If not, somebody wrote to one of them meanwhile, and
    /// each has to be looked at by itself.
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

/// Those whose bytes are read at once, with their digests.
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
    /// What is noted of a delivery that says nothing or that no rule means. Nothing where something has to be
    /// asked for, learnt or made.
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
        if asks || is_news(repository, &events) || plan::is_meant(&events, &self.rules, own) {
            return None;
        }
        evaluated_delivery(object, Vec::new(), None).ok()
    }
}
