//! The actions on a run: what a person may do, why something is not possible now, and the jobs of long actions.

use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{
    LocalAction, LocalJob, LocalJobState, LocalOutcome, LocalVerb, LocalVerbRequest,
};
use bailiwick_resources::Moment;
use bailiwick_server::{ApiError, Session};
use serde::Deserialize;

use crate::change::{bad_request, change_and_show};
use crate::site::Site;
use crate::text::{Time, encoded, line};

const MAX_STEP: usize = 300;
/// Jobs that are shown on the page of a run.
pub(crate) const MAX_JOBS: usize = 5;

/// An action as the page offers it.
pub(crate) struct Action {
    pub(crate) verb: &'static str,
    pub(crate) label: &'static str,
    pub(crate) hint: &'static str,
    /// The label of the text that goes with it; none if it has no text.
    pub(crate) text_label: Option<String>,
    pub(crate) needs_text: bool,
    /// Why it is not possible now.
    pub(crate) impossible: Option<String>,
}

impl Action {
    /// None if the scope of the person does not permit the action at all.
    pub(crate) fn new(session: &Session, action: &LocalAction) -> Option<Self> {
        let verb = action.action;
        if session.scope() < verb.scope() {
            return None;
        }
        let (label, hint) = words(verb);
        let text_label = match verb {
            LocalVerb::Message => Some("Message".to_owned()),
            LocalVerb::Resume => Some("Message for “Resume”".to_owned()),
            LocalVerb::Stop | LocalVerb::Reject | LocalVerb::Respawn | LocalVerb::Rollback => {
                Some(format!("Reason for “{label}”"))
            }
            LocalVerb::Verify | LocalVerb::Land | LocalVerb::Remove => None,
        };
        Some(Self {
            verb: verb.as_str(),
            label,
            hint,
            text_label,
            needs_text: action.needs_text,
            impossible: action.impossible.as_deref().map(|why| line(why, MAX_STEP)),
        })
    }
}

fn words(verb: LocalVerb) -> (&'static str, &'static str) {
    match verb {
        LocalVerb::Stop => ("Stop", "The agent is stopped; its work is kept."),
        LocalVerb::Message => ("Send a message", "The agent reads it before its next turn."),
        LocalVerb::Resume => ("Resume", "The agent continues its conversation."),
        LocalVerb::Verify => ("Verify", "Every check runs on the work and on the merged tree."),
        LocalVerb::Land => ("Land", "The work is verified on the base; exactly that tree lands."),
        LocalVerb::Reject => ("Reject", "The work is kept and does not land."),
        LocalVerb::Respawn => {
            ("Try again", "A new agent gets the task and the reasons, and starts.")
        }
        LocalVerb::Rollback => ("Roll back", "A commit reverts what landed."),
        LocalVerb::Remove => ("Remove files", "The worktree is removed; the record stays."),
    }
}

/// A job as the page shows it.
pub(crate) struct JobView {
    pub(crate) label: &'static str,
    pub(crate) state: &'static str,
    pub(crate) class: &'static str,
    pub(crate) actor: String,
    pub(crate) started: Time,
    /// What came of it, or the newest step.
    pub(crate) text: String,
    pub(crate) steps: Vec<String>,
}

/// The newest jobs of a run.
pub(crate) fn job_views(jobs: &[LocalJob], now: Moment) -> Vec<JobView> {
    let view = |job: &LocalJob| {
        let (state, class) = match job.state {
            LocalJobState::Running => ("running", "working"),
            LocalJobState::Succeeded => ("done", "ended"),
            LocalJobState::Failed => ("failed", "needs-you"),
        };
        let text = match job.state {
            LocalJobState::Running => job.progress.last().map(String::as_str).unwrap_or_default(),
            LocalJobState::Succeeded | LocalJobState::Failed => &job.message,
        };
        JobView {
            label: words(job.action).0,
            state,
            class,
            actor: line(&job.actor, MAX_STEP),
            started: Time::new(job.started_at, now),
            text: line(text, MAX_STEP),
            steps: job.progress.iter().map(|step| line(step, MAX_STEP)).collect(),
        }
    };
    jobs.iter().take(MAX_JOBS).map(view).collect()
}

#[derive(Deserialize)]
struct ActionForm {
    action: String,
    #[serde(default)]
    text: String,
    /// `inbox` if it is to be shown afterwards; otherwise the page of the run is.
    #[serde(default)]
    back: String,
}

pub(crate) async fn act(site: &Site, name: &str, request: Request) -> Response {
    change_and_show(site, request, async |session: &Session, form: ActionForm| {
        let ActionForm { action, text, back } = form;
        let verb = LocalVerb::ALL.into_iter().find(|verb| verb.as_str() == action);
        let verb = verb.ok_or_else(|| bad_request("there is no such action"))?;
        let run = perform(site, session, name, verb, text).await?;
        Ok(match back.as_str() {
            "inbox" => format!("{}/inbox", site.base),
            _ => format!("{}/local/{}", site.base, encoded(&run)),
        })
    })
    .await
}

/// Performs an action on a run, and returns the run that shows what came of it.
pub(crate) async fn perform(
    site: &Site,
    session: &Session,
    name: &str,
    verb: LocalVerb,
    text: String,
) -> Result<String, ApiError> {
    let path = format!("/api/v1alpha1/local/runs/{}/{}", encoded(name), verb.as_str());
    let request = LocalVerbRequest { text };
    if verb.is_job() {
        return Ok(site.api.post::<LocalJob>(session, &path, &request).await?.run);
    }
    Ok(site.api.post::<LocalOutcome>(session, &path, &request).await?.run)
}
