//! The events of a run: a page, or a live stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bailiwick_fleet::ports::{Fleet, FleetStore, RunEvents, Target};
use bailiwick_resources::Kind;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use serde_json::json;
use tokio::time::Interval;

use super::watch::{TOKEN_MESSAGE, end_event, heartbeat_interval};
use crate::access::{OpenToken, still_valid};
use crate::app::App;
use crate::frame::{event, heartbeat};
use crate::ids::now;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok, text};
use crate::shutdown::Shutdown;
use crate::stream_slots::StreamSlot;

const BATCH_SIZE: usize = 256;
const MAX_PAGE_SIZE: u64 = 1_000;
const POLL_MILLIS: u64 = 5_000;
const SPURIOUS_WAKE_DELAY: Duration = Duration::from_millis(5);

struct Follower<S, F> {
    app: Arc<App<S, F>>,
    run: Target,
    attempt: Option<u32>,
    cursor: u64,
    started: bool,
    ended: bool,
    waited: bool,
    digest: String,
    token: OpenToken,
    ticks: Interval,
    shutdown: Shutdown,
    _slot: StreamSlot,
}

/// The events of a run after a cursor, as JSON or as a stream.
pub(crate) async fn run_events<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["namespace", "watch", "after", "limit", "resourceVersion", "attempt"])?;
    let run = request.target()?;
    let found = app.store.get(Kind::AgentDispatchRun, &run.namespace, &run.name).await?;
    if found.is_none() {
        let kind = Kind::AgentDispatchRun;
        return Err(Problem::not_found(format!("there is no {kind} `{}`", run.name)));
    }
    let attempt = match request.number("attempt")? {
        None => None,
        Some(number) => {
            Some(u32::try_from(number).ok().filter(|number| *number > 0).ok_or_else(|| {
                Problem::bad_request(format!("`attempt={number}`: attempts count from 1"))
            })?)
        }
    };
    let cursor = request.cursor()?;
    let after = cursor.or(request.number("after")?).unwrap_or_default();
    if !request.wants_stream()? {
        let limit = request.number("limit")?.unwrap_or(MAX_PAGE_SIZE).clamp(1, MAX_PAGE_SIZE);
        let limit = usize::try_from(limit).unwrap_or(BATCH_SIZE);
        return ok(&app.fleet.run_events(&run, attempt, after, limit).await?);
    }
    let slot = app.streams.take(&request.caller()?.actor)?;
    // Errors are returned before the stream starts: otherwise clients would reconnect forever.
    app.fleet.run_events(&run, attempt, after, 1).await?;
    let digest = request.token.as_ref().map(|token| token.digest.clone()).unwrap_or_default();
    let follower = Follower {
        run,
        attempt,
        cursor: after,
        started: false,
        ended: false,
        waited: false,
        token: app.open_tokens.open(&digest),
        digest,
        ticks: heartbeat_interval(app),
        shutdown: app.shutdown.clone(),
        _slot: slot,
        app: app.clone(),
    };
    let stream = stream::unfold(follower, |mut follower| async {
        let bytes = follower.next().await?;
        Some((Ok::<Bytes, Infallible>(bytes), follower))
    });
    Ok(text("text/event-stream", Body::from_stream(stream)))
}

impl<S: FleetStore, F: Fleet> Follower<S, F> {
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        if !self.started {
            self.started = true;
            let data = json!({ "type": "SYNC", "version": self.cursor });
            return Some(event("sync", Some(self.cursor), &data));
        }
        loop {
            if self.token.has_ended() {
                return self.end(TOKEN_MESSAGE);
            }
            let fleet = &self.app.fleet;
            let read = fleet.run_events(&self.run, self.attempt, self.cursor, BATCH_SIZE).await;
            match read {
                Ok(RunEvents { events, ended }) if events.is_empty() => {
                    if ended {
                        return self.end("the run has ended");
                    }
                    if let Some(bytes) = self.wait().await {
                        return Some(bytes);
                    }
                }
                Ok(RunEvents { events, .. }) => {
                    self.waited = false;
                    let mut all = BytesMut::new();
                    for item in events {
                        self.cursor = item.cursor;
                        let data = serde_json::to_value(&item).unwrap_or_default();
                        all.extend_from_slice(&event("event", Some(item.cursor), &data));
                    }
                    return Some(all.freeze());
                }
                Err(error) => {
                    tracing::error!(%error, "the events of a run cannot be read");
                    return self.end("the events cannot be read; reconnect with Last-Event-ID");
                }
            }
        }
    }

    fn end(&mut self, why: &str) -> Option<Bytes> {
        self.ended = true;
        Some(end_event(why))
    }

    async fn wait(&mut self) -> Option<Bytes> {
        // After a wake-up without an event, wait before reading again.
        let delay = if self.waited { SPURIOUS_WAKE_DELAY } else { Duration::ZERO };
        self.waited = true;
        let new_event = async {
            tokio::time::sleep(delay).await;
            self.app.fleet.wait_for_run_event(&self.run, self.cursor, POLL_MILLIS).await;
        };
        tokio::select! {
            biased;
            () = self.shutdown.requested() => {
                self.ended = true;
                Some(end_event("the server is shutting down; reconnect with Last-Event-ID"))
            }
            () = self.token.ended() => {
                self.ended = true;
                Some(end_event(TOKEN_MESSAGE))
            }
            _ = self.ticks.tick() => {
                let store = self.app.store.as_ref();
                match still_valid(store, &self.digest, now()).await {
                    Ok(true) => Some(heartbeat(self.cursor)),
                    Ok(false) | Err(_) => {
                        self.ended = true;
                        Some(end_event(TOKEN_MESSAGE))
                    }
                }
            }
            () = new_event => None,
        }
    }
}
