//! The path of every request: host name, rate limit, token, scope, body, handler, metrics, log.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use bailiwick_fleet::ports::{Fleet, FleetStore, TokenRecord, TokenScope};
use bailiwick_resources::Moment;
use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{HeaderMap, StatusCode};
use tokio::sync::{RwLock, Semaphore};

use crate::access::{Buckets, Hosts, authenticate};
use crate::bodies::{self, BodyBudget};
use crate::changes::Hub;
use crate::control_loop::ControlLoopMonitor;
use crate::handlers;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, query, scope_name};
use crate::routes::{Access, Call, Method, Route, routes};
use crate::settings::Limits;
use crate::shutdown::Shutdown;
use crate::telemetry::{Metrics, RunCounts, TimedStore};
use crate::webhooks::WebhookTargets;

const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");

/// The state that handlers share.
pub(crate) struct App<S, F> {
    pub(crate) store: Arc<TimedStore<S>>,
    pub(crate) fleet: Arc<F>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) run_counts: Arc<RunCounts>,
    pub(crate) hosts: Hosts,
    pub(crate) limits: Limits,
    pub(crate) addresses: Buckets<IpAddr>,
    pub(crate) tokens: Buckets<String>,
    pub(crate) rejected_webhooks: Buckets<String>,
    pub(crate) webhook_targets: WebhookTargets,
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) body_budget: BodyBudget,
    pub(crate) control_loop: Option<ControlLoopMonitor>,
    pub(crate) shutdown: Shutdown,
    /// Locked for reading by every request that writes; the shutdown waits for them.
    pub(crate) active_writes: Arc<RwLock<()>>,
}

/// The parameters of a path.
type Params = Result<RawPathParams, RawPathParamsRejection>;

/// The address of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The id that connects a response with its log lines: the one that the client sent, if it is valid.
fn correlation(headers: &HeaderMap) -> String {
    let is_valid = |text: &&str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let sent = headers.get(&CORRELATION).and_then(|value| value.to_str().ok()).filter(is_valid);
    sent.map_or_else(random_id, str::to_owned)
}

fn random_id() -> String {
    let mut bytes = [0_u8; 12];
    // Without random bytes the id is all zeros, which is harmless.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A unique id. Without random bytes only the time makes it unique.
pub(crate) fn unique_id(at: Moment) -> String {
    format!("{:x}-{}", at.millis(), random_id())
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
            async move {
                app.no_route(
                    &request,
                    Problem::not_found("there is no such path; /openapi.json lists all paths"),
                )
            }
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
    let mut actor = String::new();
    let answer = app.authorize_and_handle(&route, params, request, &correlation, &mut actor).await;
    let response = answer.unwrap_or_else(|problem| problem.response(&correlation));
    let (status, elapsed) = (response.status().as_u16(), started.elapsed());
    app.metrics.request(&route.path, route.method.as_str(), status, elapsed);
    // No headers, bodies or parameters: all of them can have secrets.
    tracing::info!(
        method = route.method.as_str(),
        route = route.path,
        status,
        micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
        actor,
        correlation,
        "request"
    );
    add_headers(response, &correlation)
}

impl<S: FleetStore, F: Fleet> App<S, F> {
    fn no_route(&self, request: &Request, problem: Problem) -> Response {
        let correlation = correlation(request.headers());
        let checked = self
            .hosts
            .check(request.headers(), request.uri())
            .and_then(|()| self.limit_address(request, Instant::now()));
        let response = checked.err().unwrap_or(problem).response(&correlation);
        let status = response.status().as_u16();
        self.metrics.request("none", "any", status, std::time::Duration::ZERO);
        add_headers(response, &correlation)
    }

    fn limit_address(&self, request: &Request, now: Instant) -> Result<(), Problem> {
        let Some(peer) = request.extensions().get::<Peer>() else {
            return Err(Problem::unavailable("the address of the client is unknown"));
        };
        let too_many = |seconds| Problem::too_many("too many requests from this address", seconds);
        self.addresses.take(peer.0.ip(), 1.0, now).map_err(too_many)
    }

    async fn authorize_and_handle(
        self: &Arc<Self>,
        route: &Arc<Route>,
        params: Params,
        request: Request,
        correlation: &str,
        actor: &mut String,
    ) -> HandlerResult {
        let instant = Instant::now();
        self.hosts.check(request.headers(), request.uri())?;
        self.limit_address(&request, instant)?;
        let now = now();
        let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
        let token = match route.access {
            Access::Open | Access::Signed => None,
            Access::Scope(wanted) => {
                let found = authenticate(self.store.as_ref(), request.headers(), now).await;
                if found.as_ref().is_err_and(|problem| problem.status == StatusCode::UNAUTHORIZED) {
                    self.charge(peer, instant);
                }
                let token = found?;
                actor.clone_from(&token.actor);
                let too_many =
                    |seconds| Problem::too_many("too many requests with this token", seconds);
                self.tokens.take(token.id.clone(), 1.0, instant).map_err(too_many)?;
                require_scope(&token, wanted)?;
                Some(token)
            }
        };
        let max_bytes = match route.access {
            Access::Signed => self.limits.webhook_body_bytes,
            Access::Open | Access::Scope(_) => self.limits.body_bytes,
        };
        let params = params.map_err(|_| Problem::bad_request("the path is not UTF-8"))?;
        let params = params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let (head, body) = request.into_parts();
        let query = query(&head.uri)?;
        let timed_out = || {
            Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "TOO_SLOW",
                "the body took too long to arrive",
            )
        };
        let from = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let budget = token.is_none().then_some((&self.body_budget, from));
        let body = bodies::read(&head.headers, body, max_bytes, budget);
        let body = tokio::time::timeout(self.limits.body_timeout, body)
            .await
            .map_err(|_| timed_out())??;
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
        if route.call == Call::Webhook && refused {
            self.charge(peer, instant);
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

    /// Slows down clients that guess tokens or signatures.
    fn charge(&self, peer: Option<IpAddr>, now: Instant) {
        if let Some(peer) = peer {
            self.addresses.charge(peer, self.limits.failed_auth_cost, now);
        }
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
