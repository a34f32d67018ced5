//! The agents of this machine in the API: list, read, events, diff, questions, answers and actions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_fleet::ports::{
    Fleet, FleetStore, LocalAnswerRequest, LocalEventFilter, LocalEventQuery, LocalOutcome,
    LocalRunError, LocalRunGroup, LocalRunQuery, LocalVerb, LocalVerbRequest, Write,
};
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::answers::QUESTION_ANSWERED;
use crate::app::App;
use crate::blocking::blocking;
use crate::local_jobs;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok};

const MAX_PAGE_SIZE: u64 = 500;
const DEFAULT_PAGE_SIZE: u64 = 100;
const MAX_EVENTS: u64 = 1_000;
/// Shorter than the timeout of a handler.
const MAX_WAIT_MILLIS: u64 = 25_000;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl From<LocalRunError> for Problem {
    fn from(error: LocalRunError) -> Self {
        match error {
            LocalRunError::NotFound(message) => Self::not_found(message),
            LocalRunError::Refused { message, advice } => {
                let message = match advice {
                    Some(advice) => format!("{message}; {advice}"),
                    None => message,
                };
                Self::conflict("REFUSED", message)
            }
            LocalRunError::Unavailable(why) => {
                // The message can name files: it goes to the log only.
                tracing::error!(why, "an agent of this machine cannot be read");
                Self::unavailable("the agents of this machine cannot be read (see the server log)")
            }
        }
    }
}

pub(crate) fn group(text: &str) -> Result<LocalRunGroup, Problem> {
    serde_json::from_value(Value::from(text)).map_err(|_| {
        let groups = "needs-you, working, ready, ended";
        Problem::bad_request(format!("`group={text}`: the groups are {groups}"))
    })
}

pub(crate) async fn list<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["group", "text", "limit", "continue"])?;
    let limit = request.number("limit")?.unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, MAX_PAGE_SIZE);
    let query = LocalRunQuery {
        group: request.query.get("group").map(|text| group(text)).transpose()?,
        text: request.query.get("text").cloned(),
        after: request.query.get("continue").cloned(),
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
    };
    ok(&blocking(app, move |runs| runs.list(&query)).await?)
}

pub(crate) async fn claims<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    ok(&blocking(app, |runs| runs.claims()).await?)
}

pub(crate) async fn read<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let run = request.param("name").to_owned();
    ok(&blocking(app, move |runs| runs.read(&run)).await?)
}

fn event_filter(text: &str) -> Result<LocalEventFilter, Problem> {
    let known = LocalEventFilter::ALL.into_iter().find(|filter| filter.as_str() == text);
    known.ok_or_else(|| {
        let filters = LocalEventFilter::ALL.map(LocalEventFilter::as_str).join(", ");
        Problem::bad_request(format!("`filter={text}`: the filters are {filters}"))
    })
}

/// Events after a number. With `wait` the response is delayed until there is one. With `filter` or `text` only those
/// that match.
pub(crate) async fn events<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["after", "limit", "wait", "filter", "text"])?;
    let after = request.number("after")?.unwrap_or_default();
    let limit = request.number("limit")?.unwrap_or(MAX_EVENTS).clamp(1, MAX_EVENTS);
    let limit = u32::try_from(limit).unwrap_or(1);
    let filter = request.query.get("filter").map(|text| event_filter(text)).transpose()?;
    let text = request.query.get("text").cloned().unwrap_or_default();
    if filter.is_some() || !text.is_empty() {
        let run = request.param("name").to_owned();
        let query = LocalEventQuery { after, limit, filter, text };
        return ok(&blocking(app, move |runs| runs.search(&run, &query)).await?);
    }
    let wait = request.number("wait")?.unwrap_or_default().min(MAX_WAIT_MILLIS);
    let deadline = Instant::now() + Duration::from_millis(wait);
    loop {
        let run = request.param("name").to_owned();
        let read = blocking(app, move |runs| runs.events(&run, after, limit)).await?;
        let is_final = read.ended || app.shutdown.is_requested();
        if !read.events.is_empty() || is_final || Instant::now() >= deadline {
            return ok(&read);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

pub(crate) async fn checks<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let run = request.param("name").to_owned();
    ok(&blocking(app, move |runs| runs.verifications(&run)).await?)
}

pub(crate) async fn diff<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let run = request.param("name").to_owned();
    ok(&blocking(app, move |runs| runs.diff(&run)).await?)
}

pub(crate) async fn questions<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["run"])?;
    let run = request.query.get("run").cloned();
    ok(&blocking(app, move |runs| runs.questions(run.as_deref())).await?)
}

pub(crate) async fn answer<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let body: LocalAnswerRequest = request.json()?;
    let (run, question) = (request.param("name").to_owned(), request.param("question").to_owned());
    let detail = json!({
        "question": question,
        "answer": body.answer,
        "about": body.about,
        "reason": body.reason,
    });
    let done = blocking(app, move |runs| runs.answer(&run, &question, &body)).await?;
    record(app, request, QUESTION_ANSWERED, &done, detail).await
}

pub(crate) async fn act<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
    verb: LocalVerb,
) -> HandlerResult {
    request.allow_query(&[])?;
    let body: LocalVerbRequest = request.json_or_default()?;
    if verb.is_job() {
        return local_jobs::start(app, request, verb, body.text).await;
    }
    let run = request.param("name").to_owned();
    let detail = json!({ "action": verb.as_str(), "text": body.text });
    let done = blocking(app, move |runs| runs.act(&run, verb, &body.text, &mut |_| {})).await?;
    record(app, request, "LocalRunAction", &done, detail).await
}

/// Writes the audit log: who did it.
async fn record<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
    event: &str,
    done: &LocalOutcome,
    detail: Value,
) -> HandlerResult {
    let entry = request.audit(event, format!("LocalRun/{}", request.param("name")), detail);
    if let Err(error) = app.store.commit(vec![Write::Audit(entry)], request.now).await {
        tracing::error!(%error, "an action is missing in the audit log");
        let message = format!("{}; the audit log could not be written", done.message);
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "NOT_AUDITED", message));
    }
    ok(done)
}
