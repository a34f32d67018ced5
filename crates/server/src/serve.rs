//! Listening, accepting, and stopping without cutting anybody off.

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
use crate::bodies::Room;
use crate::changes::{Hub, follow, store_version};
use crate::paced::Paced;
use crate::settings::{Limits, Reach, Settings};
use crate::stop::{Stop, Stopper, stopping};
use crate::telemetry::{Metrics, Tally, Timed};
use crate::webhooks::Takers;

/// Why the server did not start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address is not this machine's own.
    #[error(
        "{0} can be reached from other machines; listen on a loopback address, or say that the network \
         is meant"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The store does not answer.
    #[error("the store does not answer: {0}")]
    Store(#[from] FleetError),
}

/// The server: bound, and not yet answering.
pub struct Server<S, F> {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App<S, F>>,
    stop: Stopper,
}

impl<S: FleetStore, F: Fleet> Server<S, F> {
    /// Takes the address and looks at the store. Nothing is answered before `run`.
    pub async fn bind(
        settings: Settings,
        store: Arc<S>,
        fleet: Arc<F>,
    ) -> Result<Self, ServeError> {
        let wanted = settings.address;
        if settings.reach == Reach::Loopback && !wanted.ip().is_loopback() {
            return Err(ServeError::NotLoopback(wanted));
        }
        let listen = |error| ServeError::Listen { address: wanted, error };
        let listener = TcpListener::bind(wanted).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let metrics = Arc::new(Metrics::default());
        let store = Arc::new(Timed::new(store, metrics.clone()));
        let hub = Arc::new(Hub::new(settings.limits.behind));
        hub.begin(store_version(store.as_ref()).await?);
        let tally = Arc::new(Tally::default());
        tally.begin(store.as_ref()).await?;
        let (stop, stopped) = stopping();
        let hosts = Hosts::new(&settings, address);
        let limits = settings.limits;
        let app = App {
            store,
            fleet,
            hub,
            metrics,
            tally,
            hosts,
            addresses: Buckets::new(limits.per_address),
            tokens: Buckets::new(limits.per_token),
            unbelieved: Buckets::new(limits.unbelieved_audit),
            takers: Takers::default(),
            watchers: Arc::new(Semaphore::new(limits.watchers)),
            room: Room::new(
                limits.unknown_bodies,
                (limits.unknown_bodies / 4).max(limits.webhook_body),
                limits.room_time,
            ),
            pulse: settings.pulse,
            stop: stopped,
            at_work: Arc::default(),
            limits,
        };
        Ok(Self { listener, address, app: Arc::new(app), stop })
    }

    /// Where it listens: with the port that was found, if none was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `until` is over; then nothing more is accepted, requests in flight are finished
    /// for as long as the limits say, and streams get their last frame.
    pub async fn run(self, until: impl Future<Output = ()> + Send) {
        let Self { listener, address, app, stop } = self;
        tracing::info!(%address, "listening");
        let follower = tokio::spawn(follow(
            app.store.clone(),
            app.hub.clone(),
            app.tally.clone(),
            app.metrics.clone(),
            app.stop.clone(),
        ));
        let router = router(&app);
        let places = Arc::new(Semaphore::new(app.limits.connections));
        let mut connections = JoinSet::new();
        tokio::pin!(until);
        loop {
            tokio::select! {
                biased;
                () = &mut until => break,
                Some(_) = connections.join_next() => {}
                accepted = accept(&listener, &places) => {
                    let Some((stream, peer, place)) = accepted else { continue };
                    let served = Served {
                        stream,
                        peer,
                        router: router.clone(),
                        limits: app.limits.clone(),
                        stop: app.stop.clone(),
                        metrics: app.metrics.clone(),
                        _place: place,
                    };
                    connections.spawn(served.run());
                }
            }
        }
        drop(listener);
        tracing::info!("stopping");
        stop.stop();
        let finished = async {
            while connections.join_next().await.is_some() {}
            let _ = app.at_work.write().await;
        };
        if tokio::time::timeout(app.limits.grace, finished).await.is_err() {
            tracing::warn!(connections = connections.len(), "cut off after the time of grace");
            connections.shutdown().await;
        }
        let _ = follower.await;
        tracing::info!("stopped");
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, place)),
        Err(error) => {
            // Too many open files, mostly: it passes, and asking again at once does not help.
            tracing::warn!(%error, "a connection was not accepted");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            None
        }
    }
}

struct Served {
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: Limits,
    stop: Stop,
    metrics: Arc<Metrics>,
    _place: OwnedSemaphorePermit,
}

impl Served {
    async fn run(mut self) {
        self.metrics.connection_came();
        // An event is small, and is wanted now.
        let _ = self.stream.set_nodelay(true);
        let io = TokioIo::new(Paced::new(self.stream, self.limits.stall_time));
        let peer = Peer(self.peer);
        let router = TowerToHyperService::new(self.router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            router.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_time)
            .max_buf_size(self.limits.head.max(8_192))
            .serve_connection(io, service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.said() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
        self.metrics.connection_left();
    }
}
