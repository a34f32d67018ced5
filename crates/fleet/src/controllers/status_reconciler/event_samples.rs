//! Recent events, as samples for the conditions of rules.

use bailiwick_resources::{Kind, WebhookDelivery};

use crate::controllers::ReconcileError;
use crate::controllers::run_queries::RunQueries as _;
use crate::controllers::status_reconciler::StatusReconciler;
use crate::ports::{Clock, Commits, FleetStore, Selection, StackSources, Worktrees};
use crate::triggers::SourceEvent;

const MAX_SAMPLES: usize = 64;
const MAX_PAYLOAD_BYTES: u64 = 256 * 1024;

impl<S: FleetStore, W: Clock + Commits + StackSources + Worktrees> StatusReconciler<S, W> {
    /// The latest events, newest first, without unreadable ones.
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
