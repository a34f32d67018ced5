//! HTTP with one credential to one host.
//!
//! Redirects are not followed: they would carry the credential to another host. Only reads are retried
//! here; the caller retries a write with the same key.

use std::time::{Duration, Instant};

use bailiwick_fleet::ports::{AccountProblem, ForgeError};
use bailiwick_model::Sha256Hex;
use bailiwick_model::backoff::Backoff;
use jiff::Timestamp;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH, LINK,
    LOCATION, RETRY_AFTER,
};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::conditional::{KnownResponse, RESPONSES};
use super::long_text::CutJson;
use super::pause::{DEFAULT_PAUSE, PAUSES, retry_after};
use super::token::Token;
use crate::loopback::is_local;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Of a response that is kept: long texts in it are cut.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Of a response that is read, texts that are cut included.
const MAX_RECEIVED_BYTES: usize = 1 << 30;
/// Longer logs are refused, even though only their end is kept.
const MAX_LOG_BYTES: usize = 512 << 20;
const MAX_ATTEMPTS: u32 = 3;
const RETRIES: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
const PAGE_SIZE: &str = "50";
const PAGE_LENGTH: usize = 50;
/// How many entries of a page are left out because each is too large. More of them: the list has no pages.
const MAX_LARGE_ENTRIES: usize = 3;
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
    /// Whether responses that have not changed are free.
    pub(super) is_conditional: bool,
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
    /// What pauses are kept under: the host and the token.
    account: String,
}

