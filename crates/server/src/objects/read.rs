//! Looking: one object, some objects, changes, the audit log, kept bytes.

use std::sync::Arc;

use axum::body::Body;
use bailiwick_fleet::ports::{AuditEntry, Fleet, FleetError, FleetStore};
use bailiwick_resources::{API_VERSION, AnyObject, Kind};
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::select::{pairs, selection};
use crate::app::App;
use crate::asked::{Answer, Asked, ok, text};
use crate::changes::{Filter, watch};
use crate::problem::Problem;

/// Some objects of a kind.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectList {
    /// `bailiwick.dev/v1alpha1`.
    pub api_version: String,
    /// The kind of the objects.
    pub kind: Kind,
    /// Where the next ones begin, and what to watch from.
    pub metadata: ListMetadata,
    /// The objects.
    pub items: Vec<AnyObject>,
}

/// Where a list stands.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMetadata {
    /// The version of the store when it was read: watch from here.
    pub resource_version: u64,
    /// What to send as `continue` for the next ones; nothing at the end.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Some lines of the audit log.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditList {
    /// The lines, the oldest first.
    pub items: Vec<AuditLine>,
}

/// A line of the audit log and its number.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditLine {
    /// Its number: what to send as `after` for the next ones.
    pub number: u64,
    /// The line.
    pub entry: AuditEntry,
}

pub(crate) async fn list<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    let selection = selection(asked)?;
    if asked.wants_stream()? {
        return watch(app, asked, selection.into()).await;
    }
    if asked.query.contains_key("resourceVersion") {
        return Err(Problem::bad("`resourceVersion` is for watching: add watch=1"));
    }
    let page = app.store.list(&selection).await?;
    ok(&ObjectList {
        api_version: API_VERSION.to_owned(),
        kind: selection.kind,
        metadata: ListMetadata { resource_version: page.version, next: page.next },
        items: page.objects,
    })
}

pub(crate) async fn events<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&["namespace", "kind", "labelSelector", "watch", "resourceVersion"])?;
    let kind = |text: &str| {
        let unknown = |error: bailiwick_resources::UnknownKind| Problem::bad(error.to_string());
        text.trim().parse::<Kind>().map_err(unknown)
    };
    let kinds = asked.query.get("kind").map(|text| text.split(',').map(kind).collect());
    let labels = asked.query.get("labelSelector").map(|text| pairs("labelSelector", text));
    let filter = Filter {
        kinds: kinds.transpose()?.unwrap_or_default(),
        namespace: asked.named_namespace().map(str::to_owned),
        labels: labels.transpose()?.unwrap_or_default(),
        fields: Vec::new(),
    };
    watch(app, asked, filter).await
}

pub(crate) async fn read<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&["namespace"])?;
    ok(&found(app, asked).await?)
}

/// The object that a path names.
pub(super) async fn found<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
) -> Result<AnyObject, Problem> {
    let (kind, target) = (asked.kind()?, asked.target()?);
    let found = app.store.get(kind, &target.namespace, &target.name).await?;
    found.ok_or_else(|| {
        FleetError::NotFound { kind, namespace: target.namespace, name: target.name }.into()
    })
}

pub(crate) async fn audit<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&["after", "limit"])?;
    let after = asked.number("after")?.unwrap_or_default();
    let limit = asked.number("limit")?.unwrap_or(500).clamp(1, 1_000);
    let lines = app.store.audit(after, usize::try_from(limit).unwrap_or(1)).await?;
    let items = lines.into_iter().map(|(number, entry)| AuditLine { number, entry }).collect();
    ok(&AuditList { items })
}

pub(crate) async fn blob<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&[])?;
    let digest = asked.param("digest");
    let bytes = app.store.blob(digest).await?;
    let bytes = bytes.ok_or_else(|| Problem::not_found("nothing is kept under this digest"))?;
    // What agents and strangers wrote must not be shown as a page of ours.
    let mut response = text("application/octet-stream", Body::from(bytes));
    let attachment = HeaderValue::from_static("attachment");
    response.headers_mut().insert(CONTENT_DISPOSITION, attachment);
    Ok(response)
}
