//! Receives webhooks: the signature must match, and a delivery is stored before it is acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bailiwick_fleet::poll_cursor::{PollCursor, can_poll_for_webhooks};
use bailiwick_fleet::ports::{
    Fleet, FleetError, FleetStore, IncomingDelivery, Received, Unverified, Write,
};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AnyObject, DEFAULT_NAMESPACE, ForgeKind, Kind, Moment, Repository, WebhookDelivery,
    is_object_name,
};
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json as value;

use crate::app::App;
use crate::bodies;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, json};
use crate::webhook_targets::WebhookTarget;

/// The response to a webhook.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAnswer {
    /// The name of its record.
    pub delivery: String,
    /// Whether it is a redelivery with the same bytes.
    pub again: bool,
}

/// Headers that are recorded. Never one with a signature.
const RECORDED_HEADERS: [&str; 8] = [
    "content-type",
    "user-agent",
    "x-github-event",
    "x-github-delivery",
    "x-gitea-event",
    "x-gitea-event-type",
    "x-gitea-delivery",
    "x-bailiwick-event",
];

/// How often a note is written if others write the same status.
const MAX_NOTE_ATTEMPTS: usize = 5;

/// The headers for the delivery id and the event.
fn header_names(forge: ForgeKind) -> (&'static str, &'static str) {
    match forge {
        ForgeKind::Github => ("x-github-delivery", "x-github-event"),
        ForgeKind::Gitea => ("x-gitea-delivery", "x-gitea-event"),
        ForgeKind::Generic | ForgeKind::Local => ("x-bailiwick-delivery", "x-bailiwick-event"),
    }
}

/// The same error for every rejection, so that nobody learns which repositories exist.
fn rejected() -> Problem {
    Problem::unauthorized(
        "no repository with this name accepts webhooks, or the signature is wrong",
    )
}

fn unique_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let text = |value: &hyper::header::HeaderValue| value.to_str().ok().map(str::to_owned);
    let mut unique = BTreeMap::new();
    for name in headers.keys() {
        let mut values = headers.get_all(name).iter();
        // A duplicated header is ambiguous, so it is ignored.
        if let (Some(value), None) = (values.next().and_then(text), values.next()) {
            unique.insert(name.as_str().to_owned(), value);
        }
    }
    unique
}

/// The value of a required header: an id or the name of an event.
fn required_header<'a>(
    headers: &'a BTreeMap<String, String>,
    name: &str,
) -> Result<&'a str, Problem> {
    let value = headers.get(name).map(String::as_str).unwrap_or_default();
    let is_valid = (1..=200).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    let message =
        || format!("send the header `{name}`: letters, digits, `-`, `_`, `.` and `:`, at most 200");
    is_valid.then_some(value).ok_or_else(|| Problem::bad_request(message()))
}

pub(crate) async fn receive<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    let name = request.param("repository");
    let Some(target) = find_target(app, name).await? else {
        app.metrics.delivery("unbelieved");
        tracing::warn!(repository = name, "a webhook for a repository that accepts none");
        return Err(rejected());
    };
    let (repository, secret) = &*target;
    let headers = unique_headers(&request.headers);
    let webhook =
        Unverified { forge: repository.forge, secret, headers: &headers, body: &request.body };
    if let Err(why) = app.fleet.verify_webhook(webhook) {
        app.metrics.delivery("unbelieved");
        tracing::warn!(repository = name, %why, "a webhook was rejected");
        audit_rejection(app, request, name).await?;
        return Err(rejected());
    }
    let (id, event) = header_names(repository.forge);
    let (delivery_id, event) = (required_header(&headers, id)?, required_header(&headers, event)?);
    let digest = Sha256Hex::of(&request.body).to_string();
    let key = Sha256Hex::of(format!("{DEFAULT_NAMESPACE}/{name}\n{delivery_id}"));
    let object_name = format!("wd-{}", key.prefix(40));
    let recorded = headers.iter().filter(|(name, _)| RECORDED_HEADERS.contains(&name.as_str()));
    let spec = WebhookDelivery {
        forge: repository.forge,
        delivery_id: delivery_id.to_owned(),
        event: event.to_owned(),
        repository: name.to_owned(),
        payload_digest: digest,
        bytes: u64::try_from(request.body.len()).unwrap_or(u64::MAX),
        received_at: request.now,
        happened_at: None,
        headers: recorded.map(|(name, value)| (name.clone(), value.clone())).collect(),
    };
    let incoming = || IncomingDelivery {
        name: object_name.clone(),
        spec: spec.clone(),
        payload: bodies::copy(&request.body),
    };
    let received = match app.store.receive(incoming()).await {
        // A concurrent copy of the delivery was stored first: now it can be compared.
        Err(FleetError::AlreadyExists { .. }) => app.store.receive(incoming()).await?,
        received => received?,
    };
    let (status, again) = match received {
        Received::New => (StatusCode::ACCEPTED, false),
        Received::Redelivered => (StatusCode::OK, true),
        Received::ConflictingBytes => {
            app.metrics.delivery("contradicting");
            let message = "a delivery with this id is stored with other bytes; use a unique id for each delivery";
            return Err(Problem::conflict("DELIVERY_CONTRADICTS", message)
                .with_resource(format!("WebhookDelivery/{DEFAULT_NAMESPACE}/{object_name}")));
        }
    };
    app.metrics.delivery(if again { "again" } else { "new" });
    json(status, &DeliveryAnswer { delivery: object_name, again })
}

