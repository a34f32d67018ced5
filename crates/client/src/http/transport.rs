//! Requests to one server with one token, and the errors that its responses mean.
//!
//! Redirects are not followed: they would carry the token to another host.

use std::time::Duration;

use bailiwick_fleet::ports::{ActionError, ActionReason};
use bailiwick_fleet::resources::DeclareError;
use bailiwick_resources::{Fault, Kind};
use bailiwick_server::{ErrorBody, ErrorDetail};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::contexts::Token;
use crate::error::ClientError;
use crate::server_address::ServerAddress;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than the server's own limit for a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// A stream has a heartbeat every 15 seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(90);
pub(super) const MAX_RESPONSE_BYTES: usize = 128 << 20;

/// A connection to a server.
#[derive(Clone)]
pub(super) struct Transport {
    client: Client,
    server: ServerAddress,
    authorization: HeaderValue,
}

/// A request; its path is below `/api/v1alpha1`.
pub(super) struct Call<'a> {
    pub(super) method: Method,
    pub(super) path: &'a [&'a str],
    pub(super) query: Vec<(&'static str, String)>,
}

impl<'a> Call<'a> {
    pub(super) fn get(path: &'a [&'a str]) -> Self {
        Self { method: Method::GET, path, query: Vec::new() }
    }

    pub(super) fn post(path: &'a [&'a str]) -> Self {
        Self { method: Method::POST, path, query: Vec::new() }
    }

    #[must_use]
    pub(super) fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.query.push((key, value.to_string()));
        self
    }
}

impl Transport {
    pub(super) fn new(server: ServerAddress, token: &Token) -> Result<Self, ClientError> {
        let client = client(&server)?;
        let failed = |why: String| ClientError::Unreachable { server: server.to_string(), why };
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.secret()))
            .map_err(|_| failed("the token cannot be sent in a header".to_owned()))?;
        authorization.set_sensitive(true);
        Ok(Self { client, server, authorization })
    }

    /// Sends a request without a body.
    pub(super) async fn ask<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, ClientError> {
        self.send(call, None::<&()>).await
    }

    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        call: Call<'_>,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let request = self.request(&call, body)?.timeout(REQUEST_TIMEOUT);
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        let (status, body) = self.read(response).await?;
        if !status.is_success() {
            return Err(self.error(status, &body));
        }
        serde_json::from_slice(&body)
            .map_err(|error| self.incompatible(format!("its response has another shape: {error}")))
    }

    /// Opens a stream of events.
    pub(super) async fn open(&self, call: Call<'_>) -> Result<Response, ClientError> {
        let request = self.request(&call, None::<&()>)?.header(ACCEPT, "text/event-stream");
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, body) = self.read(response).await?;
        Err(self.error(status, &body))
    }

    fn request(
        &self,
        call: &Call<'_>,
        body: Option<&impl Serialize>,
    ) -> Result<reqwest::RequestBuilder, ClientError> {
        let whole: Vec<&str> = ["api", "v1alpha1"].iter().chain(call.path).copied().collect();
        let url = self.server.below(&whole, &call.query).ok_or_else(|| {
            ActionError::NotFound(format!("`{}` is not a valid name", call.path.join("/")))
        })?;
        let request = self
            .client
            .request(call.method.clone(), url)
            .header(AUTHORIZATION, self.authorization.clone());
        let Some(body) = body else { return Ok(request) };
        let body = serde_json::to_vec(body).map_err(|error| ClientError::Refused {
            server: self.server.to_string(),
            message: format!("the request cannot be written as JSON: {error}"),
        })?;
        Ok(request.header(CONTENT_TYPE, "application/json").body(body))
    }

    async fn read(&self, mut response: Response) -> Result<(StatusCode, Vec<u8>), ClientError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(error))? {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                let why = format!("its response is longer than {MAX_RESPONSE_BYTES} bytes");
                return Err(self.incompatible(why));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((response.status(), body))
    }

    /// The error that a response means.
    fn error(&self, status: StatusCode, body: &[u8]) -> ClientError {
        let server = self.server.to_string();
        if status == StatusCode::UNAUTHORIZED {
            return ClientError::TokenRejected { server };
        }
        if status.is_redirection() {
            let message = "it redirects to another address; log in to that one".to_owned();
            return ClientError::Refused { server, message };
        }
        let Ok(ErrorBody { error }) = serde_json::from_slice::<ErrorBody>(body) else {
            let why = format!("it answered with status {}", status.as_u16());
            return match status.is_server_error() {
                true => ClientError::Unreachable { server, why },
                false => self.incompatible(format!("{why}, not as a bailiwick server does")),
            };
        };
        let ErrorDetail { code, message, resource, reasons, .. } = error;
        match (status, code.as_str()) {
            (StatusCode::FORBIDDEN, "SCOPE_DENIED") => ClientError::ScopeDenied { message },
            (StatusCode::FORBIDDEN, "POLICY_DENIED") => {
                ActionError::Denied { message, reasons }.into()
            }
            (StatusCode::NOT_FOUND, "NO_SUCH_PATH") | (StatusCode::METHOD_NOT_ALLOWED, _) => {
                self.incompatible("it does not know this request".to_owned())
            }
            (StatusCode::NOT_FOUND, _) => ActionError::NotFound(message).into(),
            (StatusCode::CONFLICT, _) => {
                let first = reasons.into_iter().next().map(|reason| reason.code);
                ActionError::Conflict { code: first.unwrap_or(code), message }.into()
            }
            (StatusCode::UNPROCESSABLE_ENTITY, _) => invalid(&resource, reasons),
            (StatusCode::TOO_MANY_REQUESTS, _) => ActionError::TooMany(message).into(),
            (status, _) if status.is_server_error() => ActionError::Unavailable(message).into(),
            _ => ClientError::Refused { server, message },
        }
    }

    pub(super) fn unreachable(&self, error: reqwest::Error) -> ClientError {
        let why = match error.is_timeout() {
            true => "it did not answer in time".to_owned(),
            false => root_cause(&error.without_url()),
        };
        ClientError::Unreachable { server: self.server.to_string(), why }
    }

    pub(super) fn incompatible(&self, why: String) -> ClientError {
        let client = env!("CARGO_PKG_VERSION").to_owned();
        ClientError::Incompatible { server: self.server.to_string(), client, why }
    }
}

/// The settings of every connection to this server.
pub(crate) fn client(server: &ServerAddress) -> Result<Client, ClientError> {
    // An earlier call has installed the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut client = Client::builder()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .user_agent(concat!("bailiwick/", env!("CARGO_PKG_VERSION")))
        .referer(false);
    if server.is_loopback() {
        client = client.no_proxy();
    }
    client.build().map_err(|error| ClientError::Unreachable {
        server: server.to_string(),
        why: root_cause(&error),
    })
}

/// Faults of a document, if they are about one; else those of a request.
fn invalid(resource: &str, reasons: Vec<ActionReason>) -> ClientError {
    let faults: Vec<Fault> =
        reasons.into_iter().map(|reason| Fault::new(&reason.field, reason.message)).collect();
    let mut parts = resource.split('/');
    let kind = parts.next().and_then(|kind| kind.parse::<Kind>().ok());
    match (kind, parts.next_back()) {
        (Some(kind), Some(name)) => {
            DeclareError::Faulty { kind, name: name.to_owned(), faults }.into()
        }
        (Some(_) | None, _) => ActionError::Invalid(faults).into(),
    }
}

/// The first cause: what is around it only says that a request failed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
