//! What the handlers of pages share: the way to the API, the frame of a page, and the link that signs in.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::Query;
use axum::http::request::Parts;
use axum::response::Response;
use bailiwick_fleet::ports::{LocalQuestion, LocalQuestions, LocalRun, LocalRunList};
use bailiwick_resources::AnyObject;
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

/// How long streams use what was read last, whichever of them has read it: it asks the supervisor of every run.
const MAX_AGE: Duration = Duration::from_secs(1);

/// What waits, as it was read last.
#[derive(Debug, Clone)]
struct LastRead {
    started: Instant,
    ended: Instant,
    waiting: Arc<Waiting>,
}

/// What waits, for all streams of a server.
#[derive(Debug, Default)]
pub(crate) struct SharedWaiting {
    last: Mutex<Option<LastRead>>,
    /// Held by the stream that reads.
    reading: tokio::sync::Mutex<()>,
}

impl SharedWaiting {
    fn last(&self) -> MutexGuard<'_, Option<LastRead>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> Option<Arc<Waiting>> {
        let last = self.last();
        last.as_ref().filter(|last| last.ended.elapsed() < MAX_AGE).map(|last| last.waiting.clone())
    }

    /// Keeps what was read, unless something newer was read meanwhile.
    fn keep(&self, started: Instant, waiting: Waiting) -> Arc<Waiting> {
        let read = LastRead { started, ended: Instant::now(), waiting: Arc::new(waiting) };
        let waiting = read.waiting.clone();
        let mut last = self.last();
        if last.as_ref().is_none_or(|last| last.started <= started) {
            *last = Some(read);
        }
        waiting
    }
}

/// What handlers share.
pub(crate) struct Site {
    pub(crate) api: Api,
    pub(crate) waiting: SharedWaiting,
    pub(crate) base: String,
    pub(crate) link: Arc<SignInLink>,
}

/// What waits for people, and the frame of a page.
pub(crate) struct Frame {
    pub(crate) layout: Layout,
    pub(crate) waiting: Arc<Waiting>,
}

impl Site {
    /// The frame of a page for a person who is signed in.
    pub(crate) async fn frame(
        &self,
        session: &Session,
        title: impl Into<String>,
    ) -> Result<Frame, ApiError> {
        // Never what was read before: a person who has just answered would see the question again.
        let waiting = self.read_waiting(session).await?;
        let mut layout = Layout::new(&self.base, title, Some(session));
        layout.waiting = waiting.count();
        Ok(Frame { layout, waiting })
    }

    async fn read_waiting(&self, session: &Session) -> Result<Arc<Waiting>, ApiError> {
        let started = Instant::now();
        let waiting = Waiting::read(&self.api, session).await?;
        Ok(self.waiting.keep(started, waiting))
    }

    /// What waits, for a stream: one of all streams reads it. It is the same for every scope, and each may read it.
    pub(crate) async fn recent_waiting(&self, session: &Session) -> Result<Arc<Waiting>, ApiError> {
        if let Some(waiting) = self.waiting.recent() {
            return Ok(waiting);
        }
        let _reading = self.waiting.reading.lock().await;
        match self.waiting.recent() {
            Some(waiting) => Ok(waiting),
            None => self.read_waiting(session).await,
        }
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
