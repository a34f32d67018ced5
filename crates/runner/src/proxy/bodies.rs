//! Response bodies and their formats, with size limits.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};

use super::upstream::in_full;

/// The content type of Amazon's stream of frames.
pub(super) const FRAMES: &str = "application/vnd.amazon.eventstream";

/// A shorter key would match any text.
const SHORTEST_SECRET: usize = 8;

/// An answer to the program.
pub(super) type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, BodyError>;
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Events,
    /// A list of what would be events.
    List,
    /// Amazon's frames, with an event in each.
    Frames,
    Whole,
}

/// How the events of a stream are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Sse,
    Frames,
}

impl Shape {
    pub(super) fn of(parts: &Parts, by_path: Option<Self>, by_body: bool) -> Self {
        let events =
            parts.uri.query().is_some_and(|query| query.split('&').any(|p| p == "alt=sse"));
        match by_path {
            Some(Self::List) if events => Self::Events,
            Some(shape) => shape,
            None if by_body => Self::Events,
            None => Self::Whole,
        }
    }

    /// Whether the response is a stream of events, and of which kind: by its headers, or as requested.
    pub(super) fn framing(self, headers: &HeaderMap) -> Option<Framing> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        match kind.map(|kind| kind.split(';').next().unwrap_or_default().trim()) {
            Some(kind) if kind.eq_ignore_ascii_case("text/event-stream") => Some(Framing::Sse),
            Some(kind) if kind.eq_ignore_ascii_case(FRAMES) => Some(Framing::Frames),
            Some(kind) if kind.eq_ignore_ascii_case("application/json") => None,
            Some(_) | None => match self {
                Self::Events => Some(Framing::Sse),
                Self::Frames => Some(Framing::Frames),
                Self::List | Self::Whole => None,
            },
        }
    }
}

/// Why a response could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum CollectError {
    /// The error of the connection with all of its causes.
    #[error("{0}")]
    Read(String),
    #[error("it is longer than can be kept")]
    TooLong,
}

/// All of an answer that may not be longer than this.
pub(super) async fn collect(
    answer: reqwest::Response,
    limit: usize,
) -> Result<Bytes, CollectError> {
    let mut stream = answer.bytes_stream();
    let mut body = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        body.extend_from_slice(
            &chunk.map_err(|error| CollectError::Read(in_full(&error.without_url())))?,
        );
        if body.len() > limit {
            return Err(CollectError::TooLong);
        }
    }
    Ok(body.freeze())
}

/// The body with all occurrences of the secret removed.
pub(super) fn without(body: &Bytes, secret: &[u8]) -> Bytes {
    let found = |rest: &[u8]| rest.windows(secret.len()).position(|part| part == secret);
    if secret.len() < SHORTEST_SECRET || found(body).is_none() {
        return body.clone();
    }
    let (mut clean, mut rest) = (BytesMut::new(), body.as_ref());
    while let Some(place) = found(rest) {
        clean.extend_from_slice(rest.get(..place).unwrap_or_default());
        clean.extend_from_slice(bailiwick_model::secret::PLACEHOLDER.as_bytes());
        rest = rest.get(place + secret.len()..).unwrap_or_default();
    }
    clean.extend_from_slice(rest);
    clean.freeze()
}

pub(super) fn empty() -> Body {
    full(Bytes::new())
}

pub(super) fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

pub(super) fn whole(
    status: StatusCode,
    body: impl Into<Bytes>,
    kind: &'static str,
) -> Response<Body> {
    let headers = [(CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect();
    respond(status, headers, full(body.into()))
}
