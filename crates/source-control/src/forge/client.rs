//! HTTP with one credential to one host.
//!
//! Redirects are not followed: they would carry the credential to another host. Only reads are retried
//! here; the caller retries a write with the same key.

use std::time::Duration;

use bailiwick_fleet::ports::ForgeError;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderName, HeaderValue, LINK, LOCATION, RETRY_AFTER,
};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::token::Token;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_RESPONSE_BYTES: usize = 32 << 20;
/// Longer logs are refused, even though only their end is kept.
const MAX_LOG_BYTES: usize = 512 << 20;
const MAX_ATTEMPTS: u32 = 3;
const PAGE_SIZE: &str = "50";
const MAX_PAGES: usize = 400;

/// The differences between the APIs of forges.
#[derive(Debug, Clone, Copy)]
pub(super) struct ApiStyle {
    /// The authorization scheme.
    pub(super) scheme: &'static str,
    /// The `Accept` header.
    pub(super) accept: &'static str,
    /// The query parameter for the page size.
    pub(super) page_size: &'static str,
}

/// The API of one repository on a forge.
#[derive(Debug, Clone)]
pub(super) struct Api {
    client: Client,
    /// The address of the API.
    root: Url,
    /// The address of the repository below it.
    base: Url,
    token: Token,
    style: ApiStyle,
}

/// A response, successful or not.
pub(super) struct ApiResponse {
    status: u16,
    body: Vec<u8>,
    /// The `Date` header: the time on the forge's clock.
    pub(super) date: Option<String>,
    /// Whether there is another page, if the forge says so.
    has_next: Option<bool>,
    /// How many entries all pages of a list have, if the forge says so.
    total: Option<usize>,
    /// The path that was requested.
    path: String,
}

