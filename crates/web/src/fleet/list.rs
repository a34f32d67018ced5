//! The objects of one kind: state, what to do about it, and pages by cursor.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_resources::{AnyObject, Author, DEFAULT_NAMESPACE, Kind, Moment};
use bailiwick_server::{ApiError, ObjectList, Session};
use hyper::StatusCode;
use serde::Deserialize;

use super::state::{ObjectState, brief};
use super::{MAX_NAME, kind_of, layout, may_administer, object_path, unknown_kind};
use crate::clock::now;
use crate::layout::{Layout, html};
use crate::site::{Site, query};
use crate::text::{Time, encoded, line};

const PAGE_SIZE: usize = 100;

#[derive(Template)]
#[template(path = "fleet/list.html")]
struct ListPage {
    layout: Layout,
    kind: Kind,
    namespace: String,
    rows: Vec<ObjectRow>,
    next: Option<String>,
    is_filtered: bool,
    /// The address of the editor, for those who may use it.
    editor: Option<String>,
    /// Whether the control plane writes the objects of this kind.
    is_record: bool,
    is_delivery: bool,
}

/// A line of a list of objects.
pub(crate) struct ObjectRow {
    pub(crate) href: String,
    pub(crate) name: String,
    /// Empty for the default namespace.
    pub(crate) namespace: String,
    pub(crate) brief: String,
    pub(crate) state: ObjectState,
    pub(crate) created: Option<Time>,
}

impl ObjectRow {
    pub(crate) fn new(base: &str, object: &AnyObject, now: Moment) -> Self {
        let metadata = &object.metadata;
        let namespace = match metadata.namespace.as_str() {
            DEFAULT_NAMESPACE => String::new(),
            other => line(other, MAX_NAME),
        };
        Self {
            href: object_path(base, &metadata.namespace, object.kind, &metadata.name),
            name: line(&metadata.name, MAX_NAME),
            namespace,
            brief: brief(object),
            state: ObjectState::of(object),
            created: metadata.creation_timestamp.map(|at| Time::new(at, now)),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    after: String,
}

pub(crate) async fn page(site: &Site, plural: &str, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let query = match query::<ListQuery>(&parts) {
        Ok(query) => query,
        Err(error) => return site.error(Some(&session), &error),
    };
    match list_page(site, &session, plural, query).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

async fn list_page(
    site: &Site,
    session: &Session,
    plural: &str,
    query: ListQuery,
) -> Result<ListPage, ApiError> {
    let kind = kind_of(plural).ok_or_else(|| unknown_kind(plural))?;
    let mut path = format!("/api/v1alpha1/{}?limit={PAGE_SIZE}", kind.plural());
    // Records come in by themselves: the newest ones are of interest.
    if kind.author() == Author::ControlPlane {
        path += "&order=newest";
    }
    for (key, value) in [("namespace", &query.namespace), ("continue", &query.after)] {
        if !value.is_empty() {
            path += &format!("&{key}={}", encoded(value));
        }
    }
    let list: ObjectList = site.api.get(session, &path).await?;
    let layout = layout(site, session, kind.as_str()).await?;
    let now = now();
    let own = format!("{}/fleet/kinds/{}", site.base, kind.plural());
    let next = list.metadata.next.map(|next| match query.namespace.as_str() {
        "" => format!("{own}?after={}", encoded(&next)),
        namespace => format!("{own}?namespace={}&after={}", encoded(namespace), encoded(&next)),
    });
    let is_editable = kind.author() == Author::People && kind != Kind::Secret;
    Ok(ListPage {
        rows: list.items.iter().map(|object| ObjectRow::new(&site.base, object, now)).collect(),
        next,
        is_filtered: !query.namespace.is_empty() || !query.after.is_empty(),
        namespace: query.namespace,
        editor: (is_editable && may_administer(session))
            .then(|| format!("{}/fleet/edit?kind={}", site.base, kind.plural())),
        is_record: kind.author() == Author::ControlPlane,
        is_delivery: kind == Kind::WebhookDelivery,
        kind,
        layout,
    })
}
