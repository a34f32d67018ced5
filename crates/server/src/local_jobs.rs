//! Jobs: actions on agents of this machine that take longer than a request. Each works on a thread of its own.

use std::sync::Arc;

use bailiwick_fleet::ports::{
    AuditEntry, Fleet, FleetStore, LocalJob, LocalJobState, LocalOutcome, LocalRunError, LocalVerb,
    Write,
};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::app::App;
use crate::blocking::blocking;
use crate::ids::{now, unique_id};
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, json as response, ok};

pub(crate) async fn list<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["run"])?;
    ok(&app.jobs.list(request.query.get("run").map(String::as_str)))
}

pub(crate) async fn read<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let id = request.param("name");
    match app.jobs.find(id) {
        Some(job) => ok(&job),
        None => Err(Problem::not_found(format!("this server has no job `{id}`"))),
    }
}

/// Starts an action as a job. Its start and its end are in the audit log.
pub(crate) async fn start<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
    verb: LocalVerb,
    text: String,
) -> HandlerResult {
    let name = request.param("name").to_owned();
    let detail = blocking(app, move |runs| runs.read(&name)).await?;
    let Some(runs) = app.local_runs.clone() else {
        return Err(Problem::not_found("this server does not show the agents of its machine"));
    };
    let action = detail.actions.into_iter().find(|action| action.action == verb);
    if let Some(why) = action.and_then(|action| action.impossible) {
        let message = format!("cannot {} `{}`: {why}", verb.as_str(), detail.run.name);
        return Err(Problem::conflict("REFUSED", message));
    }
    let run = detail.run.id;
    let job = LocalJob {
        id: unique_id(request.now),
        run: run.clone(),
        action: verb,
        actor: request.by().actor,
        state: LocalJobState::Running,
        progress: Vec::new(),
        message: String::new(),
        started_at: request.now,
        ended_at: None,
    };
    app.jobs.start(job.clone())?;
    let subject = format!("LocalRun/{run}");
    let detail = json!({ "action": verb.as_str(), "text": text, "job": job.id });
    let entry = request.audit("LocalRunAction", subject.clone(), detail);
    if let Err(error) = app.store.commit(vec![Write::Audit(entry)], request.now).await {
        tracing::error!(%error, "a job was not started: the audit log cannot be written");
        let message = "not started: the audit log could not be written";
        app.jobs.end(&job.id, LocalJobState::Failed, message.to_owned(), now());
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "NOT_AUDITED", message));
    }
    let (sender, done) = oneshot::channel();
    let (jobs, id) = (app.jobs.clone(), job.id.clone());
    // A thread of its own: the end of the server does not wait for checks, which can take very long.
    let work = move || {
        let mut tell = |step: String| jobs.step(&id, &step);
        let result = runs.act(&run, verb, &text, &mut tell);
        // Nobody waits any more if the server has ended.
        let _ = sender.send(result);
    };
    if let Err(error) = std::thread::Builder::new().name("job".to_owned()).spawn(work) {
        tracing::error!(%error, "a thread for a job cannot be started");
        app.jobs.end(&job.id, LocalJobState::Failed, "not started".to_owned(), now());
        return Err(Problem::unavailable("internal error (see the server log)"));
    }
    let ended = request.audit("LocalRunActionEnded", subject, Value::Null);
    tokio::spawn(end(app.clone(), job.clone(), ended, done));
    response(StatusCode::ACCEPTED, &job)
}

/// Waits for a job, and writes down what came of it.
async fn end<S: FleetStore, F: Fleet>(
    app: Arc<App<S, F>>,
    job: LocalJob,
    mut entry: AuditEntry,
    done: oneshot::Receiver<Result<LocalOutcome, LocalRunError>>,
) {
    let (state, message) = match done.await {
        Ok(Ok(outcome)) => (LocalJobState::Succeeded, outcome.message),
        Ok(Err(error)) => (LocalJobState::Failed, Problem::from(error).message),
        Err(_) => (LocalJobState::Failed, "internal error (see the server log)".to_owned()),
    };
    let at = now();
    entry.at = at;
    entry.detail = json!({
        "action": job.action, "job": job.id, "state": state, "message": message,
    });
    if let Err(error) = app.store.commit(vec![Write::Audit(entry)], at).await {
        tracing::error!(%error, "the end of a job is missing in the audit log");
    }
    app.jobs.end(&job.id, state, message, at);
}
