//! Streams that survive a restart of the server: they reconnect where they were.

use std::time::Duration;

use bailiwick_fleet::ports::{Change, FleetError, RunEvent, RunEvents, Target};
use bailiwick_model::backoff::Backoff;
use bailiwick_resources::Kind;
use serde::de::DeserializeOwned;

use super::frames::Frames;
use super::run_events_path;
use super::transport::{Call, Transport};
use crate::error::ClientError;
use crate::fleet_client::{Answer, ChangeStream, RunEventStream};

/// How often a stream reconnects in vain before it gives up: about a minute.
const MAX_RECONNECTS: u32 = 12;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
const RECONNECT_DELAY: Duration = Duration::from_millis(200);

/// Counts failed reconnections.
#[derive(Default)]
struct Reconnect {
    failures: u32,
}

impl Reconnect {
    /// Waits longer each time; gives up with the last error.
    async fn after(&mut self, error: ClientError) -> Result<(), ClientError> {
        let may_heal = matches!(error, ClientError::Unreachable { .. });
        if !may_heal || self.failures >= MAX_RECONNECTS {
            return Err(error);
        }
        let delay = BACKOFF.delay(self.failures);
        self.failures += 1;
        tokio::time::sleep(delay).await;
        Ok(())
    }
}

/// A server that closes every stream at once is not asked without a pause.
async fn disconnected() -> Option<Frames> {
    tokio::time::sleep(RECONNECT_DELAY).await;
    None
}

fn parse<T: DeserializeOwned>(transport: &Transport, data: &str) -> Result<T, ClientError> {
    serde_json::from_str(data).map_err(|error| {
        transport.incompatible(format!("an event of its stream has another shape: {error}"))
    })
}

/// Changes of one kind.
pub(super) struct HttpChanges {
    transport: Transport,
    kind: Kind,
    cursor: u64,
    frames: Option<Frames>,
    reconnect: Reconnect,
}

impl HttpChanges {
    /// Opens the stream, so that an error is reported at once.
    pub(super) async fn open(
        transport: Transport,
        kind: Kind,
        cursor: u64,
    ) -> Result<Self, ClientError> {
        let mut changes =
            Self { transport, kind, cursor, frames: None, reconnect: Reconnect::default() };
        changes.connect().await?;
        Ok(changes)
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        let call = Call::get(&["events"])
            .with("kind", self.kind.plural())
            .with("resourceVersion", self.cursor);
        self.frames = Some(Frames::new(self.transport.open(call).await?));
        Ok(())
    }

    async fn next_change(&mut self) -> Result<Change, ClientError> {
        loop {
            let Some(frames) = &mut self.frames else {
                if let Err(error) = self.connect().await {
                    self.reconnect.after(error).await?;
                }
                continue;
            };
            let Ok(frame) = frames.next().await else {
                self.frames = disconnected().await;
                continue;
            };
            self.reconnect = Reconnect::default();
            self.cursor = frame.id.unwrap_or(self.cursor);
            match frame.name.as_str() {
                "change" => return parse(&self.transport, &frame.data),
                "resync" => return Err(FleetError::Gone { oldest: self.cursor }.into()),
                // The reconnection says why, if it was not a restart.
                "end" => self.frames = disconnected().await,
                _ => {}
            }
        }
    }
}

impl ChangeStream for HttpChanges {
    fn next(&mut self) -> Answer<'_, Vec<Change>> {
        Box::pin(async move { Ok(vec![self.next_change().await?]) })
    }
}

/// The events of a run.
pub(super) struct HttpRunEvents {
    transport: Transport,
    run: Target,
    attempt: Option<u32>,
    cursor: u64,
    frames: Option<Frames>,
    reconnect: Reconnect,
}

impl HttpRunEvents {
    /// Opens the stream, so that an error is reported at once.
    pub(super) async fn open(
        transport: Transport,
        run: Target,
        attempt: Option<u32>,
        cursor: u64,
    ) -> Result<Self, ClientError> {
        let reconnect = Reconnect::default();
        let mut events = Self { transport, run, attempt, cursor, frames: None, reconnect };
        events.connect().await?;
        Ok(events)
    }

    fn call<'a>(&self, path: &'a [&'a str]) -> Call<'a> {
        let call =
            Call::get(path).with("namespace", &self.run.namespace).with("after", self.cursor);
        match self.attempt {
            Some(attempt) => call.with("attempt", attempt),
            None => call,
        }
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        let path = run_events_path(&self.run.name);
        let call = self.call(&path).with("watch", 1);
        self.frames = Some(Frames::new(self.transport.open(call).await?));
        Ok(())
    }

    /// Reads what the stream did not send, and whether the run has ended.
    async fn rest(&mut self) -> Result<RunEvents, ClientError> {
        let path = run_events_path(&self.run.name);
        let rest: RunEvents = self.transport.ask(self.call(&path)).await?;
        self.cursor = rest.events.last().map_or(self.cursor, |last| last.cursor);
        Ok(rest)
    }

    async fn next_events(&mut self) -> Result<Option<Vec<RunEvent>>, ClientError> {
        loop {
            let Some(frames) = &mut self.frames else {
                match self.rest().await {
                    Ok(RunEvents { events, .. }) if !events.is_empty() => return Ok(Some(events)),
                    Ok(RunEvents { ended: true, .. }) => return Ok(None),
                    Ok(_) => {
                        if let Err(error) = self.connect().await {
                            self.reconnect.after(error).await?;
                        }
                    }
                    Err(error) => self.reconnect.after(error).await?,
                }
                continue;
            };
            let Ok(frame) = frames.next().await else {
                self.frames = disconnected().await;
                continue;
            };
            self.reconnect = Reconnect::default();
            self.cursor = frame.id.unwrap_or(self.cursor);
            match frame.name.as_str() {
                "event" => return Ok(Some(vec![parse(&self.transport, &frame.data)?])),
                // What follows is read from the run itself: the end of a stream has many reasons.
                "end" => self.frames = disconnected().await,
                _ => {}
            }
        }
    }
}

impl RunEventStream for HttpRunEvents {
    fn next(&mut self) -> Answer<'_, Option<Vec<RunEvent>>> {
        Box::pin(self.next_events())
    }
}
