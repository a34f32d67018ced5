//! Bodies of requests: read whole, if they are not too long. Those of senders whom nobody knows yet have to
//! fit, all together, into what is set aside for them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use hyper::HeaderMap;
use hyper::header::CONTENT_LENGTH;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;

/// When a sender that found no room comes again, in seconds.
const COME_AGAIN: u64 = 5;

/// What is set aside for the bodies of senders whom nobody knows.
pub(crate) struct Room {
    bytes: Arc<Semaphore>,
    wait: Duration,
}

/// A body, and its part of the room for as long as it is there.
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    pub(crate) held: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// So many bytes; for how long one more is waited for.
    pub(crate) fn new(most: usize, wait: Duration) -> Self {
        Self { bytes: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), wait }
    }

    async fn hold(&self, length: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let full = || Problem::busy("too much arrives at once", COME_AGAIN);
        let length = u32::try_from(length).map_err(|_| full())?;
        let held = self.bytes.clone().acquire_many_owned(length);
        tokio::time::timeout(self.wait, held).await.map_err(|_| full())?.map_err(|_| full())
    }
}

/// The whole body, if it is not too long. Room is taken for what has arrived, and not for what is announced:
/// whoever only announces much keeps nobody else out.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    most: usize,
    room: Option<&Room>,
) -> Result<Whole, Problem> {
    let said = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if said
        .and_then(|text| text.parse::<u64>().ok())
        .is_some_and(|said| usize::try_from(said).map_or(true, |said| said > most))
    {
        return Err(Problem::too_large(most));
    }
    let Some(room) = room else {
        let bytes = all_at_once(body, most).await?;
        return Ok(Whole { bytes, held: None });
    };
    let mut chunks = body.into_data_stream();
    let mut bytes = BytesMut::new();
    let mut held: Option<OwnedSemaphorePermit> = None;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Problem::bad("the body broke off"))?;
        if bytes.len().saturating_add(chunk.len()) > most {
            return Err(Problem::too_large(most));
        }
        let more = room.hold(chunk.len()).await?;
        match &mut held {
            Some(held) => held.merge(more),
            None => held = Some(more),
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Whole { bytes: bytes.freeze(), held })
}

async fn all_at_once(body: Body, most: usize) -> Result<Bytes, Problem> {
    // One more than may be: so that too long and broken off are told apart.
    let bytes = to_bytes(body, most.saturating_add(1)).await;
    match bytes {
        Ok(bytes) if bytes.len() <= most => Ok(bytes),
        Ok(_) => Err(Problem::too_large(most)),
        Err(error) if is_too_long(&error) => Err(Problem::too_large(most)),
        Err(_) => Err(Problem::bad("the body broke off")),
    }
}

fn is_too_long(error: &axum::Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.to_string().contains("length limit"))
}
