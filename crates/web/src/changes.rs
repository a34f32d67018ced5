//! The changes of a run: every file, every line.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{LocalRunDetail, LocalRunDiff};
use bailiwick_server::{ApiError, Session};
use hyper::StatusCode;

use crate::layout::{Layout, Section, html};
use crate::patch::{FilePatch, files};
use crate::run::{RunHeader, Tab, jobs};
use crate::site::Site;
use crate::text::{encoded, line, visible};

#[derive(Template)]
#[template(path = "changes.html")]
struct ChangesPage {
    layout: Layout,
    header: RunHeader,
    files: Vec<FilePatch>,
    left_out: Vec<String>,
    added: usize,
    removed: usize,
    /// Why there is no diff.
    missing: Option<String>,
}

pub(crate) async fn page(site: &Site, name: &str, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    match changes_page(site, &session, name).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

async fn changes_page(site: &Site, session: &Session, name: &str) -> Result<ChangesPage, ApiError> {
    let own = format!("/api/v1alpha1/local/runs/{}", encoded(name));
    let detail: LocalRunDetail = site.api.get(session, &own).await?;
    let diff: Result<LocalRunDiff, ApiError> = site.api.get(session, &format!("{own}/diff")).await;
    let (diff, missing) = match diff {
        Ok(diff) => (diff, None),
        // The worktree may be gone: the page says it, and the rest of the run stays readable.
        Err(error) if error.status == StatusCode::CONFLICT => {
            (LocalRunDiff::default(), Some(visible(&error.message)))
        }
        Err(error) => return Err(error),
    };
    let mut layout = site.frame(session, line(&detail.run.name, 200)).await?.layout;
    layout.section = Section::Runs;
    let jobs = jobs(site, session, &detail.run.id).await?;
    let header = RunHeader::new(site, session, &detail, &jobs, Tab::Changes);
    let paths: Vec<String> = diff.files.iter().map(|file| file.path.clone()).collect();
    let files = files(&diff.patch, &paths);
    Ok(ChangesPage {
        layout,
        header,
        added: files.iter().map(|file| file.added).sum(),
        removed: files.iter().map(|file| file.removed).sum(),
        files,
        left_out: diff.left_out.iter().map(|path| visible(path)).collect(),
        missing,
    })
}
