//! What is more than writing a resource: the control plane behind the API does it.

use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore, RunVerb, WorkspaceVerb};
use hyper::StatusCode;

use crate::app::App;
use crate::asked::{Answer, Asked, json, ok};
use crate::problem::Problem;

const NAMESPACE: &[&str] = &["namespace"];

/// Accepted: it is kept, and will be done.
fn accepted(body: &impl serde::Serialize) -> Answer {
    json(StatusCode::ACCEPTED, body)
}

pub(crate) async fn run<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
    verb: RunVerb,
) -> Answer {
    asked.known_query(NAMESPACE)?;
    let request = asked.json_or_default()?;
    let answer = app.fleet.act_on_run(&asked.caller()?, &asked.target()?, verb, request).await?;
    accepted(&answer)
}

pub(crate) async fn dispatch<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
) -> Answer {
    asked.known_query(NAMESPACE)?;
    let request = asked.json()?;
    let answer = app.fleet.dispatch(&asked.caller()?, asked.namespace(), request).await?;
    accepted(&answer)
}

pub(crate) async fn decide<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(NAMESPACE)?;
    let request = asked.json()?;
    ok(&app.fleet.decide(&asked.caller()?, &asked.target()?, request).await?)
}

pub(crate) async fn try_rule<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
) -> Answer {
    asked.known_query(NAMESPACE)?;
    let sample = asked.json()?;
    ok(&app.fleet.try_rule(&asked.caller()?, &asked.target()?, sample).await?)
}

pub(crate) async fn lifecycle<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
) -> Answer {
    asked.known_query(NAMESPACE)?;
    let request = asked.json()?;
    ok(&app.fleet.set_lifecycle(&asked.caller()?, &asked.target()?, request).await?)
}

pub(crate) async fn replay<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(NAMESPACE)?;
    let request = asked.json()?;
    accepted(&app.fleet.replay_delivery(&asked.caller()?, &asked.target()?, request).await?)
}

pub(crate) async fn fire<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(NAMESPACE)?;
    let request = asked.json()?;
    accepted(&app.fleet.fire(&asked.caller()?, &asked.target()?, request).await?)
}

pub(crate) async fn materialize<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
) -> Answer {
    asked.known_query(NAMESPACE)?;
    let sample = asked.json()?;
    accepted(&app.fleet.materialize(&asked.caller()?, &asked.target()?, sample).await?)
}

pub(crate) async fn review<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(NAMESPACE)?;
    let question = asked.json()?;
    let caller = asked.caller()?;
    ok(&app.fleet.review_permissions(&caller, asked.namespace(), question).await?)
}

pub(crate) async fn checks<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&["namespace", "sha"])?;
    let sha = asked.query.get("sha").map(String::as_str).unwrap_or_default();
    ok(&app.fleet.checks(&asked.target()?, sha).await?)
}

pub(crate) async fn workspace<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
    named: bool,
) -> Answer {
    asked.known_query(NAMESPACE)?;
    let request: bailiwick_fleet::ports::WorkspaceRequest = asked.json()?;
    let makes_one =
        matches!(request.action, WorkspaceVerb::Provision | WorkspaceVerb::LinkExisting);
    if makes_one == named {
        let message = "provision and link-existing are asked of /workspaces, all else of \
                       /workspaces/<name>/action";
        return Err(Problem::fault("action", message));
    }
    let name = if named { Some(asked.target()?.name) } else { None };
    let caller = asked.caller()?;
    let work = app.fleet.act_on_workspace(&caller, asked.namespace(), name.as_deref(), request);
    accepted(&work.await?)
}