/// Notes that the body of a webhook is too large, so that its forge is polled: it will not send less. The signature
/// cannot be verified, so anybody can cause this: notes and polls are limited.
pub(crate) async fn note_too_large<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    name: &str,
    now: Moment,
) -> Result<(), Problem> {
    app.metrics.delivery("too_large");
    if !is_object_name(name) {
        return Ok(());
    }
    for _ in 0..MAX_NOTE_ATTEMPTS {
        let Some(object) = app.store.get(Kind::Repository, DEFAULT_NAMESPACE, name).await? else {
            return Ok(());
        };
        let mut repository = object.typed::<Repository>()?;
        let mut cursor = PollCursor::of(&repository.status);
        if !can_poll_for_webhooks(&repository.spec) || !cursor.note_refused_webhook(now) {
            return Ok(());
        }
        cursor.store(&mut repository.status);
        let write = Write::Status(AnyObject::of(&repository)?);
        match app.store.commit(vec![write], now).await {
            Err(FleetError::Conflict { .. }) => {}
            written => {
                written?;
                tracing::warn!(repository = name, "a webhook is too large; its forge is polled");
                return Ok(());
            }
        }
    }
    Err(Problem::unavailable("other writers were always faster"))
}

/// Finds a repository that accepts webhooks.
async fn find_target<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    name: &str,
) -> Result<Option<Arc<WebhookTarget>>, Problem> {
    if !is_object_name(name) {
        return Ok(None);
    }
    let requested = Instant::now();
    let shared = app.webhook_targets.share(name);
    let mut last = shared.last.lock().await;
    if let Some((started, target)) = &*last
        && *started >= requested
    {
        return Ok(Some(Arc::clone(target)));
    }
    let started = Instant::now();
    let target = read_target(app, name).await?.map(Arc::new);
    *last = target.clone().map(|target| (started, target));
    Ok(target)
}

async fn read_target<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    name: &str,
) -> Result<Option<WebhookTarget>, Problem> {
    let Some(object) = app.store.get(Kind::Repository, DEFAULT_NAMESPACE, name).await? else {
        return Ok(None);
    };
    let repository = object.typed::<Repository>()?.spec;
    let Some(key) = &repository.webhook_secret_ref else { return Ok(None) };
    let secret = app.store.secret_value(DEFAULT_NAMESPACE, &key.name, &key.key).await?;
    // An empty secret is refused: anybody could sign with it.
    Ok(secret.filter(|secret| !secret.is_empty()).map(|secret| (repository, secret)))
}

/// Records a rejection in the audit log, with a rate limit.
async fn audit_rejection<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
    repository: &str,
) -> Result<(), Problem> {
    if app.rejected_webhooks.take(repository.to_owned(), 1.0, Instant::now()).is_err() {
        return Ok(());
    }
    let subject = format!("Repository/{DEFAULT_NAMESPACE}/{repository}");
    let detail = value!({ "bytes": request.body.len() });
    let entry = request.audit("WebhookSignatureDenied", subject, detail);
    app.store.commit(vec![Write::Audit(entry)], request.now).await?;
    Ok(())
}
