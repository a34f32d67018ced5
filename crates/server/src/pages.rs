//! The pages for browsers: where they are mounted, their sessions, and their way to the API.
//!
//! Pages read and change nothing themselves. They send requests to the router of the API inside of this process,
//! with the token of their session, so that scopes are checked in one place.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use bailiwick_fleet::ports::{
    AuditEntry, Fleet, FleetError, FleetStore, TokenRecord, TokenScope, Write,
};
use bailiwick_resources::Moment;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::service::Service as _;
use hyper::{HeaderMap, Method, StatusCode};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use thiserror::Error;

use crate::access::{OpenToken, SignedIn, TokenUse, authenticate_text, mint_child_session};
use crate::app::{App, Peer};
use crate::bodies::{self, BodyReservation};
use crate::ids::{CORRELATION, correlation, now};
use crate::problem::{ErrorBody, Problem};
use crate::request::scope_name;
use crate::shutdown::Shutdown;
use crate::stream_slots::{StreamRefusal, StreamSlot, StreamSlots};

/// Where the pages are.
pub const PAGES: &str = "/ui";

/// How long a session lasts.
const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// The longest form that a page sends, in bytes.
const MAX_FORM_BYTES: usize = 2 * 1024 * 1024;
/// The longest form of somebody who is not signed in.
const MAX_SIGN_IN_BYTES: usize = 8 * 1024;

/// The pages for browsers.
pub trait Pages: Debug + Send + Sync + 'static {
    /// The routes of the pages, relative to [`PAGES`].
    fn router(&self, api: Api) -> Router;
}

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The parts of the application that pages need, without its type parameters.
trait Backend: Send + Sync {
    fn find(&self, token: String) -> Answer<Result<TokenRecord, Problem>>;
    fn start(
        &self,
        token: String,
        correlation: String,
    ) -> Answer<Result<(String, TokenRecord), Problem>>;
    fn end(&self, record: TokenRecord, correlation: String) -> Answer<Result<(), FleetError>>;
    fn open(&self, record: &TokenRecord) -> OpenToken;
    fn charge(&self, peer: &Peer, headers: &HeaderMap);
    fn has_provider(&self) -> bool;
}

/// The way of pages to the API.
#[derive(Clone)]
pub struct Api {
    router: Router,
    backend: Arc<dyn Backend>,
    streams: Arc<StreamSlots>,
    shutdown: Shutdown,
}

/// A person who is signed in.
#[derive(Debug, Clone)]
pub struct Session {
    token: TokenRecord,
    peer: Peer,
    host: HeaderValue,
}

impl Session {
    /// The person.
    pub fn actor(&self) -> &str {
        &self.token.actor
    }

    pub fn scope(&self) -> TokenScope {
        self.token.scope
    }

    pub fn expires_at(&self) -> Option<Moment> {
        self.token.expires_at
    }
}

/// An error response of the API.
#[derive(Debug, Clone, Error)]
#[error("{message}")]
pub struct ApiError {
    pub status: StatusCode,
    /// A stable code.
    pub code: String,
    pub message: String,
}

/// Why nobody was signed in.
#[derive(Debug, Clone, Error)]
pub enum SignInError {
    #[error("this token is unknown, expired or revoked")]
    Token,
    #[error("this token was used for too many sign-ins; wait a moment")]
    TooMany,
    #[error("the server cannot sign you in now (see the server log)")]
    Unavailable,
}

/// The permission for one stream; it ends when it is dropped.
#[derive(Debug)]
pub struct StreamPermit {
    _slot: StreamSlot,
    token: OpenToken,
}

impl StreamPermit {
    /// Completes when the session is no longer valid.
    pub async fn revoked(&mut self) {
        self.token.ended().await;
    }
}

impl Api {
    /// The session of a cookie; none if there is no valid one.
    pub async fn session(&self, parts: &Parts, cookie: &str) -> Option<Session> {
        let (peer, host) = (parts.extensions.get::<Peer>()?, parts.headers.get(HOST)?);
        match self.backend.find(cookie.to_owned()).await {
            Ok(token) => Some(Session { token, peer: peer.clone(), host: host.clone() }),
            Err(problem) => {
                if problem.status == StatusCode::UNAUTHORIZED {
                    self.backend.charge(peer, &parts.headers);
                }
                None
            }
        }
    }

    /// Signs a person in with a token. The text of the session belongs in a cookie; it is not stored.
    pub async fn sign_in(&self, parts: &Parts, token: &str) -> Result<String, SignInError> {
        let correlation = correlation(&parts.headers);
        let problem = match self.backend.start(token.trim().to_owned(), correlation).await {
            Ok((text, _)) => return Ok(text),
            Err(problem) => problem,
        };
        match problem.status {
            StatusCode::UNAUTHORIZED => {
                if let Some(peer) = parts.extensions.get::<Peer>() {
                    self.backend.charge(peer, &parts.headers);
                }
                Err(SignInError::Token)
            }
            StatusCode::TOO_MANY_REQUESTS => Err(SignInError::TooMany),
            _ => {
                tracing::error!(message = problem.message, "a sign-in failed");
                Err(SignInError::Unavailable)
            }
        }
    }

