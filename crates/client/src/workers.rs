//! The server, as a worker sees it over HTTPS.

use std::time::Duration;

use bailiwick_fleet::workers::{
    ByteStream, Chunk, FinishReport, JoinAnswer, JoinRequest, Lease, LeaseError, PollAnswer,
    PollRequest, ProgressAnswer, ProgressReport, RenewRequest, WorkerAnswer, WorkerApi,
    WorkerError,
};
use bailiwick_server::{ErrorBody, FinishRequest, ReportRequest, RepositoryRequest};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ClientError;
use crate::http::transport;
use crate::server_address::ServerAddress;

/// Longer than the server's own limit for a request: for work, which can be large.
const SEND_TIMEOUT: Duration = Duration::from_secs(120);
/// For a repository. One that does not arrive is given up after the time that the client waits for any part.
const FETCH_TIMEOUT: Duration = Duration::from_secs(3_600);
/// For small requests. Where one server is paused or out of reach, another one has to hear of a worker before its lease
/// ends.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum length of a repository, which is not in memory.
const MAX_BUNDLE_BYTES: usize = 513 << 20;
/// The maximum length of any other answer.
const MAX_ANSWER_BYTES: usize = 64 << 20;

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

    async fn send(&self, request: RequestBuilder) -> Result<Response, WorkerError> {
        request.send().await.map_err(|error| unreachable(&self.server.to_string(), error))
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, WorkerError> {
        let mut body = Vec::new();
        let server = self.server.to_string();
        while let Some(chunk) = next_chunk(&mut response, &server).await? {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(too_long(MAX_ANSWER_BYTES));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    async fn bytes(&self, request: RequestBuilder) -> Result<Vec<u8>, WorkerError> {
        self.success(self.send(request).await?).await
    }

    /// The body of an answer, unless it is an error.
    async fn success(&self, response: Response) -> Result<Vec<u8>, WorkerError> {
        let status = response.status();
        let body = self.body(response).await?;
        match status.is_success() {
            true => Ok(body),
            false => Err(self.error(status, &body)),
        }
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, WorkerError> {
        self.parse(&self.bytes(request).await?)
    }

    fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, WorkerError> {
        serde_json::from_slice(body).map_err(|error| {
            WorkerError::Refused(format!(
                "the answer of {} has another shape: {error}",
                self.server
            ))
        })
    }

    async fn send_poll(
        &self,
        credential: &str,
        request: &PollRequest,
        follows: Option<&[String]>,
    ) -> Result<Response, WorkerError> {
        let mut query = vec![
            ("version", request.version.clone()),
            ("room", u8::from(request.has_room).to_string()),
            ("wait", request.wait_millis.to_string()),
        ];
        query.extend(follows.map(|follows| ("follows", follows.join(","))));
        let wait = Duration::from_millis(request.wait_millis);
        let poll = self.request(Method::GET, &["poll"], &query, credential)?;
        self.send(poll.timeout(wait.saturating_add(REQUEST_TIMEOUT))).await
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

fn unreachable(server: &str, error: reqwest::Error) -> WorkerError {
    let why = error.without_url();
    WorkerError::Unavailable(format!("cannot reach {server}: {why}"))
}

fn too_long(limit: usize) -> WorkerError {
    WorkerError::Refused(format!("its response is longer than {limit} bytes"))
}

async fn next_chunk(response: &mut Response, server: &str) -> Result<Option<Vec<u8>>, WorkerError> {
    let chunk = response.chunk().await.map_err(|error| unreachable(server, error))?;
    Ok(chunk.map(|chunk| chunk.to_vec()))
}

/// The body of a response, as it arrives.
struct ResponseStream {
    response: Response,
    server: String,
    length: usize,
}

impl ByteStream for ResponseStream {
    fn next(&mut self) -> Chunk<'_> {
        Box::pin(async move {
            let chunk = next_chunk(&mut self.response, &self.server).await?;
            self.length += chunk.as_ref().map_or(0, Vec::len);
            match self.length > MAX_BUNDLE_BYTES {
                true => Err(too_long(MAX_BUNDLE_BYTES)),
                false => Ok(chunk),
            }
        })
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

    fn renew<'a>(
        &'a self,
        credential: &'a str,
        request: RenewRequest,
    ) -> WorkerAnswer<'a, JoinAnswer> {
        Box::pin(async move { self.post(&["renew"], credential, &request).await })
    }

    fn poll<'a>(
        &'a self,
        credential: &'a str,
        request: PollRequest,
    ) -> WorkerAnswer<'a, PollAnswer> {
        Box::pin(async move {
            let follows = request.follows.as_deref();
            let mut response = self.send_poll(credential, &request, follows).await?;
            // An older server refuses parameters that it does not know.
            if follows.is_some() && response.status() == StatusCode::BAD_REQUEST {
                response = self.send_poll(credential, &request, None).await?;
            }
            self.parse(&self.success(response).await?)
        })
    }

    fn repository<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        has: &'a [String],
    ) -> WorkerAnswer<'a, Box<dyn ByteStream>> {
        Box::pin(async move {
            let path = ["attempts", &lease.agent, "repository"];
            let body = RepositoryRequest { fence: lease.fence, has: has.to_vec() };
            let request = self.request(Method::POST, &path, &[], credential)?;
            let request = with_json(request, &body)?.timeout(FETCH_TIMEOUT);
            let response = self.send(request).await?;
            if response.status().is_success() {
                let server = self.server.to_string();
                return Ok(Box::new(ResponseStream { response, server, length: 0 }) as Box<_>);
            }
            let status = response.status();
            let body = self.body(response).await?;
            Err(self.error(status, &body))
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
            let request = request.timeout(SEND_TIMEOUT);
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
