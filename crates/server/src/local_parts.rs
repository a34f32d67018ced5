//! The parts of an agent that a page shows besides its transcript: context, policy, cost, lineage and artifacts.

use std::sync::Arc;

use axum::body::Body;
use bailiwick_fleet::ports::{Fleet, FleetStore};
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};

use crate::app::App;
use crate::blocking::blocking;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok, text};
use crate::routes::LocalPart;

/// A longer command is not one that a person tries.
const MAX_COMMAND: usize = 10_000;

pub(crate) async fn read<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
    part: LocalPart,
) -> HandlerResult {
    request.allow_query(&[])?;
    let run = request.param("name").to_owned();
    match part {
        LocalPart::Context => ok(&blocking(app, move |runs| runs.context(&run)).await?),
        LocalPart::Policy => ok(&blocking(app, move |runs| runs.policy(&run)).await?),
        LocalPart::Cost => ok(&blocking(app, move |runs| runs.cost(&run)).await?),
        LocalPart::Lineage => ok(&blocking(app, move |runs| runs.lineage(&run)).await?),
        LocalPart::Artifacts => ok(&blocking(app, move |runs| runs.artifacts(&run)).await?),
    }
}

pub(crate) async fn explain<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["command"])?;
    let command = request.query.get("command").map(|text| text.trim()).unwrap_or_default();
    if command.is_empty() || command.len() > MAX_COMMAND {
        let message = format!("`command` must have from 1 to {MAX_COMMAND} bytes");
        return Err(Problem::bad_request(message));
    }
    let (run, command) = (request.param("name").to_owned(), command.to_owned());
    ok(&blocking(app, move |runs| runs.explain(&run, &command)).await?)
}

pub(crate) async fn artifact<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let (run, name) = (request.param("name").to_owned(), request.param("artifact").to_owned());
    let bytes = blocking(app, move |runs| runs.artifact(&run, &name)).await?;
    // What an agent wrote must not be shown as a web page of this server.
    let mut response = text("application/octet-stream", Body::from(bytes));
    let attachment = HeaderValue::from_static("attachment");
    response.headers_mut().insert(CONTENT_DISPOSITION, attachment);
    Ok(response)
}
