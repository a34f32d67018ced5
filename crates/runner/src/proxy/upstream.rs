//! The model behind the proxy: where it is, and the key that only we have.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap,
    HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Method, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use super::renewal::{LoginExpired, NoKey, Renewal, RenewedKey};
use super::signature::{SignatureError, Signer};
use super::{ModelApi, ProxyError};

/// How long a connection to the model may take.
const CONNECT_TIME: Duration = Duration::from_secs(30);
/// How long the model may be silent.
const SILENCE: Duration = Duration::from_mins(10);

/// The message for the CLI when there is no valid key: errors of the person's login programs are not for it.
const LOGIN_OVER: &str = "the login has expired; a person must log in again";

/// The model's endpoint and its key.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// The base URL of the API, as its own CLIs have it: `https://api.anthropic.com`, `https://api.openai.com/v1`,
    /// `https://generativelanguage.googleapis.com`.
    pub base: String,
    /// The key.
    pub key: Key,
    /// The source of the key, as a person would look for it: a variable, a file, a login.
    pub origin: Option<String>,
}

/// The key of the model: a header, or keys that sign each request. It is never printed.
#[derive(Debug, Clone)]
pub struct Key(Credential);

#[derive(Clone)]
enum Credential {
    Header { name: HeaderName, value: HeaderValue },
    Signature(Signer),
    Renewed(Renewal),
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error("a key that is renewed opens nothing before its current one is taken")]
    NotCurrent,
}

impl Key {
    /// A header, such as `x-api-key`, and all of its value, such as `Bearer …` behind
    /// `authorization`.
    pub fn new(header: &str, value: &str) -> Result<Self, ProxyError> {
        let name = HeaderName::try_from(header).map_err(|_| ProxyError::Key)?;
        let mut value = HeaderValue::try_from(value).map_err(|_| ProxyError::Key)?;
        value.set_sensitive(true);
        Ok(Self(Credential::Header { name, value }))
    }

    /// A person's keys at Amazon, with which each request to a region is signed.
    pub fn signing(id: &str, secret: &str, session: Option<&str>, region: &str) -> Self {
        Self(Credential::Signature(Signer::new(id, secret, session, region)))
    }

    /// A key with an expiry: it is renewed before. That may take a moment, and must end.
    pub fn renewed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        first: RenewedKey,
        source: impl Fn() -> Result<RenewedKey, E> + Send + Sync + 'static,
    ) -> Self {
        let source = move || source().map_err(NoKey::source);
        Self(Credential::Renewed(Renewal::new(first, Arc::new(source))))
    }

    /// Reports the secrets of every renewed key, before it is used.
    pub fn on_secret(&self, hides: impl Fn(String) + Send + Sync + 'static) {
        match &self.0 {
            Credential::Header { .. } | Credential::Signature(_) => {}
            Credential::Renewed(renewal) => renewal.on_secret(hides),
        }
    }

    /// The secrets themselves: of a header, the last word of the value.
    pub(super) fn secrets(&self) -> Vec<Vec<u8>> {
        match &self.0 {
            Credential::Header { value, .. } => {
                let value = value.as_bytes();
                vec![value.rsplit(|&byte| byte == b' ').next().unwrap_or(value).to_vec()]
            }
            Credential::Signature(signer) => {
                signer.secrets().into_iter().map(<[u8]>::to_vec).collect()
            }
            Credential::Renewed(renewal) => renewal.secrets(),
        }
    }

    /// The key that is good at this moment.
    async fn current(&self) -> Result<Self, LoginExpired> {
        match &self.0 {
            Credential::Header { .. } | Credential::Signature(_) => Ok(self.clone()),
            Credential::Renewed(renewal) => renewal.current(SystemTime::now()).await,
        }
    }

    /// Another one in place of one that was refused, if it can be had.
    async fn instead_of(&self, refused: &Self) -> Option<Self> {
        match &self.0 {
            Credential::Header { .. } | Credential::Signature(_) => None,
            Credential::Renewed(renewal) => renewal.instead_of(refused, SystemTime::now()).await,
        }
    }

    /// Opens the model for a request that is sent now.
    fn open(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        body: &[u8],
    ) -> Result<(), OpenError> {
        match &self.0 {
            Credential::Header { name, value } => {
                headers.insert(name.clone(), value.clone());
                Ok(())
            }
            Credential::Signature(signer) => {
                Ok(signer.sign(method, url, headers, body, SystemTime::now())?)
            }
            Credential::Renewed(_) => Err(OpenError::NotCurrent),
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header { name, .. } => {
                formatter.debug_struct("Header").field("name", name).finish_non_exhaustive()
            }
            Self::Signature(signer) => signer.fmt(formatter),
            Self::Renewed(renewal) => renewal.fmt(formatter),
        }
    }
}

/// Headers with credentials of the CLI; they contain a placeholder.
const WHO: [HeaderName; 12] = [
    AUTHORIZATION,
    PROXY_AUTHORIZATION,
    COOKIE,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("x-goog-user-project"),
    HeaderName::from_static("x-goog-fieldmask"),
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-amz-date"),
    HeaderName::from_static("x-amz-security-token"),
    HeaderName::from_static("x-amz-content-sha256"),
];

/// Query parameters with credentials.
const WHO_IN_QUERY: [&str; 4] = ["key", "api_key", "api-key", "access_token"];

