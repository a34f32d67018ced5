//! Reads objects, lists, changes, the audit log and stored bytes.

use std::sync::Arc;

use axum::body::Body;
use bailiwick_fleet::ports::{AuditEntry, Fleet, FleetError, FleetStore};
use bailiwick_resources::{API_VERSION, AnyObject, Kind};
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::select::{pairs, selection};
use crate::app::App;
use crate::changes::watch;
use crate::frame::Filter;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok, text};

/// A page of objects of a kind.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectList {
    /// `bailiwick.dev/v1alpha1`.
    pub api_version: String,
    /// The kind of the objects.
    pub kind: Kind,
    /// The start of the next page, and the version to watch from.
    pub metadata: ListMetadata,
    /// The objects.
    pub items: Vec<AnyObject>,
}

/// The metadata of a page.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMetadata {
    /// The version of the store at the time of reading: watch from here.
    pub resource_version: u64,
    /// Send it as `continue` for the next page; absent on the last page.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A page of the audit log.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditList {
    /// The entries, oldest first.
    pub items: Vec<AuditLine>,
}

/// An entry of the audit log with its number.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditLine {
    /// Its number; send it as `after` for the next page.
    pub number: u64,
    /// The entry.
    pub entry: AuditEntry,
}

pub(crate) async fn list<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    let selection = selection(request)?;
    if request.wants_stream()? {
        return watch(app, request, selection.into()).await;
    }
    if request.query.contains_key("resourceVersion") {
        return Err(Problem::bad_request("`resourceVersion` needs watch=1"));
    }
    let page = app.store.list(&selection).await?;
    ok(&ObjectList {
        api_version: API_VERSION.to_owned(),
        kind: selection.kind,
        metadata: ListMetadata { resource_version: page.version, next: page.next },
        items: page.objects,
    })
}

pub(crate) async fn events<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["namespace", "kind", "labelSelector", "watch", "resourceVersion"])?;
    let kind = |text: &str| {
        let unknown =
            |error: bailiwick_resources::UnknownKind| Problem::bad_request(error.to_string());
        text.trim().parse::<Kind>().map_err(unknown)
    };
    let kinds = request.query.get("kind").map(|text| text.split(',').map(kind).collect());
    let labels = request.query.get("labelSelector").map(|text| pairs("labelSelector", text));
    let filter = Filter {
        kinds: kinds.transpose()?.unwrap_or_default(),
        namespace: request.named_namespace().map(str::to_owned),
        labels: labels.transpose()?.unwrap_or_default(),
        fields: Vec::new(),
    };
    watch(app, request, filter).await
}

pub(crate) async fn read<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["namespace"])?;
    ok(&find(app, request).await?)
}

/// The object that the path names.
pub(super) async fn find<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> Result<AnyObject, Problem> {
    let (kind, target) = (request.kind()?, request.target()?);
    let found = app.store.get(kind, &target.namespace, &target.name).await?;
    found.ok_or_else(|| {
        FleetError::NotFound { kind, namespace: target.namespace, name: target.name }.into()
    })
}

pub(crate) async fn audit<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["after", "limit"])?;
    let after = request.number("after")?.unwrap_or_default();
    let limit = request.number("limit")?.unwrap_or(500).clamp(1, 1_000);
    let lines = app.store.audit(after, usize::try_from(limit).unwrap_or(1)).await?;
    let items = lines.into_iter().map(|(number, entry)| AuditLine { number, entry }).collect();
    ok(&AuditList { items })
}

pub(crate) async fn blob<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let digest = request.param("digest");
    let bytes = app.store.blob(digest).await?;
    let bytes = bytes.ok_or_else(|| Problem::not_found("nothing is stored under this digest"))?;
    // Content of agents and other clients must not be shown as a web page of this server.
    let mut response = text("application/octet-stream", Body::from(bytes));
    let attachment = HeaderValue::from_static("attachment");
    response.headers_mut().insert(CONTENT_DISPOSITION, attachment);
    Ok(response)
}
