//! The path of every request: host name, rate limit, token, scope, body, handler, metrics, log.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use bailiwick_fleet::ports::{Fleet, FleetStore, TokenRecord, TokenScope};
use bailiwick_resources::Moment;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use crate::access::{Credential, SignedIn, authenticate};
use crate::app::{App, Peer};
use crate::bodies::{self};
use crate::browsers::is_same_origin;
use crate::connections::{Active, ConnectionSlot, active_body};
use crate::handlers;
use crate::ids::{CORRELATION, correlation, now};
use crate::openid::session_text;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, query, scope_name};
use crate::routes::{Access, Call, Method, Route, routes};
use crate::{webhooks, workers};

/// The parameters of a path.
type Params = Result<RawPathParams, RawPathParamsRejection>;

/// What a response and its log line need besides the result of the handler.
#[derive(Default)]
struct Outcome {
    actor: String,
    active: Option<Active>,
}

/// Builds the router from the table of routes.
pub(crate) fn router<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>) -> Router {
    let mut router = Router::new();
    for route in routes() {
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        let path = route.path.clone();
        let (app, route) = (app.clone(), Arc::new(route));
        let handler = move |params: Params, request: Request| {
            let (app, route) = (app.clone(), route.clone());
            async move { respond(app, route, params, request).await }
        };
        router = router.route(&path, on(filter, handler));
    }
    let (no_path, no_method) = (app.clone(), app.clone());
    router
        .fallback(move |request: Request| {
            let app = no_path.clone();
            async move { app.no_route(&request, Problem::no_such_path()) }
        })
        .method_not_allowed_fallback(move |request: Request| {
            let app = no_method.clone();
            async move {
                let message = "this method is not supported here; /openapi.json lists all methods";
                let status = StatusCode::METHOD_NOT_ALLOWED;
                app.no_route(&request, Problem::new(status, "METHOD_NOT_ALLOWED", message))
            }
        })
}

