//! Received events, as samples to try rules with.

use bailiwick_resources::{Kind, WebhookDelivery};

use super::{ControlPlane, ReconcileError};
use crate::ports::{Engine, FleetStore, Selection, World};
use crate::triggers::SourceEvent;

/// How many deliveries are looked through, the newest first.
const MAX_SAMPLES: usize = 64;
/// How large one of them may be.
const MAX_PAYLOAD_BYTES: u64 = 256 * 1024;

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
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
            if let Ok((_, events)) = self.read(&delivery).await? {
                samples.extend(events);
            }
        }
        Ok(samples)
    }
}
