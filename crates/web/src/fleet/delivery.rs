//! A webhook that was received: its payload, its signature, and what the rules made of it.

use bailiwick_resources::{AnyObject, Kind, WebhookDelivery};
use bailiwick_server::Session;

use super::{MAX_NAME, may_operate, object_path};
use crate::clock::now;
use crate::site::Site;
use crate::text::{MAX_SHOWN, Time, encoded, line, number, shortened};

/// What the page of a delivery has beside its conditions.
pub(crate) struct DeliveryPanel {
    pub(crate) repository: String,
    pub(crate) event: String,
    pub(crate) id: String,
    pub(crate) digest: String,
    pub(crate) bytes: String,
    pub(crate) received: Time,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) is_evaluated: bool,
    pub(crate) fault: String,
    pub(crate) redeliveries: u32,
    pub(crate) executions: Vec<(String, String)>,
    pub(crate) payload: Payload,
}

/// The body of a delivery, or why it is not shown.
pub(crate) enum Payload {
    Text { text: String, left_out: usize },
    NotPermitted,
    Missing(String),
}

impl DeliveryPanel {
    /// None if the object has another shape.
    pub(crate) async fn new(site: &Site, session: &Session, object: &AnyObject) -> Option<Self> {
        let delivery = object.typed::<WebhookDelivery>().ok()?;
        let (spec, status) = (delivery.spec, delivery.status);
        let namespace = &object.metadata.namespace;
        let header =
            |(name, value): (&String, &String)| (line(name, MAX_NAME), line(value, MAX_NAME));
        let execution = |name: &String| {
            let kind = Kind::AgentTriggerExecution;
            (object_path(&site.base, namespace, kind, name), line(name, MAX_NAME))
        };
        Some(Self {
            repository: line(&spec.repository, MAX_NAME),
            event: line(&spec.event, MAX_NAME),
            id: line(&spec.delivery_id, MAX_NAME),
            bytes: number(spec.bytes),
            received: Time::new(spec.received_at, now()),
            headers: spec.headers.iter().map(header).collect(),
            is_evaluated: status.evaluated,
            fault: line(status.fault.as_deref().unwrap_or_default(), MAX_SHOWN),
            redeliveries: status.redeliveries,
            executions: status.executions.iter().map(execution).collect(),
            payload: payload(site, session, &spec.payload_digest).await,
            digest: spec.payload_digest,
        })
    }
}

async fn payload(site: &Site, session: &Session, digest: &str) -> Payload {
    if !may_operate(session) {
        return Payload::NotPermitted;
    }
    let path = format!("/api/v1alpha1/blobs/{}", encoded(digest));
    match site.api.get_bytes(session, &path).await {
        Ok(bytes) => {
            let (text, left_out) = shortened(&pretty(&bytes), MAX_SHOWN);
            Payload::Text { text, left_out }
        }
        Err(error) => Payload::Missing(line(&error.message, MAX_NAME)),
    }
}

/// JSON with line breaks; everything else as it is, with marks for what is not UTF-8.
fn pretty(bytes: &[u8]) -> String {
    let json = serde_json::from_slice::<serde_json::Value>(bytes).ok();
    json.and_then(|json| serde_json::to_string_pretty(&json).ok())
        .unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn any_payload_can_be_shown() {
        assert_eq!(pretty(b"{\"a\":1}"), "{\n  \"a\": 1\n}");
        assert_eq!(pretty(b"a=\xff"), "a=\u{fffd}");
    }
}
