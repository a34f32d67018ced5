//! A watcher: first it reads earlier changes from the store, then it receives new ones from the hub. No change is
//! lost or sent twice, because it subscribes before it reads the store, and versions only increase.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bailiwick_fleet::ports::{FleetError, FleetStore};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use crate::access::{OpenToken, still_valid};
use crate::app::App;
use crate::frame::{Filter, Frame, event, heartbeat};
use crate::hub::{HubMessage, store_version};
use crate::ids::now;
use crate::request::{ApiRequest, HandlerResult, text};
use crate::shutdown::Shutdown;
use crate::stream_slots::StreamSlot;

const BATCH_SIZE: usize = 256;

pub(crate) const TOKEN_MESSAGE: &str = "the token is no longer valid";
const SHUTDOWN_MESSAGE: &str = "the server is shutting down; reconnect with Last-Event-ID";

enum Mode {
    First,
    Replay,
    Live,
    End,
}

pub(crate) fn heartbeat_interval<S, F>(app: &App<S, F>) -> Interval {
    let every = app.limits.heartbeat;
    let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

struct Watcher<S, F> {
    app: Arc<App<S, F>>,
    filter: Filter,
    frames: broadcast::Receiver<HubMessage>,
    /// The last processed version, whether it was sent or not.
    cursor: u64,
    mode: Mode,
    /// Whether the hub sent anything since the store was read.
    received_since_replay: bool,
    digest: String,
    token: OpenToken,
    ticks: Interval,
    shutdown: Shutdown,
    _slot: StreamSlot,
}

pub(crate) async fn watch<S: FleetStore, F: Send + Sync + 'static>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
    filter: Filter,
) -> HandlerResult {
    let slot = app.streams.take(&request.caller()?.actor)?;
    // Subscribe before reading the version, so that no change is lost in between.
    let frames = app.hub.subscribe();
    let requested = request.cursor()?;
    let published = app.hub.published();
    let newest = match requested {
        Some(cursor) if cursor <= published => published,
        Some(_) | None => store_version(app.store.as_ref()).await?.max(published),
    };
    let cursor = requested.unwrap_or(newest);
    let digest = request.token.as_ref().map(|token| token.digest.clone()).unwrap_or_default();
    let watcher = Watcher {
        filter,
        frames,
        cursor,
        mode: Mode::First,
        received_since_replay: false,
        token: app.open_tokens.open(&digest),
        digest,
        ticks: heartbeat_interval(app),
        shutdown: app.shutdown.clone(),
        _slot: slot,
        app: app.clone(),
    };
    if cursor > newest {
        // The version does not exist: the client knew another store.
        let resync = resync("this version does not exist");
        return Ok(text("text/event-stream", Body::from(resync)));
    }
    Ok(text("text/event-stream", stream_body(watcher)))
}

fn stream_body<S: FleetStore, F: Send + Sync + 'static>(watcher: Watcher<S, F>) -> Body {
    Body::from_stream(stream::unfold(watcher, |mut watcher| async {
        let bytes = watcher.next().await?;
        Some((Ok::<Bytes, Infallible>(bytes), watcher))
    }))
}

fn resync(why: &str) -> Bytes {
    event("resync", None, &json!({ "type": "RESYNC", "message": format!("{why}; list again") }))
}

/// The last event of a stream.
pub(crate) fn end_event(why: &str) -> Bytes {
    event("end", None, &json!({ "type": "END", "message": why }))
}

impl<S: FleetStore, F: Send + Sync + 'static> Watcher<S, F> {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let output = match self.mode {
                Mode::First => {
                    self.mode = Mode::Replay;
                    let data = json!({ "type": "SYNC", "version": self.cursor });
                    Some(event("sync", Some(self.cursor), &data))
                }
                Mode::Replay if self.shutdown.is_requested() => {
                    self.end(end_event(SHUTDOWN_MESSAGE))
                }
                Mode::Replay if self.token.has_ended() => self.end(end_event(TOKEN_MESSAGE)),
                Mode::Replay => self.replay().await,
                Mode::Live => self.live().await,
                Mode::End => return None,
            };
            if output.is_some() {
                return output;
            }
        }
    }

    fn end(&mut self, last: Bytes) -> Option<Bytes> {
        self.mode = Mode::End;
        Some(last)
    }

    async fn replay(&mut self) -> Option<Bytes> {
        match self.app.store.changes(self.cursor, BATCH_SIZE).await {
            Ok(changes) => {
                if changes.is_empty() {
                    self.mode = Mode::Live;
                    self.received_since_replay = false;
                }
                let mut all = BytesMut::new();
                for change in changes {
                    self.cursor = change.version;
                    if let Some(bytes) = Frame::new(change).render_for(&self.filter) {
                        all.extend_from_slice(&bytes);
                    }
                }
                (!all.is_empty()).then(|| all.freeze())
            }
            Err(FleetError::Gone { .. }) => self.end(resync("older changes are deleted")),
            Err(error) => {
                tracing::error!(%error, "the change log cannot be read");
                self.end(end_event("the store is unavailable; reconnect with Last-Event-ID"))
            }
        }
    }

    async fn live(&mut self) -> Option<Bytes> {
        let event = tokio::select! {
            biased;
            () = self.shutdown.requested() => WatchEvent::Shutdown,
            () = self.token.ended() => WatchEvent::TokenEnded,
            _ = self.ticks.tick() => WatchEvent::Tick,
            message = self.frames.recv() => WatchEvent::Message(message),
        };
        match event {
            WatchEvent::Shutdown | WatchEvent::Message(Err(RecvError::Closed)) => {
                self.end(end_event(SHUTDOWN_MESSAGE))
            }
            WatchEvent::TokenEnded => self.end(end_event(TOKEN_MESSAGE)),
            WatchEvent::Tick => {
                let store = self.app.store.as_ref();
                match still_valid(store, &self.digest, now()).await {
                    Ok(true) => Some(heartbeat(self.cursor)),
                    Ok(false) | Err(_) => self.end(end_event(TOKEN_MESSAGE)),
                }
            }
            WatchEvent::Message(Ok(HubMessage::Change(frame))) => {
                self.received_since_replay = true;
                if frame.change.version <= self.cursor {
                    return None;
                }
                self.cursor = frame.change.version;
                frame.render_for(&self.filter)
            }
            WatchEvent::Message(Ok(HubMessage::Missed)) => {
                self.mode = Mode::Replay;
                None
            }
            // The hub dropped changes while the store was read: the store still has them.
            WatchEvent::Message(Err(RecvError::Lagged(_))) if !self.received_since_replay => {
                self.mode = Mode::Replay;
                None
            }
            WatchEvent::Message(Err(RecvError::Lagged(_))) => {
                self.app.metrics.stream_lagged();
                self.end(end_event("the client reads too slowly; reconnect with Last-Event-ID"))
            }
        }
    }
}

enum WatchEvent {
    Shutdown,
    TokenEnded,
    Tick,
    Message(Result<HubMessage, RecvError>),
}
