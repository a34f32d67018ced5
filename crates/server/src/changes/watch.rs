//! One watcher: first what it missed, from the store; then what comes, from the hub. No change is
//! left out and none is sent twice, because the hub is listened to before the store is read and
//! versions only grow.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bailiwick_fleet::ports::{FleetError, FleetStore};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use super::frame::{Filter, Frame, event, heartbeat};
use super::hub::{Told, store_version};
use crate::access::still_valid;
use crate::app::{App, now};
use crate::asked::{Answer, Asked, text};
use crate::problem::Problem;
use crate::stop::Stop;
use crate::telemetry::Metrics;

/// How many changes are read from the store at once.
const AT_ONCE: usize = 256;

const STOPS: &str = "the server stops; come back with Last-Event-ID";

enum Mode {
    First,
    Replay,
    Live,
    End,
}

/// A place among the watchers; it is given back when the stream is dropped.
pub(crate) struct Place {
    metrics: Arc<Metrics>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    pub(crate) fn take<S: FleetStore, F>(app: &App<S, F>) -> Result<Self, Problem> {
        let full = || Problem::unavailable("there are as many streams as there may be");
        let permit = app.watchers.clone().try_acquire_owned().map_err(|_| full())?;
        app.metrics.watcher_came();
        Ok(Self { metrics: app.metrics.clone(), _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.metrics.watcher_left();
    }
}

/// A clock that ticks as often as a stream must say that it is there.
pub(crate) fn ticking<S, F>(app: &App<S, F>) -> Interval {
    let every = app.limits.heartbeat;
    let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

struct Watcher<S, F> {
    app: Arc<App<S, F>>,
    filter: Filter,
    frames: broadcast::Receiver<Told>,
    /// The last version that was looked at, whether it was shown or not.
    cursor: u64,
    mode: Mode,
    /// Whether anything came from the hub since the store was read.
    heard: bool,
    digest: String,
    ticks: Interval,
    stop: Stop,
    _place: Place,
}

/// Begins a stream.
pub(crate) async fn watch<S: FleetStore, F: Send + Sync + 'static>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
    filter: Filter,
) -> Answer {
    let place = Place::take(app)?;
    // First the hub is listened to, then the version is read: nothing falls in between.
    let frames = app.hub.subscribe();
    let given = asked.cursor()?;
    let published = app.hub.published();
    let newest = match given {
        Some(cursor) if cursor <= published => published,
        Some(_) | None => store_version(app.store.as_ref()).await?.max(published),
    };
    let cursor = given.unwrap_or(newest);
    let digest = asked.token.as_ref().map(|token| token.digest.clone()).unwrap_or_default();
    let watcher = Watcher {
        filter,
        frames,
        cursor,
        mode: Mode::First,
        heard: false,
        digest,
        ticks: ticking(app),
        stop: app.stop.clone(),
        _place: place,
        app: app.clone(),
    };
    if cursor > newest {
        // A version that never was: the store is another one than the watcher knew.
        let resync = resync("this version was never reached");
        return Ok(text("text/event-stream", Body::from(resync)));
    }
    Ok(text("text/event-stream", streamed(watcher)))
}

fn streamed<S: FleetStore, F: Send + Sync + 'static>(watcher: Watcher<S, F>) -> Body {
    Body::from_stream(stream::unfold(watcher, |mut watcher| async {
        let bytes = watcher.next().await?;
        Some((Ok::<Bytes, Infallible>(bytes), watcher))
    }))
}

fn resync(why: &str) -> Bytes {
    event("resync", None, &json!({ "type": "RESYNC", "message": format!("{why}; list again") }))
}

/// The last words of a stream.
pub(crate) fn goodbye(why: &str) -> Bytes {
    event("end", None, &json!({ "type": "END", "message": why }))
}

impl<S: FleetStore, F: Send + Sync + 'static> Watcher<S, F> {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let shown = match self.mode {
                Mode::First => {
                    self.mode = Mode::Replay;
                    let data = json!({ "type": "SYNC", "version": self.cursor });
                    Some(event("sync", Some(self.cursor), &data))
                }
                Mode::Replay if self.stop.is_said() => self.end(goodbye(STOPS)),
                Mode::Replay => self.replay().await,
                Mode::Live => self.live().await,
                Mode::End => return None,
            };
            if shown.is_some() {
                return shown;
            }
        }
    }

    fn end(&mut self, last: Bytes) -> Option<Bytes> {
        self.mode = Mode::End;
        Some(last)
    }

    async fn replay(&mut self) -> Option<Bytes> {
        match self.app.store.changes(self.cursor, AT_ONCE).await {
            Ok(changes) => {
                if changes.is_empty() {
                    self.mode = Mode::Live;
                    self.heard = false;
                }
                let mut all = BytesMut::new();
                for change in changes {
                    self.cursor = change.version;
                    if let Some(shown) = Frame::new(change).shown(&self.filter) {
                        all.extend_from_slice(&shown);
                    }
                }
                (!all.is_empty()).then(|| all.freeze())
            }
            Err(FleetError::Gone { .. }) => self.end(resync("changes that old are not kept")),
            Err(error) => {
                tracing::error!(%error, "a stream cannot be replayed");
                self.end(goodbye("the store does not answer; come back with Last-Event-ID"))
            }
        }
    }

    async fn live(&mut self) -> Option<Bytes> {
        let seen = tokio::select! {
            biased;
            () = self.stop.said() => Seen::Stop,
            _ = self.ticks.tick() => Seen::Tick,
            told = self.frames.recv() => Seen::Told(told),
        };
        match seen {
            Seen::Stop | Seen::Told(Err(RecvError::Closed)) => self.end(goodbye(STOPS)),
            Seen::Tick => {
                let store = self.app.store.as_ref();
                match still_valid(store, &self.digest, now()).await {
                    Ok(true) => Some(heartbeat(self.cursor)),
                    Ok(false) | Err(_) => self.end(goodbye("the token is not valid any more")),
                }
            }
            Seen::Told(Ok(Told::Change(frame))) => {
                self.heard = true;
                if frame.change.version <= self.cursor {
                    return None;
                }
                self.cursor = frame.change.version;
                frame.shown(&self.filter)
            }
            Seen::Told(Ok(Told::Missed)) => {
                self.mode = Mode::Replay;
                None
            }
            // While the store was read the hub went on: the store has what it has forgotten.
            Seen::Told(Err(RecvError::Lagged(_))) if !self.heard => {
                self.mode = Mode::Replay;
                None
            }
            Seen::Told(Err(RecvError::Lagged(_))) => {
                self.app.metrics.watcher_left_behind();
                self.end(goodbye("you read too slowly; come back with Last-Event-ID"))
            }
        }
    }
}

enum Seen {
    Stop,
    Tick,
    Told(Result<Told, RecvError>),
}
