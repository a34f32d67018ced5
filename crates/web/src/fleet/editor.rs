//! The YAML editor: validation, a diff of what would change, and apply. Only for scope admin, as in the API.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_resources::{API_VERSION, AnyObject};
use bailiwick_server::{ApiError, ApplyAnswer, ApplyRequest, DiffAnswer, Session};
use hyper::StatusCode;
use serde::Deserialize;

use super::yaml::{declared, documents};
use super::{MAX_NAME, api_path, kind_of, layout, may_administer, object_path, unknown_kind, word};
use crate::change::{bad_request, change};
use crate::layout::{Layout, html};
use crate::site::{Site, query};
use crate::text::{line, visible};

#[derive(Template)]
#[template(path = "fleet/editor.html")]
struct EditorPage {
    layout: Layout,
    text: String,
    can_apply: bool,
    error: Option<String>,
    /// What would change; none before it was asked for.
    diff: Option<Vec<DiffView>>,
    applied: Option<Vec<AppliedLine>>,
}

struct DiffView {
    title: String,
    lines: Vec<(&'static str, String)>,
}

struct AppliedLine {
    href: String,
    name: String,
    outcome: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EditQuery {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct EditForm {
    text: String,
    action: String,
}

pub(crate) async fn page(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let query = match query::<EditQuery>(&parts) {
        Ok(query) => query,
        Err(error) => return site.error(Some(&session), &error),
    };
    let text = match start(site, &session, &query).await {
        Ok(text) => text,
        Err(error) => return site.error(Some(&session), &error),
    };
    show(site, &session, text, StatusCode::OK, None, None, None).await
}

/// The object that is edited, or the beginning of a new one.
async fn start(site: &Site, session: &Session, query: &EditQuery) -> Result<String, ApiError> {
    if query.kind.is_empty() {
        return Ok(String::new());
    }
    let kind = kind_of(&query.kind).ok_or_else(|| unknown_kind(&query.kind))?;
    if query.name.is_empty() {
        return Ok(format!(
            "apiVersion: {API_VERSION}\nkind: {kind}\nmetadata:\n  name: \nspec:\n"
        ));
    }
    let path = api_path(&query.namespace, kind, &query.name);
    let object: AnyObject = site.api.get(session, &path).await?;
    let text = declared(&object);
    if visible(&text) == text {
        return Ok(text);
    }
    let message = "this object has hidden characters, which an editor in a browser cannot show; use `bailiwick edit`";
    Err(ApiError {
        status: StatusCode::CONFLICT,
        code: "HIDDEN_CHARACTERS".to_owned(),
        message: message.to_owned(),
    })
}

async fn show(
    site: &Site,
    session: &Session,
    text: String,
    status: StatusCode,
    error: Option<String>,
    diff: Option<Vec<DiffView>>,
    applied: Option<Vec<AppliedLine>>,
) -> Response {
    match layout(site, session, "Edit").await {
        Ok(layout) => {
            let can_apply = may_administer(session);
            html(status, &EditorPage { layout, text, can_apply, error, diff, applied })
        }
        Err(error) => site.error(Some(session), &error),
    }
}

pub(crate) async fn submit(site: &Site, request: Request) -> Response {
    let (session, EditForm { text, action }) = match change::<EditForm>(site, request).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    // Browsers send line breaks of forms as CR LF.
    let text = text.replace("\r\n", "\n");
    if visible(&text) != text {
        let error = "the text has hidden characters; they are shown as marks, and must be removed";
        let (status, error) = (StatusCode::UNPROCESSABLE_ENTITY, Some(error.to_owned()));
        return show(site, &session, visible(&text), status, error, None, None).await;
    }
    let request = match documents(&text) {
        Ok(documents) => ApplyRequest { documents, requirements: Vec::new() },
        Err(error) => {
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            return show(site, &session, text, status, Some(visible(&error)), None, None).await;
        }
    };
    let done = match action.as_str() {
        "check" => check(site, &session, &request).await.map(|diff| (Some(diff), None)),
        "apply" => apply(site, &session, &request).await.map(|applied| (None, Some(applied))),
        _ => Err(bad_request("there is no such action")),
    };
    match done {
        Ok((diff, applied)) => {
            show(site, &session, text, StatusCode::OK, None, diff, applied).await
        }
        Err(error) if error.status == StatusCode::FORBIDDEN => site.error(Some(&session), &error),
        Err(error) => {
            let message = visible(&error.message);
            show(site, &session, text, error.status, Some(message), None, None).await
        }
    }
}

async fn check(
    site: &Site,
    session: &Session,
    request: &ApplyRequest,
) -> Result<Vec<DiffView>, ApiError> {
    // A dry run makes the same checks as the change itself.
    let _: ApplyAnswer = site.api.post(session, "/api/v1alpha1/apply?dryRun=All", request).await?;
    let answer: DiffAnswer = site.api.post(session, "/api/v1alpha1/diff", request).await?;
    let view = |diff: &bailiwick_fleet::resources::ObjectDiff| DiffView {
        title: line(&format!("{} {}/{}", diff.kind, diff.namespace, diff.name), MAX_NAME),
        lines: diff.diff.lines().map(|text| (class(text), visible(text))).collect(),
    };
    Ok(answer.items.iter().map(view).collect())
}

/// The class of a line of a diff.
fn class(text: &str) -> &'static str {
    match text.as_bytes().first() {
        Some(b'+') => "add",
        Some(b'-') => "del",
        Some(b'@') => "hunk",
        Some(_) | None => "same",
    }
}

async fn apply(
    site: &Site,
    session: &Session,
    request: &ApplyRequest,
) -> Result<Vec<AppliedLine>, ApiError> {
    let answer: ApplyAnswer = site.api.post(session, "/api/v1alpha1/apply", request).await?;
    let applied = answer.items.iter().map(|item| AppliedLine {
        href: object_path(&site.base, &item.namespace, item.kind, &item.name),
        name: line(&format!("{} {}/{}", item.kind, item.namespace, item.name), MAX_NAME),
        outcome: word(&item.outcome),
    });
    Ok(applied.collect())
}
