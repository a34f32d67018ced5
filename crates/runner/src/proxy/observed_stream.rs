//! Observes a response: parsed while it is forwarded, reported before each part is forwarded, counted at its
//! end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::Frame;
use serde_json::Value;
use tokio::time::Sleep;

use super::bodies::Framing;
use super::frames::Frames;
use super::model_apis::AnswerReader;
use super::parsed_answer::{ParsedAnswer, Unreadable};
use super::sse::{Events, ReadyEvents};
use super::{ModelApi, ModelResponse, Observer};

/// Parses one response and notifies the observer.
pub(super) struct ObservedAnswer {
    reader: Box<dyn AnswerReader>,
    seen: ParsedAnswer,
    observer: Arc<dyn Observer>,
    agent: Option<String>,
    model: String,
    by_path: bool,
    /// How many bytes were sent to the model.
    sent: u64,
    received: u64,
    reported: bool,
    broke_off: bool,
}

impl ObservedAnswer {
    pub(super) fn new(
        wire: ModelApi,
        observer: Arc<dyn Observer>,
        question: RequestOrigin,
    ) -> Self {
        let RequestOrigin { agent, model, by_path, sent } = question;
        let reader = wire.reader();
        let seen = ParsedAnswer::default();
        Self {
            reader,
            seen,
            observer,
            agent,
            model,
            by_path,
            sent,
            received: 0,
            reported: false,
            broke_off: false,
        }
    }

    pub(super) fn received(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
    }

    /// Parses a response that is not a stream.
    pub(super) fn whole(&mut self, body: &[u8]) -> Result<(), Unreadable> {
        let answer = serde_json::from_slice(body).map_err(|_| Unreadable("it is no JSON"))?;
        self.reader.whole(&answer, &mut self.seen)?;
        self.end()
    }

