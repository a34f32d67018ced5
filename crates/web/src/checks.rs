//! The checks of a run: every verification with its evidence and output.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{LocalCheck, LocalRunDetail, LocalVerification, LocalVerifications};
use bailiwick_resources::Moment;
use bailiwick_server::{ApiError, Session};
use hyper::StatusCode;

use crate::clock::now;
use crate::layout::{Layout, Section, html};
use crate::run::{RunHeader, Tab, follow_side};
use crate::site::Site;
use crate::text::{MAX_SHOWN, Time, encoded, line, shortened, visible};

const MAX_NAME: usize = 200;
const MAX_FOUND: usize = 2_000;

#[derive(Template)]
#[template(path = "checks.html")]
struct ChecksPage {
    layout: Layout,
    header: RunHeader,
    verifications: Vec<VerificationView>,
}

struct VerificationView {
    at: Time,
    failed: usize,
    total: usize,
    /// What was checked: commits and trees.
    objects: Vec<CheckedObject>,
    checks: Vec<CheckView>,
    left_out: String,
}

/// A commit or a tree.
struct CheckedObject {
    label: &'static str,
    shown: String,
    /// The whole ID, for a person who copies it.
    id: String,
}

impl CheckedObject {
    /// None if neither is known.
    fn new(label: &'static str, branch: &str, id: &str) -> Option<Self> {
        let short: String = id.chars().take(12).collect();
        let shown = format!("{} {short}", line(branch, MAX_NAME)).trim().to_owned();
        (!shown.is_empty()).then(|| Self { label, shown: visible(&shown), id: visible(id) })
    }
}

struct CheckView {
    capability: String,
    tree: &'static str,
    passed: bool,
    reused: bool,
    found: String,
    output: String,
    left_out: usize,
}

impl VerificationView {
    fn new(one: &LocalVerification, now: Moment) -> Self {
        let branch = one.base_branch.trim_start_matches("refs/heads/");
        let objects = [
            CheckedObject::new("Base", branch, &one.base),
            CheckedObject::new("Work", "", &one.work),
            CheckedObject::new("Tree", "", &one.tree),
            CheckedObject::new("Merged tree", "", &one.merged_tree),
        ];
        Self {
            at: Time::new(one.at, now),
            failed: one.checks.iter().filter(|check| !check.passed).count(),
            total: one.checks.len(),
            objects: objects.into_iter().flatten().collect(),
            checks: one.checks.iter().map(CheckView::new).collect(),
            left_out: line(&one.left_out.join(", "), MAX_FOUND),
        }
    }
}

impl CheckView {
    fn new(check: &LocalCheck) -> Self {
        let (output, left_out) = shortened(check.output.as_deref().unwrap_or_default(), MAX_SHOWN);
        Self {
            capability: line(&check.capability, MAX_NAME),
            tree: if check.merged { "merged onto the base" } else { "as it is" },
            passed: check.passed,
            reused: check.reused,
            found: line(&check.found, MAX_FOUND),
            output,
            left_out,
        }
    }
}

pub(crate) async fn page(site: &Site, name: &str, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    match checks_page(site, &session, name).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

async fn checks_page(site: &Site, session: &Session, name: &str) -> Result<ChecksPage, ApiError> {
    let own = format!("/api/v1alpha1/local/runs/{}", encoded(name));
    let detail: LocalRunDetail = site.api.get(session, &own).await?;
    let checks: LocalVerifications = site.api.get(session, &format!("{own}/checks")).await?;
    let header = RunHeader::read(site, session, &detail, Tab::Checks).await?;
    let mut layout = site.frame(session, line(&detail.run.name, MAX_NAME)).await?.layout;
    layout.section = Section::Runs;
    follow_side(&mut layout, &detail);
    // A verification adds to the content as well.
    layout.updates.clear();
    let now = now();
    Ok(ChecksPage {
        layout,
        header,
        verifications: checks.items.iter().map(|one| VerificationView::new(one, now)).collect(),
    })
}
