//! Actions that the control plane performs, beyond writing resources.

use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore, RunVerb, WorkspaceVerb};
use hyper::StatusCode;

use crate::app::App;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, json, ok};

const NAMESPACE: &[&str] = &["namespace"];

/// 202: the action is stored and will be performed.
fn accepted(body: &impl serde::Serialize) -> HandlerResult {
    json(StatusCode::ACCEPTED, body)
}

pub(crate) async fn run<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
    verb: RunVerb,
) -> HandlerResult {
    request.allow_query(NAMESPACE)?;
    let body = request.json_or_default()?;
    let answer = app.fleet.act_on_run(&request.caller()?, &request.target()?, verb, body).await?;
    accepted(&answer)
}

pub(crate) async fn dispatch<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(NAMESPACE)?;
    let body = request.json()?;
    let answer = app.fleet.dispatch(&request.caller()?, request.namespace(), body).await?;
    accepted(&answer)
}

pub(crate) async fn decide<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(NAMESPACE)?;
    let body = request.json()?;
    ok(&app.fleet.decide(&request.caller()?, &request.target()?, body).await?)
}

pub(crate) async fn try_rule<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(NAMESPACE)?;
    let sample = request.json()?;
    ok(&app.fleet.try_rule(&request.caller()?, &request.target()?, sample).await?)
}

pub(crate) async fn lifecycle<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(NAMESPACE)?;
    let body = request.json()?;
    ok(&app.fleet.set_lifecycle(&request.caller()?, &request.target()?, body).await?)
}

pub(crate) async fn replay<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(NAMESPACE)?;
    let body = request.json()?;
    accepted(&app.fleet.replay_delivery(&request.caller()?, &request.target()?, body).await?)
}

pub(crate) async fn fire<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(NAMESPACE)?;
    let body = request.json()?;
    accepted(&app.fleet.fire(&request.caller()?, &request.target()?, body).await?)
}

pub(crate) async fn materialize<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(NAMESPACE)?;
    let sample = request.json()?;
    accepted(&app.fleet.materialize(&request.caller()?, &request.target()?, sample).await?)
}

pub(crate) async fn review<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(NAMESPACE)?;
    let question = request.json()?;
    let caller = request.caller()?;
    ok(&app.fleet.review_permissions(&caller, request.namespace(), question).await?)
}

pub(crate) async fn preview_approval<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(NAMESPACE)?;
    ok(&app.fleet.preview_approval(&request.target()?).await?)
}

pub(crate) async fn checks<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["namespace", "sha"])?;
    let sha = request.query.get("sha").map(String::as_str).unwrap_or_default();
    ok(&app.fleet.checks(&request.target()?, sha).await?)
}

pub(crate) async fn workspace<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
    named: bool,
) -> HandlerResult {
    request.allow_query(NAMESPACE)?;
    let body: bailiwick_fleet::ports::WorkspaceRequest = request.json()?;
    let creates = matches!(body.action, WorkspaceVerb::Provision | WorkspaceVerb::LinkExisting);
    if creates == named {
        let message = "send provision and link-existing to /workspaces, and every other action to \
                       /workspaces/<name>/action";
        return Err(Problem::invalid_field("action", message));
    }
    let name = if named { Some(request.target()?.name) } else { None };
    let caller = request.caller()?;
    let work = app.fleet.act_on_workspace(&caller, request.namespace(), name.as_deref(), body);
    accepted(&work.await?)
}
