//! The server, as a worker sees it over HTTPS.

use std::time::Duration;

use bailiwick_fleet::workers::{
    FinishReport, JoinAnswer, JoinRequest, Lease, LeaseError, PollAnswer, PollRequest,
    ProgressAnswer, ProgressReport, WorkerAnswer, WorkerApi, WorkerError,
};
use bailiwick_server::{ErrorBody, FinishRequest, ReportRequest, RepositoryRequest};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ClientError;
use crate::http::transport;
use crate::server_address::ServerAddress;

/// Longer than the server's own limit for a request: for repositories and work, which can be large.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(120);
/// For small requests. Where one server is paused or out of reach, another one has to hear of a worker before its lease
/// ends.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_RESPONSE_BYTES: usize = 513 << 20;

/// A server that a worker dials.
#[derive(Debug)]
pub struct HttpWorkerApi {
    client: Client,
    server: ServerAddress,
}

impl HttpWorkerApi {
    pub fn new(server: ServerAddress) -> Result<Self, ClientError> {
        Ok(Self { client: transport::client(&server)?, server })
    }

    fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        secret: &str,
    ) -> Result<RequestBuilder, WorkerError> {
        let whole: Vec<&str> = ["workers", "v1"].iter().chain(path).copied().collect();
        let url = self.server.below(&whole, query).ok_or_else(|| {
            WorkerError::Refused(format!("`{}` is not a valid path", path.join("/")))
        })?;
        Ok(self.client.request(method, url).bearer_auth(secret).timeout(REQUEST_TIMEOUT))
    }

    async fn bytes(&self, request: RequestBuilder) -> Result<Vec<u8>, WorkerError> {
        let unreachable = |error: reqwest::Error| {
            let why = error.without_url();
            WorkerError::Unavailable(format!("cannot reach {}: {why}", self.server))
        };
        let mut response = request.send().await.map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                let why = format!("its response is longer than {MAX_RESPONSE_BYTES} bytes");
                return Err(WorkerError::Refused(why));
            }
            body.extend_from_slice(&chunk);
        }
        match response.status().is_success() {
            true => Ok(body),
            false => Err(self.error(response.status(), &body)),
        }
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, WorkerError> {
        let body = self.bytes(request).await?;
        serde_json::from_slice(&body).map_err(|error| {
            WorkerError::Refused(format!(
                "the answer of {} has another shape: {error}",
                self.server
            ))
        })
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        secret: &str,
        body: &impl Serialize,
    ) -> Result<T, WorkerError> {
        self.json(with_json(self.request(Method::POST, path, &[], secret)?, body)?).await
    }

    fn error(&self, status: StatusCode, body: &[u8]) -> WorkerError {
        let error = serde_json::from_slice::<ErrorBody>(body).map(|body| body.error).ok();
        let code = error.as_ref().map(|error| error.code.as_str()).unwrap_or_default();
        let message = match &error {
            Some(error) => error.message.clone(),
            None => format!("{} answered with status {}", self.server, status.as_u16()),
        };
        match (status, code) {
            (StatusCode::UNAUTHORIZED, _) => WorkerError::Unauthorized,
            (StatusCode::CONFLICT, "LEASE_LOST") => LeaseError.into(),
            (StatusCode::CONFLICT, "VERSION_SKEW") => WorkerError::VersionSkew(message),
            (StatusCode::NOT_FOUND, "NO_SUCH_PATH") => {
                WorkerError::Refused(format!("{} is too old for workers", self.server))
            }
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT, _) => {
                WorkerError::Unavailable(message)
            }
            (status, _) if status.is_server_error() => WorkerError::Unavailable(message),
            (_, _) => WorkerError::Refused(message),
        }
    }
}

fn with_json(
    request: RequestBuilder,
    body: &impl Serialize,
) -> Result<RequestBuilder, WorkerError> {
    let body = serde_json::to_vec(body)
        .map_err(|error| WorkerError::Refused(format!("it cannot be written as JSON: {error}")))?;
    Ok(request.header(CONTENT_TYPE, "application/json").body(body))
}

impl WorkerApi for HttpWorkerApi {
    fn join<'a>(&'a self, token: &'a str, request: JoinRequest) -> WorkerAnswer<'a, JoinAnswer> {
        Box::pin(async move {
            match self.post(&["join"], token, &request).await {
                Err(WorkerError::Unauthorized) => Err(WorkerError::JoinRefused),
                joined => joined,
            }
        })
    }

    fn renew<'a>(&'a self, credential: &'a str) -> WorkerAnswer<'a, JoinAnswer> {
        Box::pin(async move {
            self.json(self.request(Method::POST, &["renew"], &[], credential)?).await
        })
    }

    fn poll<'a>(
        &'a self,
        credential: &'a str,
        request: PollRequest,
    ) -> WorkerAnswer<'a, PollAnswer> {
        Box::pin(async move {
            let query = [
                ("version", request.version),
                ("room", u8::from(request.has_room).to_string()),
                ("wait", request.wait_millis.to_string()),
            ];
            let wait = Duration::from_millis(request.wait_millis);
            let poll = self.request(Method::GET, &["poll"], &query, credential)?;
            self.json(poll.timeout(wait.saturating_add(REQUEST_TIMEOUT))).await
        })
    }

    fn repository<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        has: &'a [String],
    ) -> WorkerAnswer<'a, Vec<u8>> {
        Box::pin(async move {
            let path = ["attempts", &lease.agent, "repository"];
            let body = RepositoryRequest { fence: lease.fence, has: has.to_vec() };
            let request = self.request(Method::POST, &path, &[], credential)?;
            self.bytes(with_json(request, &body)?.timeout(TRANSFER_TIMEOUT)).await
        })
    }

    fn report<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        report: ProgressReport,
    ) -> WorkerAnswer<'a, ProgressAnswer> {
        Box::pin(async move {
            let body = ReportRequest { fence: lease.fence, report };
            self.post(&["attempts", &lease.agent, "report"], credential, &body).await
        })
    }

    fn send_work<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        bundle: Vec<u8>,
    ) -> WorkerAnswer<'a, ()> {
        Box::pin(async move {
            let (path, query) =
                (["attempts", &lease.agent, "work"], [("fence", lease.fence.to_string())]);
            let request = self.request(Method::PUT, &path, &query, credential)?;
            let request = request.header(CONTENT_TYPE, "application/octet-stream").body(bundle);
            let request = request.timeout(TRANSFER_TIMEOUT);
            self.bytes(request).await.map(drop)
        })
    }

    fn finish<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        finish: FinishReport,
    ) -> WorkerAnswer<'a, ()> {
        Box::pin(async move {
            let body = FinishRequest { fence: lease.fence, finish };
            let path = ["attempts", lease.agent.as_str(), "finish"];
            let request = self.request(Method::POST, &path, &[], credential)?;
            self.bytes(with_json(request, &body)?).await.map(drop)
        })
    }
}