/// Headers that are about a connection, and not about what goes over it.
const HOP: [HeaderName; 8] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// The headers without those that are about the connection.
pub(super) fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let stays = |name: &HeaderName| {
        !HOP.contains(name) && !named.iter().any(|other| other == name.as_str())
    };
    let forwarded = headers.iter().filter(|(name, _)| stays(name));
    forwarded.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The query without credentials.
pub(super) fn clean_query(query: Option<&str>) -> Option<String> {
    let keeps = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default();
        // A name that is written in another way is nothing that a program of ours sends.
        !name.contains('%') && !WHO_IN_QUERY.contains(&name.to_ascii_lowercase().as_str())
    };
    let parameters: Vec<&str> = query?.split('&').filter(keeps).collect();
    (!parameters.is_empty()).then(|| parameters.join("&"))
}

/// A query parameter that no CLI sends to this model: at Google, others choose the format of the response, or who
/// pays for it.
pub(super) fn foreign_query(wire: ModelApi, query: Option<&str>) -> Option<&str> {
    let known = |part: &&str| match part.split_once('=') {
        Some(("beta", value)) => value.chars().all(|c| c.is_ascii_alphanumeric()),
        Some(_) | None => false,
    };
    match wire {
        ModelApi::Anthropic => query?.split('&').find(|part| !known(part)),
        // Others leave out of an answer what it took.
        ModelApi::Gemini => query?.split('&').find(|part| {
            let name = part.split('=').next().unwrap_or_default();
            *part != "alt=sse" && !WHO_IN_QUERY.contains(&name)
        }),
        ModelApi::Responses | ModelApi::Chat => None,
    }
}

/// A client of the model.
pub(super) struct Model {
    client: Client,
    base: Url,
    key: Key,
}

/// A request to the model.
pub(super) struct OutgoingRequest<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: Bytes,
}

/// A request to the model without the key.
#[derive(Clone)]
struct UnsignedRequest {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

/// The model did not answer.
pub(super) struct UpstreamError {
    pub(super) why: String,
    /// The message to the program.
    pub(super) told: String,
}

impl Model {
    pub(super) fn new(upstream: &Upstream) -> Result<Self, ProxyError> {
        let invalid_base = || ProxyError::Base(upstream.base.clone());
        let base = Url::parse(&upstream.base).map_err(|_| invalid_base())?;
        let plain = base.query().is_none() && base.fragment().is_none();
        let nobody = base.username().is_empty() && base.password().is_none();
        if !matches!(base.scheme(), "http" | "https") || !plain || !nobody {
            return Err(invalid_base());
        }
        // A redirect would send the key to a host that was not configured. An earlier caller has installed the same
        // provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIME)
            .read_timeout(SILENCE)
            .referer(false);
        if is_local(&base) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| ProxyError::Client(in_full(&error)))?;
        Ok(Self { client, base, key: upstream.key.clone() })
    }

    /// Sends a request as ours, and gives the answer as soon as it begins.
    pub(super) async fn send(
        &self,
        sent: OutgoingRequest<'_>,
    ) -> Result<reqwest::Response, UpstreamError> {
        let OutgoingRequest { method, path, query, headers, body } = sent;
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url.set_query(query);
        let mut headers = end_to_end(headers);
        for name in WHO.iter().chain(&[HOST, CONTENT_LENGTH, EXPECT]) {
            headers.remove(name);
        }
        // Compressed data could not be read on its way.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let over = |error: LoginExpired| UpstreamError {
            told: LOGIN_OVER.to_owned(),
            why: error.to_string(),
        };
        let key = self.key.current().await.map_err(over)?;
        let request = UnsignedRequest { method, url, headers, body };
        let answer = self.ask(request.clone(), &key).await?;
        if !refuses_key(&answer) {
            return Ok(answer);
        }
        // Nothing of it has reached the program. The key may have been over sooner than was thought.
        match self.key.instead_of(&key).await {
            Some(other) => self.ask(request, &other).await,
            None => Ok(answer),
        }
    }

    async fn ask(
        &self,
        request: UnsignedRequest,
        key: &Key,
    ) -> Result<reqwest::Response, UpstreamError> {
        let UnsignedRequest { method, url, mut headers, body } = request;
        let unsigned = |error: OpenError| {
            let why = error.to_string();
            UpstreamError { told: why.clone(), why }
        };
        key.open(&method, &url, &mut headers, &body).map_err(unsigned)?;
        let request = self.client.request(method, url).headers(headers).body(body);
        request.send().await.map_err(|error| {
            let why = in_full(&error.without_url());
            UpstreamError { told: why.clone(), why }
        })
    }

    pub(super) fn secrets(&self) -> Vec<Vec<u8>> {
        self.key.secrets()
    }
}

/// Whether the key was refused. Amazon reports an expired key as forbidden, like much else.
fn refuses_key(answer: &reqwest::Response) -> bool {
    let kind = answer.headers().get("x-amzn-errortype").and_then(|kind| kind.to_str().ok());
    match answer.status() {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => kind.is_some_and(|kind| kind.starts_with("ExpiredToken")),
        _ => false,
    }
}

fn is_local(base: &Url) -> bool {
    let host = base.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// An error with all of its causes.
pub(super) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
#[cfg(test)]
mod tests;
