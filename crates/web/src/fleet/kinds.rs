//! The first page of the fleet: every declared kind with its number of objects, and what needs attention.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_resources::{Author, Kind};
use bailiwick_server::{ApiError, ObjectList, Session};
use hyper::StatusCode;

use super::state::ObjectState;
use super::{MAX_NAME, layout, object_path};
use crate::layout::{Layout, html};
use crate::site::Site;
use crate::text::line;

/// Objects of one kind that are counted; beyond that the page says "or more".
const MAX_COUNTED: usize = 500;
/// Objects that need attention and are listed here; the rest is in the lists of their kinds.
const MAX_ATTENTION: usize = 20;

#[derive(Template)]
#[template(path = "fleet/kinds.html")]
struct KindsPage {
    layout: Layout,
    declared: Vec<KindLine>,
    records: Vec<KindLine>,
    attention: Vec<AttentionLine>,
    attention_left_out: usize,
    is_empty: bool,
}

struct KindLine {
    href: String,
    name: &'static str,
    count: String,
    not_ready: usize,
}

struct AttentionLine {
    href: String,
    kind: &'static str,
    name: String,
    state: ObjectState,
}

pub(crate) async fn page(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    match kinds_page(site, &session).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

async fn kinds_page(site: &Site, session: &Session) -> Result<KindsPage, ApiError> {
    let layout = layout(site, session, "Fleet").await?;
    let (mut declared, mut records, mut attention) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_empty = true;
    for &kind in Kind::ALL {
        let href = format!("{}/fleet/kinds/{}", site.base, kind.plural());
        if kind.author() == Author::ControlPlane {
            let count = String::new();
            records.push(KindLine { href, name: kind.as_str(), count, not_ready: 0 });
            continue;
        }
        let path = format!("/api/v1alpha1/{}?limit={MAX_COUNTED}", kind.plural());
        let list: ObjectList = site.api.get(session, &path).await?;
        let more = if list.metadata.next.is_some() { " or more" } else { "" };
        is_empty &= list.items.is_empty();
        let states = list.items.iter().map(|object| (object, ObjectState::of(object)));
        let before = attention.len();
        attention.extend(states.filter(|(_, state)| state.needs_attention).map(
            |(object, state)| {
                let metadata = &object.metadata;
                AttentionLine {
                    href: object_path(&site.base, &metadata.namespace, kind, &metadata.name),
                    kind: kind.as_str(),
                    name: line(&metadata.name, MAX_NAME),
                    state,
                }
            },
        ));
        declared.push(KindLine {
            href,
            name: kind.as_str(),
            count: format!("{}{more}", list.items.len()),
            not_ready: attention.len() - before,
        });
    }
    let attention_left_out = attention.len().saturating_sub(MAX_ATTENTION);
    attention.truncate(MAX_ATTENTION);
    Ok(KindsPage { layout, declared, records, attention, attention_left_out, is_empty })
}
