//! The MCP server over HTTP: on the loopback alone, and for those who show the token.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_model::Sha256Hex;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use super::server::{Answer, Server};
use crate::context::variable;
use crate::failure::Failure;
use crate::output;
use crate::running::assign::random_name;

/// Where the token is.
const TOKEN: &str = "BAILIWICK_MCP_TOKEN";
/// A token that is shorter can be guessed.
const SHORTEST: usize = 16;
/// The only path.
const PATH: &str = "/mcp";

type Service = StreamableHttpService<Server, LocalSessionManager>;

/// Serves until it is ended.
pub fn serve(answer: &Answer, address: SocketAddr) -> Result<(), Failure> {
    if !address.ip().is_loopback() {
        return Err(Failure::usage(format!("{address} can be reached from other machines"))
            .help("use an address of the loopback, such as 127.0.0.1:7777"));
    }
    let shown = Sha256Hex::of(format!("Bearer {}", token()?).as_bytes());
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
        output::line(format_args!("http://{here}{PATH}"));
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Too many at once, for example: those that are there are answered all the same.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (service, shown) = (service.clone(), shown.clone());
            tokio::spawn(async move {
                let answering = service_fn(|request| answered(&service, &shown, request));
                let connection = hyper::server::conn::http1::Builder::new();
                // Whoever is gone needs no answer.
                let _ = connection.serve_connection(TokioIo::new(stream), answering).await;
            });
        }
    })
}

async fn answered(
    service: &Service,
    shown: &Sha256Hex,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let given = request.headers().get(AUTHORIZATION).map(|value| Sha256Hex::of(value.as_bytes()));
    let refusal = match given {
        // Digests are compared, so that the time it takes tells nothing of the token.
        Some(given) if given == *shown && request.uri().path() == PATH => {
            return Ok(service.handle(request).await);
        }
        Some(given) if given == *shown => StatusCode::NOT_FOUND,
        Some(_) | None => StatusCode::UNAUTHORIZED,
    };
    let mut response = Response::new(Full::new(Bytes::from_static(b"no\n")).boxed());
    *response.status_mut() = refusal;
    Ok(response)
}

/// The token that callers have to show.
fn token() -> Result<String, Failure> {
    match variable(TOKEN)? {
        Some(token) if token.len() >= SHORTEST => Ok(token),
        Some(_) => Err(Failure::usage(format!("{TOKEN} is shorter than {SHORTEST} characters"))
            .help("leave it out, and one is made")),
        None => {
            let token = random_name()?;
            output::line(format_args!("token {token}"));
            Ok(token)
        }
    }
}
