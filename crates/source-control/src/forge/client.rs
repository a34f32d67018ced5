//! HTTP with one credential to one host.
//!
//! Redirects are not followed: they would carry the credential to a host that nobody has named. Only
//! what changes nothing is tried again here; whoever writes asks again with the same key.

use std::time::Duration;

use bailiwick_fleet::ports::ForgeError;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderValue, LINK, LOCATION, RETRY_AFTER,
};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::token::Token;

const CONNECT_TIME: Duration = Duration::from_secs(10);
const WHOLE_TIME: Duration = Duration::from_secs(60);
/// The longest answer that is read.
const LONGEST: usize = 32 << 20;
/// The longest log that is looked through for its end.
const LONGEST_LOG: usize = 512 << 20;
const TRIES: u32 = 3;
const PAGE: &str = "50";
const MOST_PAGES: usize = 400;

/// How a forge wants to be spoken to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// The word before the token.
    pub(super) scheme: &'static str,
    /// What is asked for.
    pub(super) accept: &'static str,
    /// How the size of a page is asked for.
    pub(super) page_size: &'static str,
}

/// One repository's part of a forge's API.
#[derive(Debug, Clone)]
pub(super) struct Api {
    client: Client,
    /// Where the whole of the API is.
    root: Url,
    base: Url,
    token: Token,
    manner: Manner,
}

/// An answer, whatever it says.
pub(super) struct Answered {
    status: u16,
    body: Vec<u8>,
    /// When the forge gave it, by its own clock.
    pub(super) date: Option<String>,
    next: Option<bool>,
    what: String,
}

impl Api {
    /// The part of the API at `base` that is about the repository `full_name`.
    pub(super) fn new(
        base: &str,
        full_name: &str,
        token: Token,
        manner: Manner,
    ) -> Result<Self, ForgeError> {
        let root = address(base)?;
        let mut url = root.clone();
        let parts: Vec<&str> = full_name.split('/').collect();
        extend(&mut url, &["repos"])?;
        extend(&mut url, &parts)?;
        // Whoever was first has chosen the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIME)
            .timeout(WHOLE_TIME)
            .user_agent("bailiwick")
            .referer(false);
        if is_local(base) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| {
            ForgeError::Refused(format!("no client can be made: {}", in_full(&error)))
        })?;
        Ok(Self { client, root, base: url, token, manner })
    }

    /// Reads something.
    pub(super) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Answered, ForgeError> {
        let mut tried = 0;
        loop {
            tried += 1;
            let answered = match self.ask(Method::GET, path, query, None).await {
                Ok(response) => self.read(response, path).await,
                Err(error) => Err(error),
            };
            let again = match &answered {
                Ok(answered) => answered.status >= 500,
                Err(ForgeError::Unavailable(_)) => true,
                Err(
                    ForgeError::Refused(_) | ForgeError::Moved { .. } | ForgeError::Unsupported(_),
                ) => false,
            };
            if !again || tried == TRIES {
                return answered;
            }
            tokio::time::sleep(Duration::from_millis(200 << tried)).await;
        }
    }

    /// The same for what is no repository's.
    pub(super) fn whole(&self) -> Self {
        Self { base: self.root.clone(), ..self.clone() }
    }

    /// Writes something, once.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<Answered, ForgeError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| ForgeError::Refused(format!("it cannot be written: {error}")))?;
        let response = self.ask(method, path, &[], Some(body)).await?;
        self.read(response, path).await
    }

    /// The first thing on any page that is the one.
    pub(super) async fn find<P: DeserializeOwned + Paged, T>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        mut is_it: impl FnMut(&P) -> Option<T>,
    ) -> Result<Option<T>, ForgeError> {
        let mut last = Vec::new();
        for page in 1..=MOST_PAGES {
            let number = page.to_string();
            let mut query = query.to_vec();
            query.extend([("page", number.as_str()), (self.manner.page_size, PAGE)]);
            let answered = self.get(path, &query).await?.good(&self.token)?;
            let parsed: P = answered.json()?;
            if let Some(found) = is_it(&parsed) {
                return Ok(Some(found));
            }
            // A forge that knows no pages gives the same again; one that allows shorter pages than
            // were asked for may still have more.
            if parsed.is_empty() || answered.next == Some(false) || answered.body == last {
                return Ok(None);
            }
            last = answered.body;
        }
        let why = format!("more than {MOST_PAGES} pages of {}", path.join("/"));
        Err(ForgeError::Unavailable(why))
    }

    /// The end of a text that may be long.
    pub(super) async fn tail(&self, path: &[&str], most: usize) -> Result<String, ForgeError> {
        let mut response = self.ask(Method::GET, path, &[], None).await?;
        if response.status().is_redirection() {
            // Logs are kept elsewhere, and the address is all that is needed there.
            let place = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
            let place = place.unwrap_or_default().to_owned();
            let url = address(&place)?;
            let sent = self.client.get(url).send().await;
            response = sent.map_err(|error| self.unavailable(error))?;
        }
        if !response.status().is_success() {
            self.read(response, path).await?.good(&self.token)?;
            return Err(ForgeError::Unavailable("a log was answered in an unknown way".to_owned()));
        }
        let (mut kept, mut seen) = (Vec::new(), 0_usize);
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unavailable(error))? {
            seen += chunk.len();
            if seen > LONGEST_LOG {
                let why = format!("the log is longer than {LONGEST_LOG} bytes");
                return Err(ForgeError::Refused(why));
            }
            kept.extend_from_slice(&chunk);
            // Only now and then, so that a long log is not moved with each piece.
            if kept.len() > most.saturating_mul(2).saturating_add(1 << 20) {
                kept.drain(..kept.len() - most);
            }
        }
        kept.drain(..kept.len().saturating_sub(most));
        let text = String::from_utf8_lossy(&kept);
        // The first character may have been cut in two.
        Ok(text.trim_start_matches(char::REPLACEMENT_CHARACTER).to_owned())
    }

    /// An answer that was good.
    pub(super) fn good(&self, answered: Answered) -> Result<Answered, ForgeError> {
        answered.good(&self.token)
    }

    async fn ask(
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
        let who = format!("{} {}", self.manner.scheme, self.token.secret());
        let mut who = HeaderValue::try_from(who)
            .map_err(|_| ForgeError::Refused("the credential is no header".to_owned()))?;
        who.set_sensitive(true);
        let mut request = self
            .client
            .request(method, url)
            .header(AUTHORIZATION, who)
            .header(ACCEPT, self.manner.accept);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        request.send().await.map_err(|error| self.unavailable(error))
    }

    async fn read(&self, mut response: Response, path: &[&str]) -> Result<Answered, ForgeError> {
        let status = response.status().as_u16();
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let date = text(DATE).map(str::to_owned);
        let next = text(LINK).map(|link| link.contains("rel=\"next\""));
        let limited = text(reqwest::header::HeaderName::from_static("x-ratelimit-remaining"));
        // A refusal for this moment only. Some say so by when to come again, with requests left.
        let again = response.headers().contains_key(RETRY_AFTER);
        let wait = status == 429 || (status == 403 && (limited == Some("0") || again));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unavailable(error))? {
            if body.len() + chunk.len() > LONGEST {
                let why = format!("{} is longer than {LONGEST} bytes", path.join("/"));
                return Err(ForgeError::Refused(why));
            }
            body.extend_from_slice(&chunk);
        }
        // GitHub does not always say when.
        let said = || String::from_utf8_lossy(&body).contains("secondary rate limit");
        if wait || (status == 403 && said()) {
            let why = format!("it answers with {status}: too many requests");
            return Err(ForgeError::Unavailable(why));
        }
        Ok(Answered { status, body, date, next, what: path.join("/") })
    }

    fn unavailable(&self, error: reqwest::Error) -> ForgeError {
        let why = in_full(&error.without_url());
        ForgeError::Unavailable(self.token.hidden_in(&why))
    }
}

