//! A run's own events: a page of them, or all of them as they come.

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

use super::frame::{event, heartbeat};
use super::watch::{Place, goodbye, ticking};
use crate::access::still_valid;
use crate::app::{App, now};
use crate::asked::{Answer, Asked, ok, text};
use crate::problem::Problem;
use crate::stop::Stop;

const AT_ONCE: usize = 256;
const MOST: u64 = 1_000;
const LOOK_ANYWAY: u64 = 5_000;
const REST: Duration = Duration::from_millis(5);

struct Follower<S, F> {
    app: Arc<App<S, F>>,
    run: Target,
    attempt: Option<u32>,
    cursor: u64,
    begun: bool,
    over: bool,
    waited: bool,
    digest: String,
    ticks: Interval,
    stop: Stop,
    _place: Place,
}

/// A run's events after a cursor, as JSON or as a stream.
pub(crate) async fn run_events<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
) -> Answer {
    asked.known_query(&["namespace", "watch", "after", "limit", "resourceVersion", "attempt"])?;
    let run = asked.target()?;
    let there = app.store.get(Kind::AgentDispatchRun, &run.namespace, &run.name).await?;
    if there.is_none() {
        return Err(Problem::not_found(format!(
            "there is no run `{}/{}`",
            run.namespace, run.name
        )));
    }
    let attempt = match asked.number("attempt")? {
        None => None,
        Some(number) => {
            Some(u32::try_from(number).ok().filter(|number| *number > 0).ok_or_else(|| {
                Problem::bad(format!("`attempt={number}`: attempts count from 1"))
            })?)
        }
    };
    let given = asked.cursor()?;
    let after = given.or(asked.number("after")?).unwrap_or_default();
    if !asked.wants_stream()? {
        let limit = asked.number("limit")?.unwrap_or(MOST).clamp(1, MOST);
        let limit = usize::try_from(limit).unwrap_or(AT_ONCE);
        return ok(&app.fleet.run_events(&run, attempt, after, limit).await?);
    }
    let place = Place::take(app)?;
    // What cannot be read is said before the stream begins: whoever follows would come back for ever.
    app.fleet.run_events(&run, attempt, after, 1).await?;
    let digest = asked.token.as_ref().map(|token| token.digest.clone()).unwrap_or_default();
    let follower = Follower {
        run,
        attempt,
        cursor: after,
        begun: false,
        over: false,
        waited: false,
        digest,
        ticks: ticking(app),
        stop: app.stop.clone(),
        _place: place,
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
        if self.over {
            return None;
        }
        if !self.begun {
            self.begun = true;
            let data = json!({ "type": "SYNC", "version": self.cursor });
            return Some(event("sync", Some(self.cursor), &data));
        }
        loop {
            let fleet = &self.app.fleet;
            let read = fleet.run_events(&self.run, self.attempt, self.cursor, AT_ONCE).await;
            match read {
                Ok(RunEvents { events, ended }) if events.is_empty() => {
                    if ended {
                        return self.end("the run is at its end");
                    }
                    if let Some(bytes) = self.wait().await {
                        return Some(bytes);
                    }
                }
                Ok(RunEvents { events, .. }) => {
                    self.waited = false;
                    let mut all = BytesMut::new();
                    for seen in events {
                        self.cursor = seen.cursor;
                        let data = serde_json::to_value(&seen).unwrap_or_default();
                        all.extend_from_slice(&event("event", Some(seen.cursor), &data));
                    }
                    return Some(all.freeze());
                }
                Err(error) => {
                    tracing::error!(%error, "a run's events cannot be read");
                    return self.end("the events cannot be read; come back with Last-Event-ID");
                }
            }
        }
    }

    fn end(&mut self, why: &str) -> Option<Bytes> {
        self.over = true;
        Some(goodbye(why))
    }

    async fn wait(&mut self) -> Option<Bytes> {
        // Whoever is woken for nothing does not ask again at once.
        let rest = if self.waited { REST } else { Duration::ZERO };
        self.waited = true;
        let come = async {
            tokio::time::sleep(rest).await;
            self.app.fleet.wait_for_run_event(&self.run, self.cursor, LOOK_ANYWAY).await;
        };
        tokio::select! {
            biased;
            () = self.stop.said() => {
                self.over = true;
                Some(goodbye("the server stops; come back with Last-Event-ID"))
            }
            _ = self.ticks.tick() => {
                let store = self.app.store.as_ref();
                match still_valid(store, &self.digest, now()).await {
                    Ok(true) => Some(heartbeat(self.cursor)),
                    Ok(false) | Err(_) => {
                        self.over = true;
                        Some(goodbye("the token is not valid any more"))
                    }
                }
            }
            () = come => None,
        }
    }
}