impl Api {
    /// The API at `base` for the repository `full_name`.
    pub(super) fn new(
        base: &str,
        full_name: &str,
        token: Token,
        style: ApiStyle,
    ) -> Result<Self, ForgeError> {
        let root = address(base)?;
        let mut url = root.clone();
        let parts: Vec<&str> = full_name.split('/').collect();
        extend(&mut url, &["repos"])?;
        extend(&mut url, &parts)?;
        // An earlier call has installed the same provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .user_agent("bailiwick")
            .referer(false);
        if is_local(base) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| {
            ForgeError::Refused(format!(
                "the HTTP client cannot be created: {}",
                with_causes(&error)
            ))
        })?;
        Ok(Self { client, root, base: url, token, style })
    }

    /// Reads a resource, with retries.
    pub(super) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<ApiResponse, ForgeError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let response = match self.request(Method::GET, path, query, None).await {
                Ok(response) => self.read(response, path).await,
                Err(error) => Err(error),
            };
            let again = match &response {
                Ok(response) => response.status >= 500,
                Err(ForgeError::Unavailable(_)) => true,
                Err(
                    ForgeError::Refused(_) | ForgeError::Moved { .. } | ForgeError::Unsupported(_),
                ) => false,
            };
            if !again || attempts == MAX_ATTEMPTS {
                return response;
            }
            tokio::time::sleep(Duration::from_millis(200 << attempts)).await;
        }
    }

    /// The API outside of the repository.
    pub(super) fn root_api(&self) -> Self {
        Self { base: self.root.clone(), ..self.clone() }
    }

    /// Sends a write request once.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<ApiResponse, ForgeError> {
        let body = serde_json::to_vec(body).map_err(|error| {
            ForgeError::Refused(format!("the request cannot be written as JSON: {error}"))
        })?;
        let response = self.request(method, path, &[], Some(body)).await?;
        self.read(response, path).await
    }

    /// Reads page after page until `matching` returns something.
    pub(super) async fn find<P: DeserializeOwned + Paged, T>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        mut matching: impl FnMut(&P) -> Option<T>,
    ) -> Result<Option<T>, ForgeError> {
        let mut last = Vec::new();
        let mut seen = 0;
        for page in 1..=MAX_PAGES {
            let number = page.to_string();
            let mut query = query.to_vec();
            query.extend([("page", number.as_str()), (self.style.page_size, PAGE_SIZE)]);
            let response = self.get(path, &query).await?.require_success(&self.token)?;
            let parsed: P = response.json()?;
            if let Some(found) = matching(&parsed) {
                return Ok(Some(found));
            }
            seen += parsed.len();
            // A forge without pages returns the same again. A short page may still have a successor. Gitea before
            // 1.21 answers a page behind the last one with an error.
            let is_complete = response.total.is_some_and(|total| seen >= total);
            if parsed.len() == 0
                || is_complete
                || response.has_next == Some(false)
                || response.body == last
            {
                return Ok(None);
            }
            last = response.body;
        }
        let why = format!("{} has more than {MAX_PAGES} pages", path.join("/"));
        Err(ForgeError::Unavailable(why))
    }

    /// The end of a text that may be long.
    pub(super) async fn tail(&self, path: &[&str], max_bytes: usize) -> Result<String, ForgeError> {
        let mut response = self.request(Method::GET, path, &[], None).await?;
        if response.status().is_redirection() {
            // Logs may be on another host, where the address is enough and no token is sent.
            let place = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
            let place = place.unwrap_or_default().to_owned();
            let url = address(&place)?;
            let sent = self.client.get(url).send().await;
            response = sent.map_err(|error| self.unavailable(error))?;
        }
        if !response.status().is_success() {
            self.read(response, path).await?.require_success(&self.token)?;
            return Err(ForgeError::Unavailable(
                "the response for a log has an unexpected status".to_owned(),
            ));
        }
        let (mut kept, mut seen) = (Vec::new(), 0_usize);
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unavailable(error))? {
            seen += chunk.len();
            if seen > MAX_LOG_BYTES {
                let why = format!("the log is longer than {MAX_LOG_BYTES} bytes");
                return Err(ForgeError::Refused(why));
            }
            kept.extend_from_slice(&chunk);
            // Only now and then, so that a long log is not moved with each chunk.
            if kept.len() > max_bytes.saturating_mul(2).saturating_add(1 << 20) {
                kept.drain(..kept.len() - max_bytes);
            }
        }
        kept.drain(..kept.len().saturating_sub(max_bytes));
        let text = String::from_utf8_lossy(&kept);
        // The first character may be incomplete.
        Ok(text.trim_start_matches(char::REPLACEMENT_CHARACTER).to_owned())
    }

    /// The response, or the error that it means.
    pub(super) fn require_success(&self, response: ApiResponse) -> Result<ApiResponse, ForgeError> {
        response.require_success(&self.token)
    }

    async fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Response, ForgeError> {
        let mut url = self.base.clone();
        extend(&mut url, path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let authorization = format!("{} {}", self.style.scheme, self.token.secret());
        let mut authorization = HeaderValue::try_from(authorization).map_err(|_| {
            ForgeError::Refused("the credential cannot be sent in a header".to_owned())
        })?;
        authorization.set_sensitive(true);
        let mut request = self
            .client
            .request(method, url)
            .header(AUTHORIZATION, authorization)
            .header(ACCEPT, self.style.accept);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        request.send().await.map_err(|error| self.unavailable(error))
    }

    async fn read(&self, mut response: Response, path: &[&str]) -> Result<ApiResponse, ForgeError> {
        let status = response.status().as_u16();
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let date = text(DATE).map(str::to_owned);
        let has_next = text(LINK).map(|link| link.contains("rel=\"next\""));
        let total =
            text(HeaderName::from_static("x-total-count")).and_then(|text| text.parse().ok());
        let remaining = text(HeaderName::from_static("x-ratelimit-remaining"));
        // Rate limits: some forges only send `Retry-After`.
        let has_retry_after = response.headers().contains_key(RETRY_AFTER);
        let is_limited =
            status == 429 || (status == 403 && (remaining == Some("0") || has_retry_after));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unavailable(error))? {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                let why = format!("{} is longer than {MAX_RESPONSE_BYTES} bytes", path.join("/"));
                return Err(ForgeError::Refused(why));
            }
            body.extend_from_slice(&chunk);
        }
        if is_limited || (status == 403 && is_secondary_rate_limit(&body)) {
            let why = format!("status {status}: too many requests");
            return Err(ForgeError::Unavailable(why));
        }
        Ok(ApiResponse { status, body, date, has_next, total, path: path.join("/") })
    }

    fn unavailable(&self, error: reqwest::Error) -> ForgeError {
        let why = with_causes(&error.without_url());
        ForgeError::Unavailable(self.token.redact(&why))
    }
}

