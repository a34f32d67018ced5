//! What every request goes through: name, rate, token, scope, body, handler, figures, log.

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
use crate::asked::{Answer, Asked, query, scope_name};
use crate::bodies::{self, Room};
use crate::changes::Hub;
use crate::handlers;
use crate::problem::Problem;
use crate::pulse::Pulse;
use crate::routes::{Access, Call, Method, Route, routes};
use crate::settings::Limits;
use crate::stop::Stop;
use crate::telemetry::{Metrics, Tally, Timed};
use crate::webhooks::Takers;

const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");

/// Everything that a handler needs.
pub(crate) struct App<S, F> {
    pub(crate) store: Arc<Timed<S>>,
    pub(crate) fleet: Arc<F>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) hosts: Hosts,
    pub(crate) limits: Limits,
    pub(crate) addresses: Buckets<IpAddr>,
    pub(crate) tokens: Buckets<String>,
    pub(crate) unbelieved: Buckets<String>,
    pub(crate) takers: Takers,
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) room: Room,
    pub(crate) pulse: Option<Pulse>,
    pub(crate) stop: Stop,
    /// Held by everything that changes something.
    pub(crate) at_work: Arc<RwLock<()>>,
}

/// The names in a path.
type Params = Result<RawPathParams, RawPathParamsRejection>;

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The time.
pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// An id that joins an answer with its log lines: the client's, if it is a plain one.
fn correlation(headers: &HeaderMap) -> String {
    let plain = |text: &&str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let given = headers.get(&CORRELATION).and_then(|value| value.to_str().ok()).filter(plain);
    given.map_or_else(made_up, str::to_owned)
}

fn made_up() -> String {
    let mut bytes = [0_u8; 12];
    // Without randomness the id is all zeros, which joins nothing and harms nothing.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An id that no other request has. Without randomness it is told from others by its time alone.
pub(crate) fn unique(at: Moment) -> String {
    format!("{:x}-{}", at.millis(), made_up())
}

/// The router, from the table.
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
            async move { answer(app, route, params, request).await }
        };
        router = router.route(&path, on(filter, handler));
    }
    let (lost, unfit) = (app.clone(), app.clone());
    router
        .fallback(move |request: Request| {
            let app = lost.clone();
            async move { app.no_route(&request, Problem::not_found("there is nothing here")) }
        })
        .method_not_allowed_fallback(move |request: Request| {
            let app = unfit.clone();
            async move {
                let message = "this cannot be done here; /openapi.json lists what can";
                let status = StatusCode::METHOD_NOT_ALLOWED;
                app.no_route(&request, Problem::new(status, "METHOD_NOT_ALLOWED", message))
            }
        })
}

fn finish(mut response: Response, correlation: &str) -> Response {
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(correlation) {
        headers.insert(CORRELATION, value);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn answer<S: FleetStore, F: Fleet>(
    app: Arc<App<S, F>>,
    route: Arc<Route>,
    params: Params,
    request: Request,
) -> Response {
    let begun = Instant::now();
    let correlation = correlation(request.headers());
    let mut actor = String::new();
    let answer = app.guarded(&route, params, request, &correlation, &mut actor).await;
    let response = answer.unwrap_or_else(|problem| problem.response(&correlation));
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    app.metrics.request(&route.path, route.method.as_str(), status, took);
    // Neither headers nor bodies nor parameters: secrets may be in all of them.
    tracing::info!(
        method = route.method.as_str(),
        route = route.path,
        status,
        micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        actor,
        correlation,
        "request"
    );
    finish(response, &correlation)
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
        finish(response, &correlation)
    }

    fn limit_address(&self, request: &Request, now: Instant) -> Result<(), Problem> {
        let Some(peer) = request.extensions().get::<Peer>() else {
            return Err(Problem::unavailable("nobody knows where this request comes from"));
        };
        let too_many = |seconds| Problem::too_many("this address asks too often", seconds);
        self.addresses.take(peer.0.ip(), 1.0, now).map_err(too_many)
    }

    async fn guarded(
        self: &Arc<Self>,
        route: &Arc<Route>,
        params: Params,
        request: Request,
        correlation: &str,
        actor: &mut String,
    ) -> Answer {
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
                let too_many = |seconds| Problem::too_many("this token asks too often", seconds);
                self.tokens.take(token.id.clone(), 1.0, instant).map_err(too_many)?;
                allowed(&token, wanted)?;
                Some(token)
            }
        };
        let most = match route.access {
            Access::Signed => self.limits.webhook_body,
            Access::Open | Access::Scope(_) => self.limits.body,
        };
        let params = params.map_err(|_| Problem::bad("the path is not made of UTF-8"))?;
        let params = params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let (head, body) = request.into_parts();
        let query = query(&head.uri)?;
        let late = || {
            Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "TOO_SLOW",
                "the body took too long to arrive",
            )
        };
        let from = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let room = token.is_none().then_some((&self.room, from));
        let body = bodies::read(&head.headers, body, most, room);
        let body =
            tokio::time::timeout(self.limits.body_time, body).await.map_err(|_| late())??;
        let asked = Asked {
            route: route.clone(),
            params,
            query,
            headers: head.headers,
            body: body.bytes,
            _held: body.held,
            token,
            correlation: correlation.to_owned(),
            now,
        };
        let answer = self.carry_out(asked).await;
        let refused =
            answer.as_ref().is_err_and(|problem| problem.status == StatusCode::UNAUTHORIZED);
        if route.call == Call::Webhook && refused {
            self.charge(peer, instant);
        }
        answer
    }

    /// Does what was asked. What changes something goes on to its end even if whoever asked does not
    /// wait for it: nothing is left half done because a connection broke.
    async fn carry_out(self: &Arc<Self>, asked: Asked) -> Answer {
        let unknown = "this took too long; whether it was done is not known";
        let late = |_| Problem::unavailable(unknown);
        if asked.route.method == Method::Get {
            let work = handlers::handle(self, &asked);
            return tokio::time::timeout(self.limits.answer_time, work).await.map_err(late)?;
        }
        let (app, at_work) = (self.clone(), self.at_work.clone().read_owned().await);
        let work = tokio::spawn(async move {
            let answer = handlers::handle(&app, &asked).await;
            drop(at_work);
            answer
        });
        let done = tokio::time::timeout(self.limits.answer_time, work).await.map_err(late)?;
        done.unwrap_or_else(|error| {
            tracing::error!(%error, "a handler broke");
            Err(Problem::unavailable("this went wrong; the log says how"))
        })
    }

    /// Whoever guesses tokens or signatures is soon slow.
    fn charge(&self, peer: Option<IpAddr>, now: Instant) {
        if let Some(peer) = peer {
            self.addresses.charge(peer, self.limits.cost_of_a_wrong_token, now);
        }
    }
}

fn allowed(token: &TokenRecord, wanted: TokenScope) -> Result<(), Problem> {
    if token.scope >= wanted {
        return Ok(());
    }
    let message = format!(
        "this needs a token of the scope {}; yours is {}",
        scope_name(wanted),
        scope_name(token.scope)
    );
    Err(Problem::forbidden("SCOPE_DENIED", message))
}
