//! The status of deliveries: due, evaluated or postponed.

use bailiwick_resources::{AnyObject, Moment, Object, Repository, WebhookDelivery};

use crate::controllers::ReconcileError;
use crate::controllers::backoff::{DELIVERIES, retry_at};
use crate::ports::Write;
use crate::triggers::Delivery;
use crate::triggers::text::beginning;

/// How much of an error a delivery shows.
const MAX_FAULT_BYTES: usize = 1000;

/// A delivery as the parsers of the forges' formats read it.
pub(in crate::controllers) fn wire_delivery<'a>(
    delivery: &'a Object<WebhookDelivery>,
    repository: &'a Object<Repository>,
) -> Delivery<'a> {
    let spec = &delivery.spec;
    Delivery {
        forge: spec.forge,
        id: &spec.delivery_id,
        event: &spec.event,
        repository: &repository.spec.full_name,
        name: delivery.name(),
        received_at: spec.received_at,
    }
}

pub(super) fn is_due(object: &AnyObject, now: Moment) -> bool {
    let next = object.typed::<WebhookDelivery>().ok().and_then(|one| one.status.next_try_at);
    next.is_none_or(|next| now >= next)
}

/// The write that marks a delivery as evaluated.
pub(super) fn evaluated_delivery(
    object: &AnyObject,
    executions: Vec<String>,
    fault: Option<String>,
) -> Result<Write, ReconcileError> {
    let mut delivery = object.typed::<WebhookDelivery>()?;
    delivery.status.evaluated = true;
    delivery.status.executions.extend(executions);
    delivery.status.fault = fault;
    delivery.status.next_try_at = None;
    Ok(Write::Status(AnyObject::of(&delivery)?))
}

/// The write that postpones a delivery, longer each time.
pub(super) fn postponed_delivery(
    object: &AnyObject,
    executions: Vec<String>,
    why: &str,
    now: Moment,
) -> Result<Write, ReconcileError> {
    let mut delivery = object.typed::<WebhookDelivery>()?;
    let status = &mut delivery.status;
    status.next_try_at = Some(retry_at(now, DELIVERIES, status.tries));
    status.tries = status.tries.saturating_add(1);
    status.executions.extend(executions);
    status.fault = Some(format!("it waits: {}", beginning(why, MAX_FAULT_BYTES)));
    Ok(Write::Status(AnyObject::of(&delivery)?))
}
