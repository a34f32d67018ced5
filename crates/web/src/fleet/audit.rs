//! The audit log: who did what to which object, the newest first.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_resources::Moment;
use bailiwick_server::{ApiError, AuditLine, AuditList, Session};
use hyper::StatusCode;
use serde::Deserialize;

use super::{MAX_LINE, MAX_NAME, kind_of, layout, object_path};
use crate::clock::now;
use crate::layout::{Layout, html};
use crate::site::{Site, query};
use crate::text::{Time, line};

const PAGE_SIZE: u64 = 100;

#[derive(Template)]
#[template(path = "fleet/audit.html")]
struct AuditPage {
    layout: Layout,
    rows: Vec<AuditRow>,
    older: Option<String>,
    newest: Option<String>,
}

struct AuditRow {
    number: u64,
    at: Time,
    actor: String,
    event: String,
    subject: String,
    href: Option<String>,
    detail: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuditQuery {
    /// Only entries with a smaller number.
    before: Option<u64>,
}

pub(crate) async fn page(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let query = match query::<AuditQuery>(&parts) {
        Ok(query) => query,
        Err(error) => return site.error(Some(&session), &error),
    };
    match audit_page(site, &session, &query).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

async fn read(
    site: &Site,
    session: &Session,
    after: u64,
    limit: u64,
) -> Result<Vec<AuditLine>, ApiError> {
    let path = format!("/api/v1alpha1/audit?after={after}&limit={limit}");
    Ok(site.api.get::<AuditList>(session, &path).await?.items)
}

/// A number after which there is no entry. The API counts up, so it is searched: twice as far while there are entries,
/// and then in halves.
async fn end(site: &Site, session: &Session) -> Result<u64, ApiError> {
    let (mut known, mut beyond) = (0, PAGE_SIZE);
    while let Some(entry) = read(site, session, beyond, 1).await?.first() {
        known = entry.number;
        beyond = known.saturating_mul(2);
    }
    while beyond > known.saturating_add(PAGE_SIZE) {
        let middle = known + (beyond - known) / 2;
        match read(site, session, middle, 1).await?.first() {
            Some(entry) => known = entry.number,
            None => beyond = middle,
        }
    }
    Ok(beyond)
}

async fn audit_page(
    site: &Site,
    session: &Session,
    query: &AuditQuery,
) -> Result<AuditPage, ApiError> {
    let end = match query.before {
        Some(before) => before.saturating_sub(1),
        None => end(site, session).await?,
    };
    // The last part of the log may be nearly empty, so that two parts are read.
    let start = end.saturating_sub(2 * PAGE_SIZE);
    let mut entries = read(site, session, start, 2 * PAGE_SIZE).await?;
    entries.retain(|entry| entry.number <= end);
    entries.reverse();
    let layout = layout(site, session, "Audit log").await?;
    let now = now();
    let first = entries.last().map_or(0, |entry| entry.number);
    let own = format!("{}/fleet/audit", site.base);
    Ok(AuditPage {
        rows: entries.iter().map(|entry| row(&site.base, entry, now)).collect(),
        older: (first > 1 && start > 0).then(|| format!("{own}?before={first}")),
        newest: query.before.is_some().then_some(own),
        layout,
    })
}

fn row(base: &str, AuditLine { number, entry }: &AuditLine, now: Moment) -> AuditRow {
    let mut parts = entry.subject.splitn(3, '/');
    let href = match (parts.next(), parts.next(), parts.next()) {
        (Some(kind), Some(namespace), Some(name)) => kind
            .parse()
            .ok()
            .and_then(|kind: bailiwick_resources::Kind| kind_of(kind.plural()))
            .map(|kind| object_path(base, namespace, kind, name)),
        (_, _, _) => None,
    };
    let detail = if entry.detail.is_null() { String::new() } else { entry.detail.to_string() };
    AuditRow {
        number: *number,
        at: Time::new(entry.at, now),
        actor: line(&entry.actor, MAX_NAME),
        event: line(&entry.event, MAX_NAME),
        subject: line(&entry.subject, MAX_LINE),
        href,
        detail: line(&detail, MAX_LINE),
    }
}