    /// Parses events of a stream.
    fn events(&mut self, events: Vec<Vec<u8>>) -> Result<(), Unreadable> {
        for data in events {
            let data = data.trim_ascii();
            let event = match data {
                b"" => continue,
                b"[DONE]" => Value::from("[DONE]"),
                data => serde_json::from_slice(data)
                    .map_err(|_| Unreadable("an event of it is no JSON"))?,
            };
            self.reader.event(&event, &mut self.seen)?;
        }
        self.tell();
        if self.seen.ended {
            // Reported before the program can send another request.
            self.report();
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Unreadable> {
        self.reader.end(&mut self.seen)?;
        self.tell();
        match self.seen.ended {
            true => self.report(),
            false => self.report_partial(),
        }
        Ok(())
    }

    fn tell(&mut self) {
        for call in self.seen.unreported_calls() {
            self.observer.on_tool_call(self.agent.as_deref(), call);
        }
    }

    /// Reports the response once.
    fn report(&mut self) {
        if std::mem::replace(&mut self.reported, true) {
            return;
        }
        let mut usage = self.seen.usage(&self.model, self.sent, self.received);
        if self.by_path {
            usage.model.clone_from(&self.model);
        }
        self.observer.on_response(ModelResponse {
            agent: self.agent.take(),
            usage,
            calls: std::mem::take(&mut self.seen.calls),
            text: std::mem::take(&mut self.seen.text),
            complete: self.seen.ended,
            broke_off: self.broke_off,
        });
    }

    /// There was no response, so nothing is charged.
    pub(super) fn dismiss(mut self) {
        if !std::mem::replace(&mut self.reported, true) {
            self.observer.release_request();
        }
    }

    pub(super) fn give_up(&mut self, why: &str) {
        self.observer.on_rejected("an answer of the model", why);
        self.broke_off = true;
        self.report_partial();
    }

    /// A model that fails before its first output is not charged: programs retry.
    fn report_partial(&mut self) {
        if !self.seen.has_begun() && !std::mem::replace(&mut self.reported, true) {
            self.observer.release_request();
        }
        self.report();
    }
}

impl Drop for ObservedAnswer {
    /// The program disconnected, or the proxy stops: the part that arrived is charged.
    fn drop(&mut self) {
        self.report();
    }
}

/// The agent, model and size of the request.
pub(super) struct RequestOrigin {
    pub(super) agent: Option<String>,
    pub(super) model: String,
    /// Whether the URL names the model: then that name determines the price, not the response.
    pub(super) by_path: bool,
    pub(super) sent: u64,
}

type Source = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// A stream of events that is parsed while it is forwarded.
pub(super) struct ObservedStream {
    /// `None` at the end.
    source: Option<Source>,
    events: Split,
    reading: ObservedAnswer,
    /// Why and when the program's connection will be closed.
    breaking: Option<(Pin<Box<Sleep>>, StreamInterrupted)>,
}

/// How long passed-on data has to arrive before the connection is aborted. All data about a call must reach the CLI,
/// whose reaction to it is known.
const ARRIVAL: Duration = Duration::from_millis(100);

/// How a stream is split into events.
enum Split {
    Sse(Events),
    Frames(Frames),
}

impl Split {
    fn push(&mut self, chunk: &[u8]) -> Result<ReadyEvents, Unreadable> {
        match self {
            Self::Sse(events) => events
                .push(chunk)
                .map_err(|_| Unreadable("an event of it is longer than can be kept")),
            Self::Frames(frames) => frames.push(chunk),
        }
    }

    fn end(&mut self) -> Result<ReadyEvents, Unreadable> {
        match self {
            Self::Sse(events) => Ok(events.end()),
            Self::Frames(frames) => frames.end(),
        }
    }
}

/// The stream cannot be continued; the program's connection is closed.
#[derive(Debug, thiserror::Error)]
#[error("the model's response was interrupted: {0}")]
pub(super) struct StreamInterrupted(String);

impl ObservedStream {
    pub(super) fn new(source: Source, framing: Framing, reading: ObservedAnswer) -> Self {
        let events = match framing {
            Framing::Sse => Split::Sse(Events::default()),
            Framing::Frames => Split::Frames(Frames::default()),
        };
        Self { source: Some(source), events, reading, breaking: None }
    }

    /// The part of this chunk that may be forwarded.
    fn chunk(&mut self, chunk: &Bytes) -> Result<Bytes, Unreadable> {
        self.reading.received(chunk.len());
        let ready = self.events.push(chunk)?;
        self.reading.events(ready.data)?;
        Ok(ready.bytes)
    }

    fn rest(&mut self) -> Result<Bytes, Unreadable> {
        let ready = self.events.end()?;
        self.reading.events(ready.data)?;
        self.reading.end()?;
        Ok(ready.bytes)
    }

    fn interrupt(&mut self, why: String) {
        self.source = None;
        self.reading.give_up(&why);
        self.breaking = Some((Box::pin(tokio::time::sleep(ARRIVAL)), StreamInterrupted(why)));
    }
}

impl hyper::body::Body for ObservedStream {
    type Data = Bytes;
    type Error = StreamInterrupted;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamInterrupted>>> {
        let this = self.get_mut();
        while let Some(source) = &mut this.source {
            let bytes = match ready!(source.as_mut().poll_next(context)) {
                Some(Ok(chunk)) => this.chunk(&chunk),
                // The response is complete: how the connection ends does not matter.
                Some(Err(_)) if this.reading.reported => {
                    this.source = None;
                    this.rest()
                }
                Some(Err(error)) => {
                    let why = super::upstream::in_full(&error.without_url());
                    this.interrupt(why);
                    break;
                }
                None => {
                    this.source = None;
                    this.rest()
                }
            };
            match bytes {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Err(Unreadable(why)) => {
                    this.interrupt(why.to_owned());
                }
            }
        }
        if let Some((arrival, _)) = &mut this.breaking {
            ready!(arrival.as_mut().poll(context));
        }
        Poll::Ready(this.breaking.take().map(|(_, broken)| Err(broken)))
    }
}