/// A page of a list.
pub(super) trait Paged {
    fn len(&self) -> usize;
}

impl<T> Paged for Vec<T> {
    fn len(&self) -> usize {
        Self::len(self)
    }
}

impl ApiResponse {
    /// Whether the resource does not exist.
    pub(super) fn is_missing(&self) -> bool {
        self.status == 404
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// The response, or the error that its status means.
    pub(super) fn require_success(self, token: &Token) -> Result<Self, ForgeError> {
        match self.status {
            200..=299 => Ok(self),
            500.. | 408 => Err(ForgeError::Unavailable(format!("status {}", self.status))),
            300..=399 => {
                let why = format!(
                    "{} has moved (status {}); use the forge's own address",
                    self.path, self.status
                );
                Err(ForgeError::Refused(why))
            }
            _ => {
                let message = token.redact(&self.message());
                Err(ForgeError::Refused(format!("{}: status {} {message}", self.path, self.status)))
            }
        }
    }

    /// The forge's message, in one line.
    pub(super) fn message(&self) -> String {
        let value: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let field = |name| value.as_ref().and_then(|value| value.get(name)?.as_str());
        let plain = || String::from_utf8_lossy(&self.body).into_owned();
        let mut message = field("message").map_or_else(plain, str::to_owned);
        // GitHub sends causes beside its message.
        let causes = value.as_ref().and_then(|value| value.get("errors")?.as_array());
        for cause in causes.into_iter().flatten() {
            let cause = cause.get("message").and_then(serde_json::Value::as_str);
            message = format!("{message} {}", cause.unwrap_or_default());
        }
        message.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(500).collect()
    }

    /// Parses the body. If that fails, it is not known whether a write succeeded.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, ForgeError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            ForgeError::Unavailable(format!(
                "the response for {} cannot be parsed: {error}",
                self.path
            ))
        })
    }
}

/// Parses the address of a forge. It must not send the credential unencrypted.
pub(super) fn address(text: &str) -> Result<Url, ForgeError> {
    let refuse = |why: &str| Err(ForgeError::Refused(format!("the forge's address {why}")));
    let Ok(url) = Url::parse(text) else {
        return refuse("cannot be read; write it as https://host/path");
    };
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("contains a credential; store it as a secret and name that");
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_local(text) => Ok(url),
        "http" => refuse("begins with http, which would send the token unencrypted; use https"),
        _ => refuse("must begin with https"),
    }
}

/// Whether an address is on this machine.
pub(crate) fn is_local(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Adds segments to a path; each one is escaped.
fn extend(url: &mut Url, parts: &[&str]) -> Result<(), ForgeError> {
    // URLs drop these segments, and the request would be for another path.
    if let Some(part) = parts.iter().find(|part| matches!(**part, "" | "." | "..")) {
        return Err(ForgeError::Refused(format!("`{part}` cannot be part of an address")));
    }
    match url.path_segments_mut() {
        Ok(mut path) => {
            path.pop_if_empty().extend(parts);
            Ok(())
        }
        Err(()) => Err(ForgeError::Refused("the forge's address has no path".to_owned())),
    }
}

/// GitHub does not always send a header for this limit; then only the message tells it from a refusal.
fn is_secondary_rate_limit(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("secondary rate limit")
}

/// The text of an error and its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