/// A response, successful or not.
pub(super) struct ApiResponse {
    status: u16,
    body: Vec<u8>,
    /// The `Date` header: the time on the forge's clock.
    pub(super) date: Option<String>,
    /// Whether there is another page, if the forge says so.
    has_next: Option<bool>,
    /// The cursor of the next page, where pages have no numbers.
    next_cursor: Option<String>,
    /// How many entries all pages of a list have, if the forge says so.
    total: Option<usize>,
    /// The scopes of a classic token of GitHub; nothing for other tokens and forges.
    pub(super) scopes: Option<String>,
    /// The path that was requested.
    path: String,
    is_read: bool,
    /// The address of a redirect.
    location: Option<String>,
    /// Whether it was longer than the limit: then its body is not kept.
    is_too_large: bool,
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
        let host = root.origin().ascii_serialization();
        let account = format!("{host} {}", Sha256Hex::of(token.secret()));
        Ok(Self { client, root, base: url, token, style, account })
    }

    /// Reads a resource, with retries. That it does not exist is believed only if the repository can be read.
    pub(super) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<ApiResponse, ForgeError> {
        let response = self.get_with_retries(path, query).await?;
        if response.is_missing() && !path.is_empty() && self.base != self.root {
            self.get_with_retries(&[], &[]).await?.require_success(&self.token)?;
        }
        Ok(response)
    }

    async fn get_with_retries(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<ApiResponse, ForgeError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let response = self.get_if_changed(path, query).await;
            let again = match &response {
                _ if self.pause().is_some() => false,
                Ok(response) => response.status >= 500,
                Err(ForgeError::Unavailable(_)) => true,
                Err(
                    ForgeError::Refused(_)
                    | ForgeError::Moved { .. }
                    | ForgeError::Unsupported(_)
                    | ForgeError::Account(_),
                ) => false,
            };
            if !again || attempts == MAX_ATTEMPTS {
                return response;
            }
            tokio::time::sleep(RETRIES.delay(attempts)).await;
        }
    }

    /// Reads a resource once; what the forge says has not changed is not sent again.
    async fn get_if_changed(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<ApiResponse, ForgeError> {
        let name = format!("{} {} {path:?} {query:?}", self.account, self.base);
        let known = if self.style.is_conditional { RESPONSES.get(&name) } else { None };
        let mut request = self.prepare(Method::GET, path, query)?;
        if let Some(known) = &known {
            request = request.header(IF_NONE_MATCH, &known.tag);
        }
        let response = request.send().await.map_err(|error| self.unavailable(error))?;
        let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let mut response = self.read(response, path, true).await?;
        match (response.status, known, tag) {
            (304, Some(known), _) => {
                let KnownResponse { tag: _, body, has_next, next_cursor } = known;
                response = ApiResponse { status: 200, body, has_next, next_cursor, ..response };
            }
            (200, _, Some(tag)) if self.style.is_conditional && !response.is_too_large => {
                let (body, next_cursor) = (response.body.clone(), response.next_cursor.clone());
                let has_next = response.has_next;
                RESPONSES.keep(&name, KnownResponse { tag, body, has_next, next_cursor });
            }
            (_, _, _) => {}
        }
        Ok(response)
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
        self.read(response, path, false).await
    }

    /// Reads page after page until `matching` returns something.
    pub(super) async fn find<P: DeserializeOwned + Paged, T>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        matching: impl FnMut(&P) -> Option<T>,
    ) -> Result<Option<T>, ForgeError> {
        self.find_in_pages(path, query, TotalCount::OfAllPages, matching).await
    }

    /// The same, for a list whose count means something else.
    pub(super) async fn find_in_pages<P: DeserializeOwned + Paged, T>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        count: TotalCount,
        matching: impl FnMut(&P) -> Option<T>,
    ) -> Result<Option<T>, ForgeError> {
        self.read_pages(path, query, (count, ListAccess::Required), matching).await
    }

    /// The same, for a list that the token need not be allowed to read, or that an older forge does not have.
    pub(super) async fn find_if_allowed<P: DeserializeOwned + Paged, T>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        matching: impl FnMut(&P) -> Option<T>,
    ) -> Result<Option<T>, ForgeError> {
        let list = (TotalCount::OfAllPages, ListAccess::Optional);
        self.read_pages(path, query, list, matching).await
    }

    async fn read_pages<P: DeserializeOwned + Paged, T>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        (count, access): (TotalCount, ListAccess),
        mut matching: impl FnMut(&P) -> Option<T>,
    ) -> Result<Option<T>, ForgeError> {
        let mut last = Vec::new();
        let (mut seen, mut longest) = (0, 0);
        for page in 1..=MAX_PAGES {
            let response = self.get_page(path, query, page, PAGE_SIZE).await?;
            if access == ListAccess::Optional && matches!(response.status, 403 | 404) {
                return Ok(None);
            }
            if response.is_too_large() {
                let length = if longest == 0 { PAGE_LENGTH } else { longest };
                let found =
                    self.read_entries::<P, T>(path, query, (page, length), &mut matching).await?;
                if found.is_some() || response.has_next == Some(false) {
                    return Ok(found);
                }
                seen += length;
                continue;
            }
            let response = response.require_success(&self.token)?;
            // Gitea answers `null` behind the last page of a timeline.
            let Some(parsed) = response.json::<Option<P>>()? else { return Ok(None) };
            if let Some(found) = matching(&parsed) {
                return Ok(Some(found));
            }
            seen += parsed.len();
            longest = longest.max(parsed.len());
            // A forge without pages returns the same again. A short page may still have a successor. Gitea before
            // 1.21 answers a page behind the last one with an error.
            let is_complete = count == TotalCount::OfAllPages
                && response.total.is_some_and(|total| seen >= total);
            if parsed.len() == 0
                || is_complete
                || response.has_next == Some(false)
                || response.body == last
            {
                return Ok(None);
            }
            last = response.body;
        }
        Err(too_many_pages(path))
    }

    async fn get_page(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        page: usize,
        page_size: &str,
    ) -> Result<ApiResponse, ForgeError> {
        let number = page.to_string();
        let mut query = query.to_vec();
        query.extend([("page", number.as_str()), (self.style.page_size, page_size)]);
        self.get(path, &query).await
    }

    /// Reads a page that is too large entry by entry. An entry that is too large by itself is left out.
    async fn read_entries<P: DeserializeOwned + Paged, T>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        (page, length): (usize, usize),
        mut matching: impl FnMut(&P) -> Option<T>,
    ) -> Result<Option<T>, ForgeError> {
        let before = (page - 1) * length;
        let (mut found, mut left_out) = (None, 0);
        for entry in before + 1..=before + length {
            let response = self.get_page(path, query, entry, "1").await?;
            if response.is_too_large() && left_out < MAX_LARGE_ENTRIES {
                left_out += 1;
                continue;
            }
            let response = response.require_success(&self.token)?;
            let Some(parsed) = response.json::<Option<P>>()? else { break };
            if parsed.len() == 0 {
                break;
            }
            found = matching(&parsed);
            if found.is_some() {
                break;
            }
        }
        if left_out > 0 {
            let path = path.join("/");
            tracing::warn!(path, page, left_out, "entries of a list are too large to be read");
        }
        Ok(found)
    }

    /// The same, for an optional list whose pages have no numbers: each response names the next one.
    pub(super) async fn find_by_cursor<P: DeserializeOwned, T>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        mut matching: impl FnMut(&P) -> Option<T>,
    ) -> Result<Option<T>, ForgeError> {
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut query = query.to_vec();
            query.push((self.style.page_size, PAGE_SIZE));
            query.extend(cursor.as_deref().map(|cursor| ("after", cursor)));
            let response = self.get(path, &query).await?;
            if matches!(response.status, 403 | 404) {
                return Ok(None);
            }
            let response = response.require_success(&self.token)?;
            if let Some(found) = matching(&response.json()?) {
                return Ok(Some(found));
            }
            if response.next_cursor.is_none() || response.next_cursor == cursor {
                return Ok(None);
            }
            cursor = response.next_cursor;
        }
        Err(too_many_pages(path))
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
            self.read(response, path, true).await?.require_success(&self.token)?;
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
        let mut request = self.prepare(method, path, query)?;
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        request.send().await.map_err(|error| self.unavailable(error))
    }

    fn prepare(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<RequestBuilder, ForgeError> {
        if let Some(left) = self.pause() {
            let why = format!("it asked for a pause that ends in {} s", left.as_secs() + 1);
            return Err(ForgeError::Unavailable(why));
        }
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
        let request = self.client.request(method, url).header(AUTHORIZATION, authorization);
        Ok(request.header(ACCEPT, self.style.accept))
    }

    fn pause(&self) -> Option<Duration> {
        PAUSES.remaining(&self.account, Instant::now())
    }

    async fn read(
        &self,
        mut response: Response,
        path: &[&str],
        is_read: bool,
    ) -> Result<ApiResponse, ForgeError> {
        let status = response.status().as_u16();
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let date = text(DATE).map(str::to_owned);
        let location = text(LOCATION).map(|place| self.token.redact(place));
        let has_next = text(LINK).map(|link| link.contains("rel=\"next\""));
        let next_cursor = text(LINK).and_then(next_cursor);
        let total =
            text(HeaderName::from_static("x-total-count")).and_then(|text| text.parse().ok());
        let scopes = text(HeaderName::from_static("x-oauth-scopes")).map(str::to_owned);
        let remaining = text(HeaderName::from_static("x-ratelimit-remaining"));
        // Rate limits: some forges only send `Retry-After`.
        let pause = text(RETRY_AFTER).map(|text| retry_after(text, Timestamp::now()));
        let is_limited =
            status == 429 || (status == 403 && (remaining == Some("0") || pause.is_some()));
        if is_limited || (status == 503 && pause.is_some()) {
            let length = pause.flatten().unwrap_or(DEFAULT_PAUSE);
            PAUSES.begin(&self.account, length, Instant::now());
        }
        let body = self.read_body(&mut response).await?;
        let is_too_large = body.is_none();
        let body = body.unwrap_or_default();
        if is_limited || (status == 403 && is_secondary_rate_limit(&body)) {
            let why = format!("status {status}: too many requests");
            return Err(ForgeError::Unavailable(why));
        }
        let path = path.join("/");
        Ok(ApiResponse {
            status,
            body,
            date,
            has_next,
            next_cursor,
            total,
            scopes,
            path,
            is_read,
            location,
            is_too_large,
        })
    }

    /// The body with long texts cut; nothing if it is longer than the limit all the same.
    async fn read_body(&self, response: &mut Response) -> Result<Option<Vec<u8>>, ForgeError> {
        let (mut body, mut received) = (CutJson::default(), 0_usize);
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unavailable(error))? {
            received += chunk.len();
            body.add(&chunk);
            if body.len() > MAX_RESPONSE_BYTES || received > MAX_RECEIVED_BYTES {
                return Ok(None);
            }
        }
        Ok(Some(body.into_bytes()))
    }

    fn unavailable(&self, error: reqwest::Error) -> ForgeError {
        let why = with_causes(&error.without_url());
        ForgeError::Unavailable(self.token.redact(&why))
    }
}

