//! The approvals of the control plane that wait: each is about one exact action.

use axum::extract::{Form, FromRequest as _, Request};
use axum::response::Response;
use bailiwick_fleet::ports::{
    ApprovalPreview, DecisionAnswer, DecisionRequest, TokenScope, Verdict,
};
use bailiwick_resources::{ActionType, AgentApproval, AnyObject, Moment, PatchCommit};
use bailiwick_server::{ApiError, Session, is_same_origin};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use crate::error_page::foreign_request;
use crate::layout::see_other;
use crate::site::Site;
use crate::text::{MAX_SHOWN, Time, duration, encoded, line, shortened, visible};

const MAX_NAME: usize = 120;
const MAX_WARNING: usize = 300;

/// An approval with its form.
pub(crate) struct ApprovalCard {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) run: String,
    pub(crate) action: &'static str,
    pub(crate) target: String,
    /// The target and its state for a person who copies them.
    pub(crate) whole_target: String,
    pub(crate) whole_target_state: String,
    pub(crate) summary: String,
    pub(crate) left_out: usize,
    /// Why an approval is needed.
    pub(crate) reasons: String,
    /// The digest of the action; an approval of another digest does not count.
    pub(crate) digest: String,
    pub(crate) target_state: String,
    /// Where the target is now, if it is not where it was.
    pub(crate) moved_to: Option<String>,
    /// Why the forge would refuse the action now, or why nobody knows.
    pub(crate) warning: Option<String>,
    /// Why nobody can see now what exactly would be done.
    pub(crate) unseen: Option<String>,
    /// The whole diff of a push, or the value that is sent.
    pub(crate) payload: String,
    pub(crate) payload_left_out: usize,
    pub(crate) asked: Option<Time>,
    pub(crate) expires_at: String,
    pub(crate) expires_in: String,
    pub(crate) can_answer: bool,
}

impl ApprovalCard {
    /// None if the object has another shape.
    pub(crate) async fn new(
        site: &Site,
        session: &Session,
        object: &AnyObject,
        now: Moment,
    ) -> Option<Self> {
        let spec = object.typed::<AgentApproval>().ok()?.spec;
        let (preview, unseen) = match preview(site, session, object).await {
            Ok(preview) => (Some(preview), None),
            Err(error) => (None, Some(line(&error.message, MAX_WARNING))),
        };
        let moved_to = preview.as_ref().and_then(|preview| {
            let now = preview.target_now.as_deref()?;
            (preview.target_state.as_deref() != Some(now)).then(|| line(now, MAX_NAME))
        });
        let warning = preview.as_ref().and_then(|preview| {
            let why = preview.obstacle.as_deref().or(preview.unknown.as_deref());
            let why = why.or(preview.note.as_deref());
            why.map(|why| line(why, MAX_WARNING))
        });
        let payload = preview.map(|preview| match (preview.diff, preview.content) {
            (Some(diff), _) => commits(&preview.commits) + &diff,
            (None, Some(content)) => serde_json::to_string_pretty(&content).unwrap_or_default(),
            (None, None) => String::new(),
        });
        let (payload, payload_left_out) = shortened(&payload.unwrap_or_default(), MAX_SHOWN);
        let (summary, left_out) = shortened(&spec.action.summary, MAX_SHOWN);
        let word = |reason: &_| match serde_json::to_value(reason) {
            Ok(Value::String(word)) => word,
            Ok(_) | Err(_) => String::new(),
        };
        let reasons: Vec<String> = spec.policy_reasons.iter().map(word).collect();
        let left = spec.expires_at.millis().saturating_sub(now.millis());
        Some(Self {
            namespace: object.metadata.namespace.clone(),
            name: object.metadata.name.clone(),
            run: line(&spec.dispatch_run, MAX_NAME),
            action: match spec.action.kind {
                ActionType::WriteBack(_) => "write to",
                ActionType::SecretAccess => "use secrets for",
                ActionType::NetworkExpanded => "reach more hosts for",
                ActionType::ToolCall => "make a tool call in",
                ActionType::Escalation => "grant more than its author has to",
            },
            target: line(&spec.action.target, MAX_NAME),
            whole_target: visible(&spec.action.target),
            whole_target_state: visible(spec.target_state.as_deref().unwrap_or_default()),
            summary,
            left_out,
            reasons: line(&reasons.join(", "), MAX_NAME),
            digest: spec.artifact_digest,
            target_state: line(spec.target_state.as_deref().unwrap_or_default(), MAX_NAME),
            moved_to,
            warning,
            unseen,
            payload,
            payload_left_out,
            asked: object.metadata.creation_timestamp.map(|at| Time::new(at, now)),
            expires_at: spec.expires_at.to_string(),
            expires_in: duration(left),
            can_answer: session.scope() >= TokenScope::Approver,
        })
    }
}

/// What each commit of a push says, who wrote it, and what it changes.
fn commits(all: &[PatchCommit]) -> String {
    let one = |commit: &PatchCommit| {
        let committer = commit.committer.as_deref();
        let committer = committer.map(|who| format!("Committer: {who}\n")).unwrap_or_default();
        let message: Vec<String> =
            commit.message.lines().map(|line| format!("    {line}")).collect();
        format!(
            "commit {}\nAuthor: {}\n{committer}\n{}\n\n    files: {}\n\n",
            commit.sha,
            commit.author,
            message.join("\n"),
            commit.files.join(", ")
        )
    };
    all.iter().map(one).collect()
}

/// Exactly what an approval allows.
async fn preview(
    site: &Site,
    session: &Session,
    object: &AnyObject,
) -> Result<ApprovalPreview, ApiError> {
    let (name, namespace) = (&object.metadata.name, &object.metadata.namespace);
    let path = format!(
        "/api/v1alpha1/approvals/{}/preview?namespace={}",
        encoded(name),
        encoded(namespace)
    );
    site.api.get(session, &path).await
}

#[derive(Deserialize)]
struct DecisionForm {
    namespace: String,
    name: String,
    digest: String,
    answer: Verdict,
    #[serde(default)]
    reason: String,
}

pub(crate) async fn decide(site: &Site, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if !is_same_origin(&parts.headers) {
        return foreign_request(&site.base);
    }
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let form = Form::<DecisionForm>::from_request(Request::from_parts(parts, body), &()).await;
    let Ok(Form(form)) = form else {
        let message = "the form is incomplete".to_owned();
        let (status, code) = (StatusCode::BAD_REQUEST, "BAD_REQUEST".to_owned());
        return site.error(Some(&session), &ApiError { status, code, message });
    };
    let path = format!(
        "/api/v1alpha1/approvals/{}/decision?namespace={}",
        encoded(&form.name),
        encoded(&form.namespace)
    );
    let request = DecisionRequest {
        decision: form.answer,
        comment: form.reason,
        approved_action_subset: Vec::new(),
        expected_artifact_digest: form.digest,
    };
    match site.api.post::<DecisionAnswer>(&session, &path, &request).await {
        Ok(_) => see_other(&format!("{}/inbox", site.base)),
        Err(error) => site.error(Some(&session), &error),
    }
}