/// Something that comes in pages.
pub(super) trait Paged {
    fn is_empty(&self) -> bool;
}

impl<T> Paged for Vec<T> {
    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

impl Answered {
    /// Whether what was asked for is not there.
    pub(super) fn is_missing(&self) -> bool {
        self.status == 404
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// The answer, or what a bad one means.
    pub(super) fn good(self, token: &Token) -> Result<Self, ForgeError> {
        match self.status {
            200..=299 => Ok(self),
            500.. | 408 => Err(ForgeError::Unavailable(format!("it answers with {}", self.status))),
            300..=399 => {
                let why = format!(
                    "{} is somewhere else now ({}); give the forge's own address",
                    self.what, self.status
                );
                Err(ForgeError::Refused(why))
            }
            _ => {
                let said = token.hidden_in(&self.said());
                Err(ForgeError::Refused(format!("{}: {} {said}", self.what, self.status)))
            }
        }
    }

    /// What the forge says in words.
    pub(super) fn said(&self) -> String {
        let value: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let field = |name| value.as_ref().and_then(|value| value.get(name)?.as_str());
        let plain = || String::from_utf8_lossy(&self.body).into_owned();
        let mut said = field("message").map_or_else(plain, str::to_owned);
        // GitHub tells the cause beside its message.
        let causes = value.as_ref().and_then(|value| value.get("errors")?.as_array());
        for cause in causes.into_iter().flatten() {
            let cause = cause.get("message").and_then(serde_json::Value::as_str);
            said = format!("{said} {}", cause.unwrap_or_default());
        }
        said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(500).collect()
    }

    /// What it brought. Something else may have been done or not, so it is asked for again.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, ForgeError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            ForgeError::Unavailable(format!(
                "{} was answered in an unknown way: {error}",
                self.what
            ))
        })
    }
}

/// The address of a forge. It must not show the credential to everybody on the way.
pub(super) fn address(text: &str) -> Result<Url, ForgeError> {
    let refuse = |why: &str| Err(ForgeError::Refused(format!("the forge's address {why}")));
    let Ok(url) = Url::parse(text) else {
        return refuse("cannot be read; write it as https://host/path");
    };
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("has a credential in it; store it as a secret and name that");
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_local(text) => Ok(url),
        "http" => refuse("begins with http: everybody on the way would see the token; use https"),
        _ => refuse("must begin with https"),
    }
}

/// Whether an address leads to this machine.
pub(crate) fn is_local(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Adds parts to a path, each of which stays one part.
fn extend(url: &mut Url, parts: &[&str]) -> Result<(), ForgeError> {
    // The standard for addresses drops these, and the request would be about something else.
    if let Some(part) = parts.iter().find(|part| matches!(**part, "" | "." | "..")) {
        return Err(ForgeError::Refused(format!("`{part}` cannot stand in an address")));
    }
    match url.path_segments_mut() {
        Ok(mut path) => {
            path.pop_if_empty().extend(parts);
            Ok(())
        }
        Err(()) => Err(ForgeError::Refused("the forge's address has no path".to_owned())),
    }
}

fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
