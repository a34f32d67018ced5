//! Parses the payloads of forges, one format for each file, into `SourceEvent`s.

mod generic;
mod gitea;
mod github;
mod shapes;

use std::borrow::Cow;
use std::sync::Arc;

use bailiwick_resources::{EventSource, ForgeKind, Moment};
use serde_json::Value;
use thiserror::Error;

use super::event::SourceEvent;

/// The maximum size of a delivery: as much as the largest forge sends.
pub const MAX_PAYLOAD_BYTES: usize = 25 * 1024 * 1024;

/// A delivery whose signature was verified and whose bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// The format of its forge.
    pub forge: ForgeKind,
    /// The id that its sender gave it.
    pub id: &'a str,
    /// The event header.
    pub event: &'a str,
    /// The repository of its endpoint and secret.
    pub repository: &'a str,
    /// The name of the `WebhookDelivery`.
    pub name: &'a str,
    /// When it arrived.
    pub received_at: Moment,
}

/// Why a delivery has no events.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WireError {
    /// Too much.
    #[error("{bytes} bytes are more than the {MAX_PAYLOAD_BYTES} that a delivery may have")]
    TooLarge {
        /// How much it was.
        bytes: usize,
    },
    #[error(
        "the payload is not JSON ({why}); set the content type of the webhook to application/json"
    )]
    NoJson {
        /// The reason.
        why: String,
    },
    /// JSON of another shape.
    #[error("`{event}` of {forge}: {why}")]
    Shape {
        forge: &'static str,
        event: String,
        /// The reason.
        why: String,
    },
    /// It is about a repository whose secret it was not signed with.
    #[error("it is about `{found}`, but came with the secret of `{expected}`")]
    OtherRepository {
        /// The repository that it is about.
        found: String,
        /// The repository of the secret.
        expected: String,
    },
    /// A test of the webhook by a person.
    #[error("it is a test of the webhook, and starts nothing")]
    Test,
    /// There is no such format.
    #[error("a repository without a forge takes no webhooks")]
    NoForge,
}

/// The JSON of a payload. GitHub sends a form with one field unless the webhook says otherwise.
fn json_part(payload: &[u8]) -> Cow<'_, [u8]> {
    if !payload.starts_with(b"payload=") {
        return Cow::Borrowed(payload);
    }
    let json = form_urlencoded::parse(payload).next().map(|(_, json)| json.into_owned());
    Cow::Owned(json.unwrap_or_default().into_bytes())
}

/// Parses a delivery. The most specific source comes first; every delivery is also a `webhook`.
pub fn read(delivery: &Delivery<'_>, payload: &[u8]) -> Result<Vec<SourceEvent>, WireError> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(WireError::TooLarge { bytes: payload.len() });
    }
    let value: Value = serde_json::from_slice(&json_part(payload))
        .map_err(|error| WireError::NoJson { why: error.to_string() })?;
    let parsed = match delivery.forge {
        ForgeKind::Github => github::read(delivery, &value),
        ForgeKind::Gitea => gitea::read(delivery, &value),
        ForgeKind::Generic => generic::read(delivery, &value),
        ForgeKind::Local => return Err(WireError::NoForge),
    };
    let mut parsed = match parsed {
        Err(WireError::Test) => return Ok(Vec::new()),
        parsed => parsed?,
    };
    let same = parsed.event.repository.eq_ignore_ascii_case(delivery.repository);
    if !same {
        let found = parsed.event.repository.clone();
        let expected = delivery.repository.to_owned();
        return Err(WireError::OtherRepository { found, expected });
    }
    // An empty value is a missing one.
    for commit in [&mut parsed.event.sha, &mut parsed.event.base_sha] {
        commit.take_if(|commit| commit.is_empty());
    }
    for (what, commit) in [("sha", &parsed.event.sha), ("base", &parsed.event.base_sha)] {
        if let Some(commit) = commit.as_deref().filter(|commit| !is_commit(commit)) {
            let shown: String = commit.chars().take(60).collect();
            let why = format!("its {what} `{}` is no whole name of a commit", shown.escape_debug());
            let (forge, event) = ("the sender", delivery.event.to_owned());
            return Err(WireError::Shape { forge, event, why });
        }
    }
    parsed.event.payload = Arc::new(value);
    Ok(parsed.into_events())
}

/// Whether a text is the whole name of a commit: git would take anything else for a name that moves, or for
/// an option.
fn is_commit(text: &str) -> bool {
    let hex = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    hex && matches!(text.len(), 40 | 64)
}

/// The content of a delivery: one event, and its source besides `webhook`.
struct ParsedDelivery {
    event: SourceEvent,
    source: Option<EventSource>,
}

impl ParsedDelivery {
    fn into_events(self) -> Vec<SourceEvent> {
        let Self { mut event, source } = self;
        event.source = source.unwrap_or(EventSource::Webhook);
        event.telling = event.source;
        event.trust();
        let refs = &mut event.source_refs;
        refs.pull_request = event.pull_request;
        refs.issue = event.issue;
        refs.check.clone_from(&event.check);
        refs.pipeline.clone_from(&event.workflow);
        refs.job.clone_from(&event.job);
        let mut all = vec![event];
        if let Some(event) = all.first().filter(|event| event.source != EventSource::Webhook) {
            // The same content has the same trust under any source.
            let twin = SourceEvent { source: EventSource::Webhook, ..event.clone() };
            all.push(twin);
        }
        all
    }
}

/// An event of this delivery, of which only the delivery is known.
fn begun(delivery: &Delivery<'_>, repository: &str) -> SourceEvent {
    let mut event = SourceEvent::new(EventSource::Webhook, delivery.forge, delivery.id, repository);
    event.at = delivery.received_at;
    delivery.event.clone_into(&mut event.event);
    event.source_refs.webhook_delivery = Some(delivery.name.to_owned());
    event
}

/// The name of a forge in errors.
fn forge_name(forge: ForgeKind) -> &'static str {
    match forge {
        ForgeKind::Github => "GitHub",
        ForgeKind::Gitea => "Gitea",
        ForgeKind::Generic => "a generic sender",
        ForgeKind::Local => "this machine",
    }
}

/// Reads a payload as one shape.
fn shape<'a, T: serde::Deserialize<'a>>(
    delivery: &Delivery<'_>,
    value: &'a Value,
) -> Result<T, WireError> {
    T::deserialize(value).map_err(|error| WireError::Shape {
        forge: forge_name(delivery.forge),
        event: delivery.event.chars().take(64).collect(),
        why: error.to_string(),
    })
}