    /// Whether people can sign in with an OpenID provider.
    pub fn has_provider(&self) -> bool {
        self.backend.has_provider()
    }

    /// Ends a session for good.
    pub async fn sign_out(&self, parts: &Parts, session: &Session) -> Result<(), SignInError> {
        let correlation = correlation(&parts.headers);
        self.backend.end(session.token.clone(), correlation).await.map_err(|error| {
            tracing::error!(%error, "a sign-out failed");
            SignInError::Unavailable
        })
    }

    /// Reads a path of the API.
    pub async fn get<T: DeserializeOwned>(
        &self,
        session: &Session,
        path: &str,
    ) -> Result<T, ApiError> {
        self.call(session, Request::get(path).body(Body::empty())).await
    }

    /// Reads a path of the API that returns bytes.
    pub async fn get_bytes(&self, session: &Session, path: &str) -> Result<Bytes, ApiError> {
        self.call_raw(session, Request::get(path).body(Body::empty())).await
    }

    /// Sends JSON to a path of the API.
    pub async fn post<T: DeserializeOwned>(
        &self,
        session: &Session,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        let body = serde_json::to_vec(body).unwrap_or_default();
        let json = HeaderValue::from_static("application/json");
        let request = Request::post(path).header(CONTENT_TYPE, json).body(Body::from(body));
        self.call(session, request).await
    }

    /// Deletes what is at a path of the API.
    pub async fn delete<T: DeserializeOwned>(
        &self,
        session: &Session,
        path: &str,
    ) -> Result<T, ApiError> {
        self.call(session, Request::delete(path).body(Body::empty())).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        session: &Session,
        request: Result<Request, axum::http::Error>,
    ) -> Result<T, ApiError> {
        let body = self.call_raw(session, request).await?;
        serde_json::from_slice(&body).map_err(|error| internal(error.to_string()))
    }

    async fn call_raw(
        &self,
        session: &Session,
        request: Result<Request, axum::http::Error>,
    ) -> Result<Bytes, ApiError> {
        let mut request = request.map_err(|error| internal(error.to_string()))?;
        request.headers_mut().insert(HOST, session.host.clone());
        request.extensions_mut().insert(session.peer.clone());
        request.extensions_mut().insert(SignedIn(session.token.clone()));
        let service = TowerToHyperService::new(self.router.clone());
        let Ok(response) = service.call(request).await;
        let status = response.status();
        let body = read(response).await.map_err(|error| internal(error.to_string()))?;
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(ErrorBody { error }) => {
                Err(ApiError { status, code: error.code, message: error.message })
            }
            Err(error) => Err(internal(error.to_string())),
        }
    }

    /// Permits a stream, unless there are too many.
    pub fn open_stream(&self, session: &Session) -> Result<StreamPermit, StreamRefusal> {
        let slot = self.streams.take(session.actor())?;
        Ok(StreamPermit { _slot: slot, token: self.backend.open(&session.token) })
    }

    /// Completes when the server shuts down.
    pub async fn shutdown(&self) {
        self.shutdown.clone().requested().await;
    }
}

fn internal(message: String) -> ApiError {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    ApiError { status, code: "INTERNAL".to_owned(), message }
}

async fn read(response: Response) -> Result<Bytes, axum::Error> {
    let mut chunks = response.into_body().into_data_stream();
    let mut all = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        all.extend_from_slice(&chunk?);
    }
    Ok(all.freeze())
}

/// The line of the audit log about a session.
fn audit(event: &str, record: &TokenRecord, correlation: &str, now: Moment) -> AuditEntry {
    AuditEntry {
        at: now,
        actor: record.actor.clone(),
        event: event.to_owned(),
        subject: format!("Token/{}", record.id),
        correlation: BTreeMap::from([("correlationId".to_owned(), correlation.to_owned())]),
        detail: json!({ "scope": scope_name(record.scope), "expiresAt": record.expires_at }),
    }
}

struct AppBackend<S, F>(Arc<App<S, F>>);

impl<S: FleetStore, F: Fleet> Backend for AppBackend<S, F> {
    fn find(&self, token: String) -> Answer<Result<TokenRecord, Problem>> {
        let app = self.0.clone();
        Box::pin(async move {
            authenticate_text(app.store.as_ref(), &token, TokenUse::Cookie, now()).await
        })
    }