fn add_headers(mut response: Response, correlation: &str) -> Response {
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(correlation) {
        headers.insert(CORRELATION, value);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn respond<S: FleetStore, F: Fleet>(
    app: Arc<App<S, F>>,
    route: Arc<Route>,
    params: Params,
    request: Request,
) -> Response {
    let started = Instant::now();
    let correlation = correlation(request.headers());
    let mut outcome = Outcome::default();
    let answer =
        app.authorize_and_handle(&route, params, request, &correlation, &mut outcome).await;
    let response = answer.unwrap_or_else(|problem| problem.response(&correlation));
    let (status, elapsed) = (response.status().as_u16(), started.elapsed());
    app.metrics.request(&route.path, route.method.as_str(), status, elapsed);
    // No headers, bodies or parameters: all of them can have secrets.
    tracing::info!(
        method = route.method.as_str(),
        route = route.path,
        status,
        micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
        actor = outcome.actor,
        correlation,
        "request"
    );
    let response = add_headers(response, &correlation);
    match outcome.active {
        Some(active) => response.map(|body| active_body(body, active)),
        None => response,
    }
}

impl<S: FleetStore, F: Fleet> App<S, F> {
    fn no_route(&self, request: &Request, problem: Problem) -> Response {
        let correlation = correlation(request.headers());
        let checked = self
            .hosts
            .check(request.headers(), request.uri())
            .and_then(|()| self.limit_address(request, Instant::now()).map(drop));
        let response = checked.err().unwrap_or(problem).response(&correlation);
        let status = response.status().as_u16();
        self.metrics.request("none", "any", status, std::time::Duration::ZERO);
        add_headers(response, &correlation)
    }

    fn source(&self, request: &Request) -> Result<IpAddr, Problem> {
        let Some(peer) = request.extensions().get::<Peer>() else {
            return Err(Problem::unavailable("the address of the client is unknown"));
        };
        Ok(self.proxies.source(peer.address, request.headers()))
    }

    pub(crate) fn limit_address(&self, request: &Request, now: Instant) -> Result<IpAddr, Problem> {
        let source = self.source(request)?;
        let too_many = |seconds| Problem::too_many("too many requests from this address", seconds);
        self.addresses.take(source, 1.0, now).map_err(too_many)?;
        Ok(source)
    }

    async fn authorize_and_handle(
        self: &Arc<Self>,
        route: &Arc<Route>,
        params: Params,
        request: Request,
        correlation: &str,
        outcome: &mut Outcome,
    ) -> HandlerResult {
        let instant = Instant::now();
        self.hosts.check(request.headers(), request.uri())?;
        // A page was limited when it was requested; what it reads for that is not counted again.
        let is_page = request.extensions().get::<SignedIn>().is_some();
        let source =
            if is_page { self.source(&request)? } else { self.limit_address(&request, instant)? };
        let now = now();
        let slot = request.extensions().get::<Peer>().map(|peer| peer.slot.clone());
        let token = match route.access {
            Access::Open | Access::Signed | Access::Worker => None,
            Access::Scope(wanted) => {
                let headers = request.headers();
                let cookie = session_text(self.sign_in.as_ref(), headers);
                // Pages have looked the session up, and checked the origin.
                let found = match request.extensions().get::<SignedIn>() {
                    Some(session) => Ok((session.0.clone(), Credential::Page)),
                    None => authenticate(self.store.as_ref(), headers, cookie, now).await,
                };
                if found.as_ref().is_err_and(|problem| problem.status == StatusCode::UNAUTHORIZED) {
                    self.charge(source, instant);
                }
                let (token, credential) = found?;
                let writes = route.method != Method::Get;
                if credential == Credential::Cookie && writes && !is_same_origin(headers) {
                    let message = "a session cookie permits writes to this server's own pages only; send a token";
                    return Err(Problem::forbidden("ORIGIN_DENIED", message));
                }
                outcome.active = slot.as_ref().map(ConnectionSlot::activate);
                outcome.actor.clone_from(&token.actor);
                let too_many =
                    |seconds| Problem::too_many("too many requests with this token", seconds);
                if credential != Credential::Page {
                    self.tokens.take(token.id.clone(), 1.0, instant).map_err(too_many)?;
                }
                require_scope(&token, wanted)?;
                Some(token)
            }
        };
        let max_bytes = match (route.access, route.call) {
            (_, Call::Worker(call)) => workers::max_body_bytes(call),
            (Access::Signed, _) => self.limits.webhook_body_bytes,
            (Access::Open | Access::Scope(_) | Access::Worker, _) => self.limits.body_bytes,
        };
        let params = params.map_err(|_| Problem::bad_request("the path is not UTF-8"))?;
        let params: BTreeMap<String, String> =
            params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let signer = (route.call == Call::Webhook)
            .then(|| (source, params.get("repository").cloned().unwrap_or_default()));
        if let Some(signer) = &signer {
            let message = "too many wrong signatures from this address for this repository";
            let too_many = |seconds| Problem::too_many(message, seconds);
            self.failed_signatures.check(signer, 1.0, instant).map_err(too_many)?;
        }
        let (head, body) = request.into_parts();
        let query = query(&head.uri)?;
        let budget = token.is_none().then_some((&self.body_budget, source));
        let body = bodies::read(&head.headers, body, max_bytes, budget);
        let body = tokio::time::timeout(self.limits.body_timeout, body)
            .await
            .map_err(|_| Problem::body_timed_out())?;
        let is_too_large = |problem: &Problem| problem.status == StatusCode::PAYLOAD_TOO_LARGE;
        if let Some((_, repository)) = &signer
            && body.as_ref().is_err_and(is_too_large)
        {
            self.note_too_large(repository, now).await;
        }
        let body = body?;
        if outcome.active.is_none() {
            outcome.active = slot.as_ref().map(ConnectionSlot::activate);
        }
        let request = ApiRequest {
            route: route.clone(),
            params,
            query,
            headers: head.headers,
            body: body.bytes,
            _reservation: body.reservation,
            token,
            correlation: correlation.to_owned(),
            now,
        };
        let result = self.run_handler(request).await;
        let refused =
            result.as_ref().is_err_and(|problem| problem.status == StatusCode::UNAUTHORIZED);
        match signer {
            Some(signer) if refused => self.failed_signatures.charge(signer, 1.0, instant),
            // Guessed codes and ID tokens.
            None if refused => {
                self.addresses.charge(source, self.limits.failed_auth_cost, instant);
            }
            Some(_) | None => {}
        }
        result
    }

    /// Runs the handler. A request that writes runs to its end even if the client disconnects, so that nothing is
    /// left half done.
    async fn run_handler(self: &Arc<Self>, request: ApiRequest) -> HandlerResult {
        let message = "the request took too long; whether it was carried out is unknown";
        let timed_out = |_| Problem::unavailable(message);
        if request.route.method == Method::Get {
            let work = handlers::handle(self, &request);
            return tokio::time::timeout(self.limits.handler_timeout, work)
                .await
                .map_err(timed_out)?;
        }
        let (app, active_writes) = (self.clone(), self.active_writes.clone().read_owned().await);
        let work = tokio::spawn(async move {
            let answer = handlers::handle(&app, &request).await;
            drop(active_writes);
            answer
        });
        let done =
            tokio::time::timeout(self.limits.handler_timeout, work).await.map_err(timed_out)?;
        done.unwrap_or_else(|error| {
            tracing::error!(%error, "a handler panicked");
            Err(Problem::unavailable("internal error (see the server log)"))
        })
    }

    /// Notes that a webhook is refused, also if the client disconnects.
    async fn note_too_large(self: &Arc<Self>, repository: &str, now: Moment) {
        let (app, repository) = (self.clone(), repository.to_owned());
        let active_writes = self.active_writes.clone().read_owned().await;
        let work = tokio::spawn(async move {
            if let Err(problem) = webhooks::note_too_large(&app, &repository, now).await {
                let why = problem.message;
                tracing::error!(repository, why, "a refused webhook was not noted");
            }
            drop(active_writes);
        });
        // The webhook is refused in any case.
        let _ = tokio::time::timeout(self.limits.handler_timeout, work).await;
    }

    /// Slows down clients that guess tokens.
    pub(crate) fn charge(&self, source: IpAddr, now: Instant) {
        self.addresses.charge(source, self.limits.failed_auth_cost, now);
    }
}

fn require_scope(token: &TokenRecord, wanted: TokenScope) -> Result<(), Problem> {
    if token.scope >= wanted {
        return Ok(());
    }
    let message = format!(
        "this needs a token with scope {}; yours has scope {}",
        scope_name(wanted),
        scope_name(token.scope)
    );
    Err(Problem::forbidden("SCOPE_DENIED", message))
}
