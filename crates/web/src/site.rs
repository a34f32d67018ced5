//! What the handlers of pages share: the way to the API, the frame of a page, and the link that signs in.

use std::sync::Arc;

use axum::extract::Query;
use axum::http::request::Parts;
use axum::response::Response;
use bailiwick_fleet::ports::{LocalQuestion, LocalQuestions, LocalRun, LocalRunList};
use bailiwick_resources::{AnyObject, Moment};
use bailiwick_server::{Api, ApiError, ObjectList, Session};
use hyper::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error_page::error_page;
use crate::layout::{Layout, see_other};
use crate::session::session;
use crate::sign_in_link::SignInLink;
use crate::text::encoded;

/// The questions of agents that wait.
const QUESTIONS: &str = "/api/v1alpha1/local/questions";
/// The approvals of the control plane that wait.
const APPROVALS: &str = "/api/v1alpha1/agentapprovals?fieldSelector=phase%3Dpending&limit=100";

/// The runs that wait for a person.
const WAITING_RUNS: &str = "/api/v1alpha1/local/runs?group=needs-you&limit=100";

/// The jobs of every run.
pub(crate) const JOBS: &str = "/api/v1alpha1/local/jobs";

/// Everything that waits for a person.
#[derive(Debug, Serialize)]
pub(crate) struct Waiting {
    pub(crate) questions: Vec<LocalQuestion>,
    /// Approvals of the control plane.
    pub(crate) approvals: Vec<AnyObject>,
    /// Whether there are more approvals than these.
    pub(crate) has_more_approvals: bool,
    /// Runs that wait for something else than an answer: a failed verification, a spent budget, a quarantine,
    /// verified work.
    pub(crate) runs: Vec<LocalRun>,
    /// Whether older runs can wait that are not among these.
    pub(crate) has_older_runs: bool,
}

impl Waiting {
    pub(crate) async fn read(api: &Api, session: &Session) -> Result<Self, ApiError> {
        let questions = api.get::<LocalQuestions>(session, QUESTIONS).await?.items;
        let approvals: ObjectList = api.get(session, APPROVALS).await?;
        let has_more_approvals = approvals.metadata.next.is_some();
        let list: LocalRunList = api.get(session, WAITING_RUNS).await?;
        let (mut runs, has_older_runs) = (list.items, list.next.is_some());
        // The others are there by their questions, or by the approvals of the control plane.
        runs.retain(|run| run.questions == 0 && !run.is_managed);
        let approvals = approvals.items;
        Ok(Self { questions, approvals, has_more_approvals, runs, has_older_runs })
    }

    pub(crate) fn count(&self) -> usize {
        self.questions.len() + self.approvals.len() + self.runs.len()
    }
}

/// What handlers share.
pub(crate) struct Site {
    pub(crate) api: Api,
    pub(crate) base: String,
    pub(crate) link: Arc<SignInLink>,
}

/// What waits for people, and the frame of a page.
pub(crate) struct Frame {
    pub(crate) layout: Layout,
    pub(crate) waiting: Waiting,
}

impl Site {
    /// The frame of a page for a person who is signed in.
    pub(crate) async fn frame(
        &self,
        session: &Session,
        title: impl Into<String>,
    ) -> Result<Frame, ApiError> {
        let waiting = Waiting::read(&self.api, session).await?;
        let mut layout = Layout::new(&self.base, title, Some(session));
        layout.waiting = waiting.count();
        Ok(Frame { layout, waiting })
    }

    /// The session of a request, or the response that asks the person to sign in.
    pub(crate) async fn require_session(&self, parts: &Parts) -> Result<Session, Response> {
        match session(&self.api, &self.link, parts).await {
            Some(session) => Ok(session),
            None => {
                let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
                let next = encoded(&format!("{}{query}", parts.uri.path()));
                Err(see_other(&format!("{}/sign-in?next={next}", self.base)))
            }
        }
    }

    /// The page for an error of the API.
    pub(crate) fn error(&self, session: Option<&Session>, error: &ApiError) -> Response {
        error_page(&self.base, session, error)
    }
}

/// The query of an address. An unknown key or a wrong value is an error, never ignored.
pub(crate) fn query<T: DeserializeOwned>(parts: &Parts) -> Result<T, ApiError> {
    let read = Query::<T>::try_from_uri(&parts.uri);
    read.map(|query| query.0).map_err(|error| ApiError {
        status: StatusCode::BAD_REQUEST,
        code: "BAD_REQUEST".to_owned(),
        message: format!("This address has a part that no page has: {}.", error.body_text()),
    })
}

pub(crate) fn now() -> Moment {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    Moment::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}
