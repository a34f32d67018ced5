//! The artifacts of a run: its files, each to download.

use askama::Template;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{LocalArtifact, LocalArtifacts};
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};

use crate::layout::{Layout, html};
use crate::run::{RunHeader, Tab};
use crate::run_part::read;
use crate::site::Site;
use crate::text::{encoded, line, number};

const MAX_NAME: usize = 200;

#[derive(Template)]
#[template(path = "artifacts.html")]
struct ArtifactsPage {
    layout: Layout,
    header: RunHeader,
    missing: Option<String>,
    rows: Vec<ArtifactRow>,
}

struct ArtifactRow {
    href: String,
    name: String,
    about: String,
    bytes: String,
    digest: String,
    unreadable: Option<String>,
}

pub(crate) async fn page(site: &Site, name: &str, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let part = match read::<LocalArtifacts>(site, &session, name, Tab::Artifacts).await {
        Ok(part) => part,
        Err(error) => return site.error(Some(&session), &error),
    };
    let (artifacts, missing) = match part.data {
        Ok(artifacts) => (artifacts, None),
        Err(gone) => (LocalArtifacts::default(), Some(gone.to_string())),
    };
    let row = |one: &LocalArtifact| ArtifactRow {
        href: format!("{}/local/{}/artifacts/{}", site.base, encoded(name), encoded(&one.name)),
        name: line(&one.name, MAX_NAME),
        about: line(&one.about, MAX_NAME),
        bytes: number(one.bytes),
        digest: line(&one.digest, MAX_NAME),
        unreadable: one.unreadable.as_deref().map(|why| line(why, MAX_NAME)),
    };
    let page = ArtifactsPage {
        layout: part.layout,
        header: part.header,
        missing,
        rows: artifacts.items.iter().map(row).collect(),
    };
    html(StatusCode::OK, &page)
}

/// Sends a file of a run; never as a page, since an agent may have written it.
pub(crate) async fn download(
    site: &Site,
    (name, file): (&str, &str),
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let own = format!("/api/v1alpha1/local/runs/{}", encoded(name));
    let path = format!("{own}/artifacts/{}", encoded(file));
    match site.api.get_bytes(&session, &path).await {
        Ok(bytes) => {
            let mut response = Response::new(Body::from(bytes));
            let headers = response.headers_mut();
            let content = HeaderValue::from_static("application/octet-stream");
            headers.insert(CONTENT_TYPE, content);
            headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
            response
        }
        Err(error) => site.error(Some(&session), &error),
    }
}
