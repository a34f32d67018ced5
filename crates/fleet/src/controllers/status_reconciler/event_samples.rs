//! Received events, as samples to try rules with.

use bailiwick_resources::{Kind, WebhookDelivery};

use crate::controllers::ReconcileError;
use crate::controllers::run_queries::RunQueries as _;
use crate::controllers::status_reconciler::StatusReconciler;
use crate::ports::{FleetStore, Selection, World};
use crate::triggers::SourceEvent;

/// How many deliveries are looked through, the newest first.
const MAX_SAMPLES: usize = 64;
/// How large one of them may be.
const MAX_PAYLOAD_BYTES: u64 = 256 * 1024;

impl<S: FleetStore, W: World> StatusReconciler<S, W> {
    /// What came in last, the newest first. What cannot be read any more is left out.
    pub(super) async fn samples(&self) -> Result<Vec<SourceEvent>, ReconcileError> {
        let newest = Selection {
            limit: MAX_SAMPLES,
            newest_first: true,
            ..Selection::of(Kind::WebhookDelivery)
        };
        let mut samples = Vec::new();
        for object in self.store.list(&newest).await?.objects {
            let delivery = object.typed::<WebhookDelivery>()?;
            if delivery.spec.bytes > MAX_PAYLOAD_BYTES {
                continue;
            }
            if let Ok((_, events)) = self.store.read_delivery(&delivery).await? {
                samples.extend(events);
            }
        }
        Ok(samples)
    }
}
