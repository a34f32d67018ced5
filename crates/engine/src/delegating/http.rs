//! The MCP server over HTTP: on loopback only, for clients with the token.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_model::Sha256Hex;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::server::{CallHandler, Server};
use crate::context::variable;
use crate::failure::Failure;
use crate::system::random_name;

/// Where the token is.
const TOKEN: &str = "BAILIWICK_MCP_TOKEN";
/// A shorter token could be guessed.
const MIN_TOKEN_LENGTH: usize = 16;
/// The only path.
const PATH: &str = "/mcp";
/// How long the head of a request may take to arrive, and how long its body.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest body: a call, as inside of a run.
const MAX_BODY_BYTES: usize = 4 << 20;
/// The maximum number of connections. Further clients wait.
const MAX_CONNECTIONS: usize = 64;

type Service = StreamableHttpService<Server, LocalSessionManager>;

/// What a client of the server needs to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announcement {
    /// The token, where one was made.
    Token(String),
    /// Where the server is.
    Address(String),
}

/// Serves until the process ends; `announce` receives the token and the address.
pub fn serve(
    answer: &CallHandler,
    address: SocketAddr,
    announce: &dyn Fn(Announcement),
) -> Result<(), Failure> {
    if !address.ip().is_loopback() {
        return Err(Failure::refused(format!("{address} can be reached from other machines"))
            .help("use an address of the loopback, such as 127.0.0.1:7777"));
    }
    let token_digest = Sha256Hex::of(format!("Bearer {}", token(announce)?).as_bytes());
    let failed = |error: std::io::Error| Failure::general(format!("{address}: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(failed)?;
    let answer = Arc::clone(answer);
    let service: Service = StreamableHttpService::new(
        move || Ok(Server::new(Arc::clone(&answer))),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let here = listener.local_addr().map_err(failed)?;
        announce(Announcement::Address(format!("http://{here}{PATH}")));
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
            let Ok((stream, _)) = listener.accept().await else {
                // Too many open files, for example: existing connections are still served.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (service, token_digest) = (service.clone(), token_digest.clone());
            tokio::spawn(async move {
                let answering = service_fn(|request| answered(&service, &token_digest, request));
                let mut connection = hyper::server::conn::http1::Builder::new();
                connection.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
                // A disconnected client needs no response.
                let _ = connection.serve_connection(TokioIo::new(stream), answering).await;
                drop(place);
            });
        }
    })
}

async fn answered(
    service: &Service,
    token_digest: &Sha256Hex,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let sent_digest =
        request.headers().get(AUTHORIZATION).map(|value| Sha256Hex::of(value.as_bytes()));
    // Digests are compared, so that the timing reveals nothing about the token.
    let refusal = match sent_digest {
        Some(sent_digest) if sent_digest == *token_digest && request.uri().path() == PATH => {
            match collect_body(request).await {
                Ok(request) => return Ok(service.handle(request).await),
                Err(refusal) => refusal,
            }
        }
        Some(sent_digest) if sent_digest == *token_digest => StatusCode::NOT_FOUND,
        Some(_) | None => StatusCode::UNAUTHORIZED,
    };
    let mut response = Response::new(Full::new(Bytes::from_static(b"no\n")).boxed());
    *response.status_mut() = refusal;
    // The rest of an unread body must not be parsed as another request.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(response)
}

/// A request with all of its body, if that is neither too long nor too slow.
async fn collect_body(request: Request<Incoming>) -> Result<Request<Full<Bytes>>, StatusCode> {
    let (head, body) = request.into_parts();
    if usize::try_from(body.size_hint().lower()).map_or(true, |length| length > MAX_BODY_BYTES) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(Request::from_parts(head, Full::new(body.to_bytes()))),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}

/// The token that clients must send.
fn token(announce: &dyn Fn(Announcement)) -> Result<String, Failure> {
    match variable(TOKEN)? {
        Some(token) if token.len() >= MIN_TOKEN_LENGTH => Ok(token),
        Some(_) => {
            Err(Failure::refused(format!("{TOKEN} is shorter than {MIN_TOKEN_LENGTH} characters"))
                .help("leave it out, and one is made"))
        }
        None => {
            let token = random_name()?;
            announce(Announcement::Token(token.clone()));
            Ok(token)
        }
    }
}
