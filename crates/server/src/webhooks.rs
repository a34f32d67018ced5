//! Webhooks: believed only with the repository's signature, answered only when they are durable.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bailiwick_fleet::ports::{
    Fleet, FleetError, FleetStore, IncomingDelivery, Received, Unverified, Write,
};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    DEFAULT_NAMESPACE, ForgeKind, Kind, Repository, WebhookDelivery, is_object_name,
};
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json as value;

use crate::app::App;
use crate::asked::{Answer, Asked, json};
use crate::problem::Problem;

/// What became of a webhook.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAnswer {
    /// The record of it.
    pub delivery: String,
    /// Whether it came before, with the same bytes.
    pub again: bool,
}

/// Headers that say what a webhook is. Never one with a signature.
const TELLING: [&str; 8] = [
    "content-type",
    "user-agent",
    "x-github-event",
    "x-github-delivery",
    "x-gitea-event",
    "x-gitea-event-type",
    "x-gitea-delivery",
    "x-bailiwick-event",
];

/// The headers by which a sender gives id and event.
fn names(forge: ForgeKind) -> (&'static str, &'static str) {
    match forge {
        ForgeKind::Github => ("x-github-delivery", "x-github-event"),
        ForgeKind::Gitea => ("x-gitea-delivery", "x-gitea-event"),
        ForgeKind::Generic | ForgeKind::Local => ("x-bailiwick-delivery", "x-bailiwick-event"),
    }
}

/// One answer for all that is not believed: nobody learns which repositories there are.
fn unbelieved() -> Problem {
    Problem::unauthorized(
        "no repository of this name takes webhooks, or the signature is not made with its secret",
    )
}

fn plain(headers: &HeaderMap) -> BTreeMap<String, String> {
    let text = |value: &hyper::header::HeaderValue| value.to_str().ok().map(str::to_owned);
    let mut seen = BTreeMap::new();
    for name in headers.keys() {
        let mut values = headers.get_all(name).iter();
        // A header that is there twice means two things: it is taken for none.
        if let (Some(value), None) = (values.next().and_then(text), values.next()) {
            seen.insert(name.as_str().to_owned(), value);
        }
    }
    seen
}

/// An id or the name of an event, as a sender gives it.
fn word<'a>(headers: &'a BTreeMap<String, String>, name: &str) -> Result<&'a str, Problem> {
    let given = headers.get(name).map(String::as_str).unwrap_or_default();
    let fits = (1..=200).contains(&given.len())
        && given.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    let message = || format!("send `{name}`: letters, digits, `-`, `_`, `.` and `:`, at most 200");
    fits.then_some(given).ok_or_else(|| Problem::bad(message()))
}

pub(crate) async fn receive<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
) -> Answer {
    let name = asked.param("repository");
    let Some(taker) = known(app, name).await? else {
        app.metrics.delivery("unbelieved");
        tracing::warn!(repository = name, "a webhook for a repository that takes none");
        return Err(unbelieved());
    };
    let (repository, secret) = &*taker;
    let headers = plain(&asked.headers);
    let webhook =
        Unverified { forge: repository.forge, secret, headers: &headers, body: &asked.body };
    if let Err(why) = app.fleet.verify_webhook(webhook) {
        app.metrics.delivery("unbelieved");
        tracing::warn!(repository = name, %why, "a webhook is not believed");
        note(app, asked, name).await?;
        return Err(unbelieved());
    }
    let (id, event) = names(repository.forge);
    let (delivery_id, event) = (word(&headers, id)?, word(&headers, event)?);
    let digest = Sha256Hex::of(&asked.body).to_string();
    let made_from = Sha256Hex::of(format!("{DEFAULT_NAMESPACE}/{name}\n{delivery_id}"));
    let object_name = format!("wd-{}", made_from.prefix(40));
    let telling = headers.iter().filter(|(name, _)| TELLING.contains(&name.as_str()));
    let spec = WebhookDelivery {
        forge: repository.forge,
        delivery_id: delivery_id.to_owned(),
        event: event.to_owned(),
        repository: name.to_owned(),
        payload_digest: digest,
        bytes: u64::try_from(asked.body.len()).unwrap_or(u64::MAX),
        received_at: asked.now,
        headers: telling.map(|(name, value)| (name.clone(), value.clone())).collect(),
    };
    let incoming = || IncomingDelivery {
        name: object_name.clone(),
        spec: spec.clone(),
        payload: asked.body.to_vec(),
    };
    let received = match app.store.receive(incoming()).await {
        // The same one came at the same moment and was quicker: now it can be compared.
        Err(FleetError::AlreadyExists { .. }) => app.store.receive(incoming()).await?,
        received => received?,
    };
    let (status, again) = match received {
        Received::New => (StatusCode::ACCEPTED, false),
        Received::Again => (StatusCode::OK, true),
        Received::Contradicts => {
            app.metrics.delivery("contradicting");
            let message = "a delivery of this id is kept, with other bytes; give each its own id";
            return Err(Problem::conflict("DELIVERY_CONTRADICTS", message)
                .about(format!("WebhookDelivery/{DEFAULT_NAMESPACE}/{object_name}")));
        }
    };
    app.metrics.delivery(if again { "again" } else { "new" });
    json(status, &DeliveryAnswer { delivery: object_name, again })
}

