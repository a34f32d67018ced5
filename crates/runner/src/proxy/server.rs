//! Listens, and gives every connection a task; when the proxy is gone, so are they.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::callers::{Caller, KnownCallers};
use super::connect::{Hosts, Tunnel};
use super::connections::{ActiveRequest, Connection, Connections, MAX_CONNECTIONS, ResponseBody};
use super::exchange::Shared;
use super::limits::Limits;
use super::models::ModelLimit;
use super::upstream::{Model, Upstream};
use super::{Callers, HttpGate, ModelApi, Models, Observer};

/// How long a connection may be silent between requests.
const IDLE: Duration = Duration::from_mins(10);
/// How long one that has to leave may take to hand over what is on its way.
const LEAVING: Duration = Duration::from_secs(1);
/// How often to check for a free seat if all are taken.
const SEAT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The configuration of a proxy.
pub struct Setup {
    /// The API of the CLI.
    pub wire: ModelApi,
    /// The model; `None` if every request is answered by the observer.
    pub upstream: Option<Upstream>,
    /// The listener for the CLI.
    pub listener: TcpListener,
    /// Other hosts that the program may reach: `host:port` or `*.domain:port`.
    pub hosts: Vec<String>,
    /// The models that it may ask.
    pub models: Models,
    /// Whether the model's host may search the web for it.
    pub searches: bool,
    /// Decides requests, and receives the results.
    pub observer: Arc<dyn Observer>,
    /// Who may send requests to the model; none means everyone who can connect.
    pub callers: Option<Arc<dyn Callers>>,
    /// The HTTP gate, if there is one.
    pub http_gate: Option<Arc<dyn HttpGate>>,
}

/// Why a proxy cannot be had.
#[derive(Debug, Error)]
pub enum ProxyError {
    /// The key cannot be sent.
    #[error("the model's key, or the header for it, cannot be sent over HTTP")]
    Key,
    /// The model cannot be there.
    #[error("{0:?} is not where a model can be: an http or https address without query or user")]
    Base(String),
    /// The HTTP client cannot be created.
    #[error("there is no way to connect to a model: {0}")]
    Client(String),
    /// The URL has no valid host.
    #[error("{0:?} is no host that can be allowed: write host:port or *.domain:port")]
    Host(String),
    /// The listener cannot be used.
    #[error("the proxy cannot listen: {0}")]
    Listen(#[from] std::io::Error),
}

/// A proxy that runs until it is stopped or dropped, and all of its connections with it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    stop: Option<oneshot::Sender<Infallible>>,
    listening: JoinHandle<()>,
}

impl Proxy {
    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it, and waits until every answer that was on its way has been reported.
    pub async fn stop(mut self) {
        self.stop = None;
        // It has no result but its end.
        let _ = (&mut self.listening).await;
    }
}

/// Starts a proxy on a runtime, which needs its timers and its network.
pub fn start(setup: Setup, runtime: &Handle) -> Result<Proxy, ProxyError> {
    let Setup { wire, upstream, listener, hosts, models, searches, observer, callers, http_gate } =
        setup;
    let _inside = runtime.enter();
    let model = upstream.as_ref().map(Model::new).transpose()?;
    let hosts = Hosts::parse(&hosts)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let shared = Arc::new(Shared::new(
        wire,
        model,
        Limits { hosts, models: ModelLimit::new(models), searches },
        observer,
        KnownCallers::new(callers),
        http_gate,
    ));
    let (stop, stopped) = oneshot::channel();
    let listening = runtime.spawn(listen(listener, shared, stopped));
    Ok(Proxy { address, stop: Some(stop), listening })
}

async fn listen(
    listener: tokio::net::TcpListener,
    shared: Arc<Shared>,
    mut stopped: oneshot::Receiver<Infallible>,
) {
    let (mut connections, seats) = (JoinSet::new(), Connections::new());
    loop {
        // One seat is kept free for the next connection.
        let full = connections.len() >= MAX_CONNECTIONS;
        if full {
            seats.make_room();
        }
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            () = tokio::time::sleep(SEAT_CHECK_INTERVAL), if full => {}
            accepted = listener.accept(), if !full => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(serve(stream, peer, seats.take(), Arc::clone(&shared)));
                }
                // Out of files, or a client that is gone again: others are served all the same.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn serve(stream: TcpStream, peer: SocketAddr, seat: Arc<Connection>, shared: Arc<Shared>) {
    let caller = Arc::new(Caller::new(peer));
    // Small pieces of a stream are sent without delay.
    let _ = stream.set_nodelay(true);
    let opened: Arc<Mutex<Option<(Tunnel, ActiveRequest)>>> = Arc::default();
    let service = service_fn(|request| {
        let (shared, opened) = (Arc::clone(&shared), Arc::clone(&opened));
        let caller = Arc::clone(&caller);
        let mut turn = seat.turn();
        async move {
            let mut tunnel = None;
            let response = shared.answer(request, &caller, &mut turn, &mut tunnel).await;
            let turn = match tunnel {
                None => Some(turn),
                Some(tunnel) => {
                    *opened.lock().unwrap_or_else(PoisonError::into_inner) = Some((tunnel, turn));
                    None
                }
            };
            Ok::<_, Infallible>(response.map(|body| ResponseBody::new(body, turn)))
        }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(IDLE);
    let connection = server.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = std::pin::pin!(connection);
    // A connection that breaks off is the program's affair; what was on its way is reported.
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = seat.must_leave() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            loop {
                match tokio::time::timeout(LEAVING, connection.as_mut()).await {
                    Ok(ended) => break ended,
                    Err(_) if seat.waits() => return,
                    // It has sent a request after all.
                    Err(_) => {}
                }
            }
        }
    };
    let tunnel = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let (Ok(()), Some((tunnel, _turn))) = (ended, tunnel) {
        tunnel.carry().await;
    }
}
