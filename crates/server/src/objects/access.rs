//! Records what the API server of a cluster says of a binding.

use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore};
use bailiwick_fleet::resources::{self, AccessError, AccessRequest};
use bailiwick_resources::Kind;

use crate::app::App;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok};

pub(crate) async fn record_access<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    if request.kind()? != Kind::AgentRoleBinding {
        let message = "only an AgentRoleBinding has such a report";
        return Err(Problem::invalid_field("kind", message));
    }
    let (target, body) = (request.target()?, request.json::<AccessRequest>()?);
    let store = app.store.as_ref();
    let recorded = resources::record_access(store, &target, body, &request.by(), request.now).await;
    ok(&recorded.map_err(problem)?)
}

fn problem(error: AccessError) -> Problem {
    let message = error.to_string();
    match error {
        AccessError::NotTheFence => Problem::invalid_field("fence", message),
        AccessError::TooLong => Problem::invalid_field("report", message),
        AccessError::NotTheLeader => Problem::forbidden("POLICY_DENIED", message),
        AccessError::Malformed(_) => Problem::unavailable(message),
        AccessError::Store(error) => error.into(),
    }
}