/// A repository that takes webhooks, and the secret that they are signed with.
type Taker = (Repository, Vec<u8>);

/// Repositories that are being read. Those who ask for one at the same time share one reading, that began
/// after the last of them had asked: nobody is told what was so before. Nothing is kept beyond that.
#[derive(Default)]
pub(crate) struct Takers(Mutex<BTreeMap<String, Arc<Shared>>>);

/// What was read last, and when that began.
type Shared = tokio::sync::Mutex<Option<(Instant, Arc<Taker>)>>;

/// Somebody who asks.
struct Visit<'a> {
    takers: &'a Takers,
    name: &'a str,
    shared: Arc<Shared>,
}

impl Takers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Shared>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn visit<'a>(&'a self, name: &'a str) -> Visit<'a> {
        let shared = Arc::clone(self.all().entry(name.to_owned()).or_default());
        Visit { takers: self, name, shared }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut all = self.takers.all();
        // The last one: the other is the list's own.
        if Arc::strong_count(&self.shared) <= 2 {
            all.remove(self.name);
        }
    }
}

/// The repository and the secret that its webhooks are signed with.
async fn known<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    name: &str,
) -> Result<Option<Arc<Taker>>, Problem> {
    if !is_object_name(name) {
        return Ok(None);
    }
    let asked = Instant::now();
    let visit = app.takers.visit(name);
    let mut shared = visit.shared.lock().await;
    if let Some((begun, taker)) = &*shared
        && *begun >= asked
    {
        return Ok(Some(Arc::clone(taker)));
    }
    let begun = Instant::now();
    let taker = read(app, name).await?.map(Arc::new);
    *shared = taker.clone().map(|taker| (begun, taker));
    Ok(taker)
}

async fn read<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    name: &str,
) -> Result<Option<Taker>, Problem> {
    let Some(object) = app.store.get(Kind::Repository, DEFAULT_NAMESPACE, name).await? else {
        return Ok(None);
    };
    let repository = object.typed::<Repository>()?.spec;
    let Some(key) = &repository.webhook_secret_ref else { return Ok(None) };
    let secret = app.store.secret_value(DEFAULT_NAMESPACE, &key.name, &key.key).await?;
    // An empty secret is none: anybody could sign with it.
    Ok(secret.filter(|secret| !secret.is_empty()).map(|secret| (repository, secret)))
}

/// A line in the audit log, and not one for each of a flood.
async fn note<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
    repository: &str,
) -> Result<(), Problem> {
    if app.unbelieved.take(repository.to_owned(), 1.0, Instant::now()).is_err() {
        return Ok(());
    }
    let subject = format!("Repository/{DEFAULT_NAMESPACE}/{repository}");
    let detail = value!({ "bytes": asked.body.len() });
    let line = asked.audit("WebhookSignatureDenied", subject, detail);
    app.store.commit(vec![Write::Audit(line)], asked.now).await?;
    Ok(())
}
