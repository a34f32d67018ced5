//! Listens, accepts connections and shuts down gracefully.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use axum::Router;
use bailiwick_fleet::ports::{Fleet, FleetError, FleetStore};
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::access::{Buckets, Hosts, OpenTokens, TrustedProxies, follow_tokens};
use crate::app::{App, Peer};
use crate::bodies::BodyBudget;
use crate::connections::{ConnectionAddresses, ConnectionSlot, Connections};
use crate::hub::{Hub, follow_change_log, store_version};
use crate::ids::now;
use crate::openid::SignIn;
use crate::pages::{PAGES, Pages, with_pages};
use crate::router::router;
use crate::settings::{Exposure, Limits, Settings};
use crate::shutdown::{Shutdown, ShutdownTrigger, shutdown_channel};
use crate::sign_in_settings::SignInSettingsError;
use crate::stream_slots::StreamSlots;
use crate::telemetry::{Metrics, RunCounts, TimedStore};
use crate::webhook_targets::WebhookTargets;
use crate::write_timeout::WriteTimeout;

#[derive(Debug, Error)]
pub enum ServeError {
    #[error(
        "{0} is reachable from other machines; listen on a loopback address, or allow the network explicitly"
    )]
    NotLoopback(SocketAddr),
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: io::Error },
    #[error(transparent)]
    SignIn(#[from] SignInSettingsError),
    #[error("the store is unavailable: {0}")]
    Store(#[from] FleetError),
}

/// A server that is bound to its address and not yet running.
pub struct Server<S, F> {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App<S, F>>,
    pages: Option<Arc<dyn Pages>>,
    path_prefix: String,
    trigger: ShutdownTrigger,
}

impl<S: FleetStore, F: Fleet> Server<S, F> {
    /// Binds the address and reads the store. Requests are answered after `run` is called.
    pub async fn bind(
        settings: Settings,
        store: Arc<S>,
        fleet: Arc<F>,
    ) -> Result<Self, ServeError> {
        let address = settings.address;
        if settings.exposure == Exposure::Loopback && !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let sign_in = settings.sign_in.clone().map(SignIn::new).transpose()?;
        let listen = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let metrics = Arc::new(Metrics::default());
        let store = Arc::new(TimedStore::new(store, metrics.clone()));
        let hub = Arc::new(Hub::new(settings.limits.max_stream_lag));
        hub.start_at(store_version(store.as_ref()).await?);
        let run_counts = Arc::new(RunCounts::default());
        run_counts.load(store.as_ref()).await?;
        let (trigger, shutdown) = shutdown_channel();
        let hosts = Hosts::new(&settings, address);
        let limits = settings.limits;
        let (all, each) = (limits.max_streams, limits.max_streams_per_person);
        let streams = StreamSlots::new(all, each, metrics.clone());
        let app = App {
            store,
            fleet,
            hub,
            metrics,
            run_counts,
            hosts,
            proxies: TrustedProxies::new(settings.trusted_proxies),
            addresses: Buckets::new(limits.per_address),
            tokens: Buckets::new(limits.per_token),
            failed_signatures: Buckets::new(limits.failed_signatures),
            rejected_webhooks: Buckets::new(limits.rejected_webhook_audit),
            webhook_targets: WebhookTargets::default(),
            sign_in,
            local_runs: settings.local_runs,
            workers: settings.workers,
            worker_registry: settings.worker_registry,
            jobs: Arc::default(),
            pages_at: OnceLock::new(),
            streams,
            open_tokens: Arc::new(OpenTokens::default()),
            body_budget: BodyBudget::new(
                limits.anonymous_body_bytes,
                (limits.anonymous_body_bytes / 4).max(limits.webhook_body_bytes),
                limits.body_budget_timeout,
            ),
            control_loop: settings.control_loop,
            write_check: Arc::default(),
            shutdown,
            active_writes: Arc::default(),
            limits,
        };
        let (pages, path_prefix) = (None, String::new());
        Ok(Self { listener, address, app: Arc::new(app), pages, path_prefix, trigger })
    }

    /// Serves pages beside the API. `path_prefix` is the path of the server behind a proxy, as `/agents`; it is empty
    /// if the server is at the root.
    #[must_use]
    pub fn with_pages(self, pages: Arc<dyn Pages>, path_prefix: &str) -> Self {
        if let Ok(location) = HeaderValue::from_str(&format!("{path_prefix}{PAGES}")) {
            self.app.pages_at.get_or_init(|| location);
        }
        Self { pages: Some(pages), path_prefix: path_prefix.to_owned(), ..self }
    }

    /// The bound address, with the assigned port if port 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `until` completes. Then it accepts no connections, finishes requests in flight within the
    /// grace period, and sends streams their last event.
    pub async fn run(self, until: impl Future<Output = ()> + Send) {
        let Self { listener, address, app, pages, path_prefix, trigger } = self;
        tracing::info!(%address, "listening");
        let follower = tokio::spawn(follow_change_log(
            app.store.clone(),
            app.hub.clone(),
            app.run_counts.clone(),
            app.metrics.clone(),
            app.shutdown.clone(),
        ));
        let token_follower = tokio::spawn(follow_tokens(
            app.store.clone(),
            app.open_tokens.clone(),
            app.limits.token_check,
            now,
            app.shutdown.clone(),
        ));
        let router = with_pages(&app, router(&app), pages.as_deref(), &path_prefix);
        let slots = Connections::new(
            app.limits.max_connections,
            app.limits.max_connections_per_address,
            app.proxies.clone(),
        );
        let mut connections = JoinSet::new();
        tokio::pin!(until);
        loop {
            tokio::select! {
                biased;
                () = &mut until => break,
                Some(_) = connections.join_next() => {}
                accepted = accept(&listener, &slots) => {
                    let Some((stream, client)) = accepted else { continue };
                    let peer = client.ip().to_canonical();
                    let server = stream.local_addr().ok();
                    let addresses = server.map(|server| ConnectionAddresses { client, server });
                    let Some(slot) = slots.admit(peer) else {
                        refuse(&stream);
                        continue;
                    };
                    let connection = Connection {
                        stream,
                        peer: Peer { address: peer, addresses, slot },
                        router: router.clone(),
                        limits: app.limits.clone(),
                        shutdown: app.shutdown.clone(),
                        metrics: app.metrics.clone(),
                    };
                    connections.spawn(connection.run());
                }
            }
        }
        drop(listener);
        tracing::info!("shutting down");
        trigger.request();
        let finished = async {
            while connections.join_next().await.is_some() {}
            let _ = app.active_writes.write().await;
        };
        if tokio::time::timeout(app.limits.shutdown_grace, finished).await.is_err() {
            tracing::warn!(connections = connections.len(), "closed after the grace period");
            connections.shutdown().await;
        }
        let _ = follower.await;
        let _ = token_follower.await;
        tracing::info!("stopped");
    }
}

async fn accept(
    listener: &TcpListener,
    connections: &Connections,
) -> Option<(TcpStream, SocketAddr)> {
    connections.room().await;
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            // Mostly too many open files: an immediate retry does not help.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            None
        }
    }
}

