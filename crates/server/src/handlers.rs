//! Calls the handler of a route.

use std::sync::Arc;

use axum::response::Response;
use bailiwick_fleet::ports::{Fleet, FleetStore};
use hyper::StatusCode;
use hyper::header::{ACCEPT, LOCATION};

use crate::app::App;
use crate::changes::run_events;
use crate::control_loop::ControlLoopMonitor;
use crate::hub::store_version;
use crate::openapi::openapi;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok, text};
use crate::routes::Call;
use crate::telemetry::write_worker_gauges;

use crate::{
    actions, answers, local_jobs, local_parts, local_runs, numbers, objects, run_list,
    saved_filters, sign_in, stage_counts, tokens, webhooks, workers,
};

const INDEX: &str = "\
Bailiwick: coding agents inside limits that are written down, enforced and tested.

The API is below /api/v1alpha1 and described by /openapi.json.
Health: /healthz, /readyz. Metrics: /metrics. Webhooks: /webhooks/<repository>.
";

pub(crate) async fn handle<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    match request.route.call {
        Call::Index => Ok(index(app, request)),
        Call::Health => Ok(text("text/plain; charset=utf-8", with_role(app, "ok"))),
        Call::Ready => ready(app).await,
        Call::Metrics => Ok(metrics(app).await),
        Call::OpenApi => ok(&openapi()),
        Call::List => objects::list(app, request).await,
        Call::Create => objects::create(app, request).await,
        Call::Read => objects::read(app, request).await,
        Call::Replace => objects::replace(app, request).await,
        Call::Patch => objects::patch(app, request).await,
        Call::Delete => objects::delete(app, request).await,
        Call::Status => {
            Err(Problem::forbidden("STATUS_DENIED", "only the control plane writes a status"))
        }
        Call::Apply => objects::apply(app, request).await,
        Call::Diff => objects::diff(app, request).await,
        Call::WhoAmI => tokens::who_am_i(request),
        Call::SetSecret => objects::set_secret(app, request).await,
        Call::RecordAccess => objects::record_access(app, request).await,
        Call::Events => objects::events(app, request).await,
        Call::RunEvents => run_events(app, request).await,
        Call::Run(verb) => actions::run(app, request, verb).await,
        Call::Dispatch => actions::dispatch(app, request).await,
        Call::Decide => actions::decide(app, request).await,
        Call::PreviewApproval => actions::preview_approval(app, request).await,
        Call::TryRule => actions::try_rule(app, request).await,
        Call::Lifecycle => actions::lifecycle(app, request).await,
        Call::Replay => actions::replay(app, request).await,
        Call::Fire => actions::fire(app, request).await,
        Call::Materialize => actions::materialize(app, request).await,
        Call::Review => actions::review(app, request).await,
        Call::Provision => actions::workspace(app, request, false).await,
        Call::ActOnWorkspace => actions::workspace(app, request, true).await,
        Call::Checks => actions::checks(app, request).await,
        Call::Capabilities => ok(&app.fleet.capabilities().await?),
        Call::Tokens => tokens::list(app, request).await,
        Call::MintToken => tokens::create(app, request).await,
        Call::RevokeToken => tokens::revoke(app, request).await,
        Call::Audit => objects::audit(app, request).await,
        Call::Blob => objects::blob(app, request).await,
        Call::Webhook => webhooks::receive(app, request).await,
        Call::Login => sign_in::login(app, request).await,
        Call::LoginCallback => sign_in::callback(app, request).await,
        Call::Logout => sign_in::logout(app, request).await,
        Call::StartDevice => sign_in::device(app, request).await,
        Call::DeviceToken => sign_in::device_token(app, request).await,
        Call::ExchangeIdToken => sign_in::exchange(app, request).await,
        Call::RunList => run_list::list(app, request).await,
        Call::StageCounts => stage_counts::read(app, request).await,
        Call::RecentAnswers => answers::recent(app, request).await,
        Call::SavedFilters => saved_filters::list(app, request).await,
        Call::SaveFilter => saved_filters::save(app, request).await,
        Call::DeleteFilter => saved_filters::delete(app, request).await,
        Call::LocalRuns => local_runs::list(app, request).await,
        Call::LocalRun => local_runs::read(app, request).await,
        Call::LocalRunEvents => local_runs::events(app, request).await,
        Call::LocalRunChecks => local_runs::checks(app, request).await,
        Call::LocalRunDiff => local_runs::diff(app, request).await,
        Call::LocalPart(part) => local_parts::read(app, request, part).await,
        Call::LocalExplain => local_parts::explain(app, request).await,
        Call::LocalArtifact => local_parts::artifact(app, request).await,
        Call::LocalQuestions => local_runs::questions(app, request).await,
        Call::LocalClaims => local_runs::claims(app, request).await,
        Call::Numbers => numbers::read(app, request).await,
        Call::LocalAnswer => local_runs::answer(app, request).await,
        Call::LocalJobs => local_jobs::list(app, request).await,
        Call::LocalJob => local_jobs::read(app, request).await,
        Call::LocalVerb(verb) => local_runs::act(app, request, verb).await,
        Call::Worker(call) => workers::answer(app, request, call).await,
    }
}

/// Browsers are sent to the pages, if there are any.
fn index<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, request: &ApiRequest) -> Response {
    let accept = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let is_browser = accept.is_some_and(|accept| accept.contains("text/html"));
    let mut response = text("text/plain; charset=utf-8", INDEX);
    if let Some(location) = app.pages_at.get().filter(|_| is_browser) {
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(LOCATION, location.clone());
    }
    response
}

async fn metrics<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>) -> Response {
    let mut body = app.metrics.text(&app.run_counts, app.control_loop.as_ref());
    if let Some(registry) = &app.worker_registry {
        match registry.registered().await {
            Ok(workers) => write_worker_gauges(&mut body, workers),
            Err(error) => tracing::warn!(%error, "the metrics have no workers"),
        }
    }
    text("text/plain; version=0.0.4; charset=utf-8", body)
}

/// Whether the server can do its work: it reads, it writes, and no controller is stalled.
async fn ready<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>) -> HandlerResult {
    if app.shutdown.is_requested() {
        return Err(Problem::unavailable("the server is shutting down"));
    }
    store_version(app.store.as_ref()).await?;
    app.write_check.check(&app.store).await?;
    let timeout = app.limits.control_loop_timeout;
    let stalled = app.control_loop.as_ref().map(|monitor| monitor.stalled(timeout));
    let stalled = stalled.unwrap_or_default();
    if !stalled.is_empty() {
        let message = format!(
            "these controllers have not finished for {} seconds: {} (see the server log)",
            timeout.as_secs(),
            stalled.join(", ")
        );
        return Err(Problem::unavailable(&message));
    }
    Ok(text("text/plain; charset=utf-8", with_role(app, "ready")))
}

/// A line that also names the role of this server, if it has one.
fn with_role<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, state: &str) -> String {
    match app.control_loop.as_ref().and_then(ControlLoopMonitor::role) {
        Some(role) => format!("{state} ({})\n", role.as_str()),
        None => format!("{state}\n"),
    }
}
