//! Listens, accepts connections and shuts down gracefully.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use bailiwick_fleet::ports::{Fleet, FleetError, FleetStore};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::access::{Buckets, Hosts};
use crate::app::{App, Peer, router};
use crate::bodies::BodyBudget;
use crate::changes::{Hub, follow_change_log, store_version};
use crate::settings::{Exposure, Limits, Settings};
use crate::shutdown::{Shutdown, ShutdownTrigger, shutdown_channel};
use crate::telemetry::{Metrics, RunCounts, TimedStore};
use crate::webhooks::WebhookTargets;
use crate::write_timeout::WriteTimeout;

#[derive(Debug, Error)]
pub enum ServeError {
    #[error(
        "{0} is reachable from other machines; listen on a loopback address, or allow the network explicitly"
    )]
    NotLoopback(SocketAddr),
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: io::Error },
    #[error("the store is unavailable: {0}")]
    Store(#[from] FleetError),
}

/// A server that is bound to its address and not yet running.
pub struct Server<S, F> {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App<S, F>>,
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
        let app = App {
            store,
            fleet,
            hub,
            metrics,
            run_counts,
            hosts,
            addresses: Buckets::new(limits.per_address),
            tokens: Buckets::new(limits.per_token),
            rejected_webhooks: Buckets::new(limits.rejected_webhook_audit),
            webhook_targets: WebhookTargets::default(),
            watchers: Arc::new(Semaphore::new(limits.max_streams)),
            body_budget: BodyBudget::new(
                limits.anonymous_body_bytes,
                (limits.anonymous_body_bytes / 4).max(limits.webhook_body_bytes),
                limits.body_budget_timeout,
            ),
            control_loop: settings.control_loop,
            shutdown,
            active_writes: Arc::default(),
            limits,
        };
        Ok(Self { listener, address, app: Arc::new(app), trigger })
    }

    /// The bound address, with the assigned port if port 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `until` completes. Then it accepts no connections, finishes requests in flight within the
    /// grace period, and sends streams their last event.
    pub async fn run(self, until: impl Future<Output = ()> + Send) {
        let Self { listener, address, app, trigger } = self;
        tracing::info!(%address, "listening");
        let follower = tokio::spawn(follow_change_log(
            app.store.clone(),
            app.hub.clone(),
            app.run_counts.clone(),
            app.metrics.clone(),
            app.shutdown.clone(),
        ));
        let router = router(&app);
        let slots = Arc::new(Semaphore::new(app.limits.max_connections));
        let mut connections = JoinSet::new();
        tokio::pin!(until);
        loop {
            tokio::select! {
                biased;
                () = &mut until => break,
                Some(_) = connections.join_next() => {}
                accepted = accept(&listener, &slots) => {
                    let Some((stream, peer, slot)) = accepted else { continue };
                    let connection = Connection {
                        stream,
                        peer,
                        router: router.clone(),
                        limits: app.limits.clone(),
                        shutdown: app.shutdown.clone(),
                        metrics: app.metrics.clone(),
                        _slot: slot,
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
        tracing::info!("stopped");
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let slot = slots.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, slot)),
        Err(error) => {
            // Mostly too many open files: an immediate retry does not help.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            None
        }
    }
}

struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: Limits,
    shutdown: Shutdown,
    metrics: Arc<Metrics>,
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    async fn run(mut self) {
        self.metrics.connection_opened();
        // Events are small and must not be delayed.
        let _ = self.stream.set_nodelay(true);
        let io = TokioIo::new(WriteTimeout::new(self.stream, self.limits.write_timeout));
        let peer = Peer(self.peer);
        let router = TowerToHyperService::new(self.router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            router.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_buf_size(self.limits.header_bytes.max(8_192))
            .serve_connection(io, service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shutdown.requested() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection failed");
        }
        self.metrics.connection_closed();
    }
}