/// Answers a connection that is not admitted, without waiting for its request.
fn refuse(stream: &TcpStream) {
    let response = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\n\
                     content-length: 0\r\n\r\n";
    // The buffer of a new connection is empty; if not, the client sees a closed connection.
    let _ = stream.try_write(response);
}

struct Connection {
    stream: TcpStream,
    peer: Peer,
    router: Router,
    limits: Limits,
    shutdown: Shutdown,
    metrics: Arc<Metrics>,
}

impl Connection {
    async fn run(self) {
        let metrics = self.metrics.clone();
        metrics.connection_opened();
        let (slot, mut shutdown) = (self.peer.slot.clone(), self.shutdown.clone());
        let (bytes, timeout) = (self.limits.discarded_bytes, self.limits.discard_timeout);
        if let Some(stream) = self.serve(&slot).await {
            tokio::select! {
                _ = tokio::time::timeout(timeout, discard_rest(stream, bytes)) => {}
                () = slot.evicted() => {}
                () = shutdown.requested() => {}
            }
        }
        metrics.connection_closed();
    }

    /// Answers the requests of the connection; returns it if the client may still be sending.
    async fn serve(mut self, slot: &ConnectionSlot) -> Option<WriteTimeout> {
        // Events are small and must not be delayed.
        let _ = self.stream.set_nodelay(true);
        let io = TokioIo::new(WriteTimeout::new(self.stream, self.limits.write_timeout));
        let peer = self.peer;
        let router = TowerToHyperService::new(self.router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            Box::pin(router.call(request))
        });
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_buf_size(self.limits.header_bytes.max(8_192))
            .serve_connection(io, service);
        let ended = tokio::select! {
            ended = poll_fn(|context| connection.poll_without_shutdown(context)) => Some(ended),
            () = slot.evicted() => return None,
            () = self.shutdown.requested() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                Pin::new(&mut connection).graceful_shutdown();
                poll_fn(|context| connection.poll_without_shutdown(context)).await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection failed");
        }
        Some(connection.into_parts().io.into_inner())
    }
}

/// Ends the connection without losing the response: closing a connection with unread data resets it, and the client
/// loses what it has not read yet.
async fn discard_rest(mut stream: WriteTimeout, max_bytes: usize) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut buffer = vec![0; 16 * 1024];
    let mut left = max_bytes;
    while left > 0 {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => left = left.saturating_sub(length),
        }
    }
}
