//! From a route to what it does.

use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore};

use crate::app::App;
use crate::asked::{Answer, Asked, ok, text};
use crate::changes::{run_events, store_version};
use crate::openapi::openapi;
use crate::problem::Problem;
use crate::routes::Call;
use crate::{actions, objects, tokens, webhooks};

const FRONT: &str = "\
Bailiwick: coding agents inside limits that are written down, enforced and proven.

The API is below /api/v1alpha1 and described by /openapi.json.
Health: /healthz, /readyz. Figures: /metrics. Webhooks: /webhooks/<repository>.
";

/// Does what the route says.
pub(crate) async fn handle<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    match asked.route.call {
        Call::Front => Ok(text("text/plain; charset=utf-8", FRONT)),
        Call::Live => Ok(text("text/plain; charset=utf-8", "ok\n")),
        Call::Ready => ready(app).await,
        Call::Metrics => {
            let body = app.metrics.text(&app.tally);
            Ok(text("text/plain; version=0.0.4; charset=utf-8", body))
        }
        Call::Description => ok(&openapi()),
        Call::List => objects::list(app, asked).await,
        Call::Create => objects::create(app, asked).await,
        Call::Read => objects::read(app, asked).await,
        Call::Replace => objects::replace(app, asked).await,
        Call::Patch => objects::patch(app, asked).await,
        Call::Delete => objects::delete(app, asked).await,
        Call::Status => Err(Problem::forbidden(
            "STATUS_DENIED",
            "a status is what the control plane found; nobody else writes it",
        )),
        Call::Apply => objects::apply(app, asked).await,
        Call::SetSecret => objects::set_secret(app, asked).await,
        Call::Events => objects::events(app, asked).await,
        Call::RunEvents => run_events(app, asked).await,
        Call::Run(verb) => actions::run(app, asked, verb).await,
        Call::Dispatch => actions::dispatch(app, asked).await,
        Call::Decide => actions::decide(app, asked).await,
        Call::TryRule => actions::try_rule(app, asked).await,
        Call::Lifecycle => actions::lifecycle(app, asked).await,
        Call::Replay => actions::replay(app, asked).await,
        Call::Fire => actions::fire(app, asked).await,
        Call::Materialize => actions::materialize(app, asked).await,
        Call::Review => actions::review(app, asked).await,
        Call::Provision => actions::workspace(app, asked, false).await,
        Call::ActOnWorkspace => actions::workspace(app, asked, true).await,
        Call::Checks => actions::checks(app, asked).await,
        Call::Capabilities => ok(&app.fleet.capabilities().await?),
        Call::Tokens => tokens::list(app, asked).await,
        Call::MintToken => tokens::make(app, asked).await,
        Call::RevokeToken => tokens::revoke(app, asked).await,
        Call::Audit => objects::audit(app, asked).await,
        Call::Blob => objects::blob(app, asked).await,
        Call::Webhook => webhooks::receive(app, asked).await,
    }
}

async fn ready<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>) -> Answer {
    if app.stop.is_said() {
        return Err(Problem::unavailable("the server stops"));
    }
    store_version(app.store.as_ref()).await?;
    if app.pulse.as_ref().is_some_and(|pulse| pulse.is_still(app.limits.turn_time)) {
        return Err(Problem::unavailable("no turn has ended for long; the log may say why"));
    }
    Ok(text("text/plain; charset=utf-8", "ready\n"))
}
