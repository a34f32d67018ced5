//! The requests of workers: each goes to the port, with the credential of its header.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bailiwick_fleet::ports::{Fleet, FleetStore};
use bailiwick_fleet::workers::{
    FinishReport, JoinRequest, Lease, MAX_EVIDENCE_BYTES, MAX_REPORT_BYTES, MAX_WORK_BYTES,
    PollRequest, ProgressReport, RenewRequest, WorkerError, WorkerServer,
};
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::AUTHORIZATION;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::App;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok, text};
use crate::routes::WorkerCall;

/// When a worker can ask again for what is not ready yet.
const NOT_READY_SECONDS: u64 = 2;

/// The maximum size of the body of a request that has only names and lists.
const MAX_SMALL_BYTES: usize = 256 * 1024;
/// What the end of an attempt may take besides the outcome of a check.
const MAX_FINISH_BYTES: usize = 1024 * 1024;

/// A request for the commits of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryRequest {
    pub fence: u64,
    /// Commits that the worker has already.
    #[serde(default)]
    pub has: Vec<String>,
}

/// A report of progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportRequest {
    pub fence: u64,
    pub report: ProgressReport,
}

/// The end of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FinishRequest {
    pub fence: u64,
    pub finish: FinishReport,
}

impl From<WorkerError> for Problem {
    fn from(error: WorkerError) -> Self {
        let message = error.to_string();
        match error {
            WorkerError::JoinRefused | WorkerError::Unauthorized => Self::unauthorized(message),
            WorkerError::VersionSkew(_) => Self::conflict("VERSION_SKEW", message),
            WorkerError::LeaseLost(_) => Self::conflict("LEASE_LOST", message),
            WorkerError::Refused(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "REFUSED", message)
            }
            WorkerError::NotReady(_) => Self::busy(message, NOT_READY_SECONDS),
            WorkerError::Unavailable(why) => {
                // The message can name files: it goes to the log only.
                tracing::error!(why, "a request of a worker failed");
                Self::unavailable("the request failed (see the server log)")
            }
        }
    }
}

/// The maximum size of the body of a request.
pub(crate) const fn max_body_bytes(call: WorkerCall) -> usize {
    match call {
        WorkerCall::Join | WorkerCall::Renew | WorkerCall::Poll | WorkerCall::Repository => {
            MAX_SMALL_BYTES
        }
        WorkerCall::Report => MAX_REPORT_BYTES,
        WorkerCall::Work => MAX_WORK_BYTES,
        WorkerCall::Finish => MAX_EVIDENCE_BYTES + MAX_FINISH_BYTES,
    }
}

/// The secret of the `Authorization` header.
fn bearer(request: &ApiRequest) -> Result<&str, Problem> {
    let missing = || Problem::unauthorized("send one `Authorization: Bearer …` with a credential");
    let mut values = request.headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Err(missing()) };
    let (scheme, secret) =
        value.to_str().ok().and_then(|value| value.split_once(' ')).ok_or_else(missing)?;
    match scheme.eq_ignore_ascii_case("bearer") {
        true => Ok(secret),
        false => Err(missing()),
    }
}

pub(crate) async fn answer<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
    call: WorkerCall,
) -> HandlerResult {
    let secret = bearer(request)?;
    // A server without workers has given nobody a credential.
    let workers = app.workers.as_deref().ok_or(WorkerError::Unauthorized)?;
    let lease = |fence| Lease { agent: request.param("name").to_owned(), fence };
    match call {
        // A token is used up together with what the request says, and a poll has no body.
        WorkerCall::Join | WorkerCall::Poll => {}
        WorkerCall::Renew
        | WorkerCall::Repository
        | WorkerCall::Report
        | WorkerCall::Work
        | WorkerCall::Finish => workers.authenticate(secret).await?,
    }
    match call {
        WorkerCall::Join => {
            let body: JoinRequest = request.json()?;
            ok(&workers.join(secret, body).await?)
        }
        WorkerCall::Renew => {
            // Older workers send no body.
            let body = match request.body.is_empty() {
                true => RenewRequest::default(),
                false => request.json()?,
            };
            ok(&workers.renew(secret, body).await?)
        }
        WorkerCall::Poll => poll(app, workers, secret, request).await,
        WorkerCall::Repository => {
            let RepositoryRequest { fence, has } = request.json()?;
            let bundle = workers.repository(secret, &lease(fence), &has).await?;
            let parts = stream::unfold(Some(bundle), |bundle| async {
                let mut bundle = bundle?;
                match bundle.next().await {
                    Ok(Some(part)) => Some((Ok(part), Some(bundle))),
                    Ok(None) => None,
                    // The answer breaks off, so that the worker asks again.
                    Err(error) => Some((Err(error), None)),
                }
            });
            Ok(text("application/octet-stream", Body::from_stream(parts)))
        }
        WorkerCall::Report => {
            let ReportRequest { fence, report } = request.json()?;
            ok(&workers.report(secret, &lease(fence), report).await?)
        }
        WorkerCall::Work => {
            let fence = request.number("fence")?.unwrap_or_default();
            workers.send_work(secret, &lease(fence), request.body.to_vec()).await?;
            ok(&json!({}))
        }
        WorkerCall::Finish => {
            let FinishRequest { fence, finish } = request.json()?;
            workers.finish(secret, &lease(fence), finish).await?;
            ok(&json!({}))
        }
    }
}

/// Waits for an attempt, but not during a shutdown. Unknown parameters are ignored, because the worker can be newer.
async fn poll<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    workers: &dyn WorkerServer,
    secret: &str,
    request: &ApiRequest,
) -> Result<Response, Problem> {
    let poll = PollRequest {
        version: request.query.get("version").cloned().unwrap_or_default(),
        has_room: request.flag("room")?,
        wait_millis: request.number("wait")?.unwrap_or_default(),
        follows: request.query.get("follows").map(|names| {
            names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        }),
    };
    let mut shutdown = app.shutdown.clone();
    tokio::select! {
        biased;
        () = shutdown.requested() => Err(Problem::unavailable("the server is shutting down")),
        answer = workers.poll(secret, poll) => ok(&answer?),
    }
}