/// What the header `X-Total-Count` of a list counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TotalCount {
    OfAllPages,
    /// Gitea counts only the page of a timeline.
    OfPage,
}

/// Whether a list must be readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListAccess {
    Required,
    Optional,
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

    /// Whether it succeeded, but is longer than the limit.
    pub(super) fn is_too_large(&self) -> bool {
        self.is_too_large && (200..300).contains(&self.status)
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// The response, or the error that its status means.
    pub(super) fn require_success(self, token: &Token) -> Result<Self, ForgeError> {
        match self.status {
            200..=299 if self.is_too_large => {
                let why = format!("{} is longer than {MAX_RESPONSE_BYTES} bytes", self.path);
                Err(ForgeError::Refused(why))
            }
            200..=299 => Ok(self),
            500.. | 408 => Err(ForgeError::Unavailable(format!("status {}", self.status))),
            300..=399 => {
                let to = self.location.unwrap_or_else(|| "another address".to_owned());
                Err(AccountProblem::Renamed { to }.into())
            }
            401 => Err(AccountProblem::TokenRejected.into()),
            403 if self.is_read => {
                let answer = token.redact(&self.message());
                let what =
                    if self.path.is_empty() { "the repository".to_owned() } else { self.path };
                Err(AccountProblem::RightMissing { what, answer }.into())
            }
            404 if self.path.is_empty() => Err(AccountProblem::RepositoryNotFound.into()),
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

/// The cursor in the address of the next page. The address itself is not followed: it could be on another host.
fn next_cursor(link: &str) -> Option<String> {
    let next = link.split(',').find(|part| part.contains("rel=\"next\""))?;
    let (_, address) = next.split_once('<')?;
    let (address, _) = address.split_once('>')?;
    let url = Url::parse(address).ok()?;
    url.query_pairs().find(|(name, _)| name == "after").map(|(_, value)| value.into_owned())
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

/// The forge answers, so that nothing waits for it: what is about one long list only stays unknown.
fn too_many_pages(path: &[&str]) -> ForgeError {
    ForgeError::Refused(format!("{} has more than {MAX_PAGES} pages", path.join("/")))
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