    fn start(
        &self,
        token: String,
        correlation: String,
    ) -> Answer<Result<(String, TokenRecord), Problem>> {
        let app = self.0.clone();
        Box::pin(async move {
            let now = now();
            let store = app.store.as_ref();
            let parent = authenticate_text(store, &token, TokenUse::Header, now).await?;
            let (id, cost) = (parent.id.clone(), app.limits.sign_in_cost);
            let too_many =
                |seconds| Problem::too_many("too many sign-ins with this token", seconds);
            app.tokens.take(id, cost, Instant::now()).map_err(too_many)?;
            let lifetime = u64::try_from(SESSION_LIFETIME.as_millis()).unwrap_or(u64::MAX);
            let end = Moment::from_millis(now.millis().saturating_add(lifetime));
            let end = parent.expires_at.map_or(end, |expiry| expiry.min(end));
            let minted = mint_child_session(&parent, end, now)
                .map_err(|error| Problem::unavailable(error.to_string()))?;
            let record = minted.record;
            let entry = audit("SignedIn", &record, &correlation, now);
            store.commit(vec![Write::Token(record.clone()), Write::Audit(entry)], now).await?;
            Ok((minted.text, record))
        })
    }

    fn open(&self, record: &TokenRecord) -> OpenToken {
        self.0.open_tokens.open(&record.digest)
    }

    fn end(&self, mut record: TokenRecord, correlation: String) -> Answer<Result<(), FleetError>> {
        let app = self.0.clone();
        Box::pin(async move {
            let now = now();
            record.revoked_at = Some(now);
            let entry = audit("SignedOut", &record, &correlation, now);
            let digest = record.digest.clone();
            app.store.commit(vec![Write::Token(record), Write::Audit(entry)], now).await?;
            app.open_tokens.end(&digest);
            Ok(())
        })
    }

    fn has_provider(&self) -> bool {
        self.0.sign_in.is_some()
    }

    fn charge(&self, peer: &Peer, headers: &HeaderMap) {
        self.0.charge(self.0.proxies.source(peer.address, headers), Instant::now());
    }
}

/// Adds the pages to the router of the API, and mounts both below the prefix as well.
pub(crate) fn with_pages<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    api: Router,
    pages: Option<&dyn Pages>,
    path_prefix: &str,
) -> Router {
    let mut router = api.clone();
    if let Some(pages) = pages {
        let api = Api {
            router: api,
            backend: Arc::new(AppBackend(app.clone())),
            streams: app.streams.clone(),
            shutdown: app.shutdown.clone(),
        };
        let app = app.clone();
        let guard = from_fn(move |request: Request, next: Next| {
            let app = app.clone();
            async move { guard(app, request, next).await }
        });
        let home = format!("{path_prefix}{PAGES}");
        // A nested router does not get its own path with a slash behind it.
        let with_slash = get(move || std::future::ready(Redirect::to(&home).into_response()));
        router = router
            .route(&format!("{PAGES}/"), with_slash.layer(guard.clone()))
            .nest(PAGES, pages.router(api).layer(guard));
    }
    match path_prefix {
        "" => router,
        // A proxy may pass the prefix on or remove it.
        prefix => Router::new().nest(prefix, router.clone()).merge(router),
    }
}

/// The checks of every page: host name and rate limit; and the headers of every response.
async fn guard<S: FleetStore, F: Fleet>(
    app: Arc<App<S, F>>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let correlation = correlation(request.headers());
    let method = if request.method() == Method::POST { "post" } else { "get" };
    let checked = app
        .hosts
        .check(request.headers(), request.uri())
        .and_then(|()| app.limit_address(&request, started));
    let request = match checked {
        Ok(source) => with_whole_body(&app, request, source).await,
        Err(problem) => Err(problem),
    };
    let mut response = match request {
        Ok((request, reservation)) => {
            let response = next.run(request).await;
            drop(reservation);
            response
        }
        Err(problem) => problem.response(&correlation),
    };
    app.metrics.request(PAGES, method, response.status().as_u16(), started.elapsed());
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&correlation) {
        headers.insert(CORRELATION, value);
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The request with its whole body, within the limits of the bodies of clients that are not signed in: nobody has
/// looked at the session yet.
async fn with_whole_body<S: FleetStore, F: Fleet>(
    app: &App<S, F>,
    request: Request,
    source: IpAddr,
) -> Result<(Request, Option<BodyReservation>), Problem> {
    let is_sign_in = request.uri().path().ends_with("/sign-in");
    let max_bytes = if is_sign_in { MAX_SIGN_IN_BYTES } else { MAX_FORM_BYTES };
    let (parts, body) = request.into_parts();
    let budget = Some((&app.body_budget, source));
    let read = bodies::read(&parts.headers, body, max_bytes.min(app.limits.body_bytes), budget);
    let read = tokio::time::timeout(app.limits.body_timeout, read)
        .await
        .map_err(|_| Problem::body_timed_out())??;
    Ok((Request::from_parts(parts, Body::from(read.bytes)), read.reservation))
}
