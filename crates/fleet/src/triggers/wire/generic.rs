//! Webhooks of any sender with the shared secret: `X-Bailiwick-Event` names the event.
//!
//! The field `bailiwick` of a payload describes an event of any source except those of our own; every other payload
//! is a `webhook`, which rules read by JSONPath alone.

use bailiwick_resources::{EventSource, TrustTier};
use serde::Deserialize;
use serde_json::Value;

use super::{Delivery, ParsedDelivery, WireError, begun, shape};
use crate::triggers::event::Association;

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    bailiwick: Option<GenericEvent>,
}

/// The event as the sender describes it. Unknown keys are errors, because the format is ours.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct GenericEvent {
    source: Option<EventSource>,
    repository: Option<String>,
    action: Option<String>,
    actor: Option<String>,
    #[serde(rename = "ref")]
    reference: Option<String>,
    branch: Option<String>,
    tag: Option<String>,
    sha: Option<String>,
    base_sha: Option<String>,
    pull_request: Option<u64>,
    head_repository: Option<String>,
    issue: Option<u64>,
    labels: Vec<String>,
    title: Option<String>,
    body: Option<String>,
    workflow: Option<String>,
    job: Option<String>,
    job_id: Option<String>,
    step: Option<String>,
    check: Option<String>,
    conclusion: Option<String>,
    changed_paths: Option<Vec<String>>,
    failure_log: Option<String>,
    trust: Option<TrustTier>,
}

/// Reads one delivery.
pub(super) fn read(delivery: &Delivery<'_>, value: &Value) -> Result<ParsedDelivery, WireError> {
    let about = match value {
        Value::Object(_) => shape::<Envelope>(delivery, value)?.bailiwick.unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            GenericEvent::default()
        }
    };
    let repository = about.repository.as_deref().unwrap_or(delivery.repository);
    let mut event = begun(delivery, repository);
    event.action = about.action;
    event.actor = about.actor;
    if let Some(reference) = &about.reference {
        event.take_reference(reference);
    }
    event.branch = about.branch.or(event.branch);
    event.tag = about.tag.or(event.tag);
    event.sha = about.sha;
    event.base_sha = about.base_sha;
    event.pull_request = about.pull_request;
    event.head_repository = about.head_repository;
    event.issue = about.issue;
    event.labels = about.labels;
    event.title = about.title;
    event.body = about.body;
    event.workflow = about.workflow;
    event.job = about.job;
    event.job_id = about.job_id;
    event.step = about.step;
    event.check = about.check;
    event.conclusion = about.conclusion;
    event.changed_paths = about.changed_paths;
    event.failure_log = about.failure_log;
    // The sender has the secret: it may vouch for its event, though not for a fork.
    if about.trust == Some(TrustTier::Trusted) {
        event.association = Association::Writer;
    }
    Ok(ParsedDelivery { event, source: source(delivery, about.source)? })
}

/// Ticks of schedules and requests of people are created here, never sent.
fn source(
    delivery: &Delivery<'_>,
    named: Option<EventSource>,
) -> Result<Option<EventSource>, WireError> {
    match named {
        Some(EventSource::Schedule | EventSource::Manual) => Err(WireError::Shape {
            forge: super::forge_name(delivery.forge),
            event: delivery.event.chars().take(64).collect(),
            why: "`schedule` and `manual` cannot be sent".to_owned(),
        }),
        Some(EventSource::Webhook) | None => Ok(None),
        Some(
            source @ (EventSource::Ci
            | EventSource::IssueComment
            | EventSource::PrComment
            | EventSource::Label
            | EventSource::Push
            | EventSource::Tag
            | EventSource::RepositoryDispatch),
        ) => Ok(Some(source)),
    }
}
