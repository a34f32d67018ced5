//! Calls the handler of a route.

use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore};

use crate::app::App;
use crate::changes::{run_events, store_version};
use crate::openapi::openapi;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok, text};
use crate::routes::Call;
use crate::{actions, objects, tokens, webhooks};

const INDEX: &str = "\
Bailiwick: coding agents inside limits that are written down, enforced and proven.

The API is below /api/v1alpha1 and described by /openapi.json.
Health: /healthz, /readyz. Metrics: /metrics. Webhooks: /webhooks/<repository>.
";

pub(crate) async fn handle<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    match request.route.call {
        Call::Index => Ok(text("text/plain; charset=utf-8", INDEX)),
        Call::Health => Ok(text("text/plain; charset=utf-8", "ok\n")),
        Call::Ready => ready(app).await,
        Call::Metrics => {
            let body = app.metrics.text(&app.run_counts);
            Ok(text("text/plain; version=0.0.4; charset=utf-8", body))
        }
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
        Call::SetSecret => objects::set_secret(app, request).await,
        Call::Events => objects::events(app, request).await,
        Call::RunEvents => run_events(app, request).await,
        Call::Run(verb) => actions::run(app, request, verb).await,
        Call::Dispatch => actions::dispatch(app, request).await,
        Call::Decide => actions::decide(app, request).await,
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
    }
}

async fn ready<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>) -> HandlerResult {
    if app.shutdown.is_requested() {
        return Err(Problem::unavailable("the server is shutting down"));
    }
    store_version(app.store.as_ref()).await?;
    if app
        .control_loop
        .as_ref()
        .is_some_and(|control_loop| control_loop.is_stalled(app.limits.control_loop_timeout))
    {
        return Err(Problem::unavailable(
            "the control loop has completed no iteration for a long time (see the server log)",
        ));
    }
    Ok(text("text/plain; charset=utf-8", "ready\n"))
}
