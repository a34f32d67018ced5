//! Bodies of requests: read whole, if they are not too long. Those of senders whom nobody knows yet have to
//! fit, all together, into what is set aside for them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
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
    /// How many of them one address may have.
    each: usize,
    /// How many each has.
    shares: Arc<Shares>,
    wait: Duration,
}

type Shares = Mutex<BTreeMap<IpAddr, usize>>;

/// A body, and its part of the room for as long as it is there.
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    pub(crate) held: Option<Part>,
}

/// What the body of one sender takes of the room.
pub(crate) struct Part {
    shares: Arc<Shares>,
    from: IpAddr,
    length: usize,
    bytes: Option<OwnedSemaphorePermit>,
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get_mut(&self.from) {
            *share = share.saturating_sub(self.length);
            if *share == 0 {
                shares.remove(&self.from);
            }
        }
    }
}

impl Room {
    /// So many bytes, and so many for one address; for how long one more is waited for.
    pub(crate) fn new(most: usize, each: usize, wait: Duration) -> Self {
        let bytes = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Self { bytes, each, shares: Arc::default(), wait }
    }

    fn part(&self, from: IpAddr) -> Part {
        Part { shares: Arc::clone(&self.shares), from, length: 0, bytes: None }
    }

    /// Makes a part larger.
    async fn hold(&self, part: &mut Part, length: usize) -> Result<(), Problem> {
        let full = || Problem::busy("too much arrives at once", COME_AGAIN);
        {
            let mut shares = part.shares.lock().unwrap_or_else(PoisonError::into_inner);
            let share = shares.entry(part.from).or_default();
            if share.saturating_add(length) > self.each {
                return Err(full());
            }
            *share += length;
            part.length += length;
        }
        let length = u32::try_from(length).map_err(|_| full())?;
        let more = self.bytes.clone().acquire_many_owned(length);
        let more = tokio::time::timeout(self.wait, more).await;
        let more = more.map_err(|_| full())?.map_err(|_| full())?;
        match &mut part.bytes {
            Some(bytes) => bytes.merge(more),
            None => part.bytes = Some(more),
        }
        Ok(())
    }
}

/// The whole body, if it is not too long. Room is taken for what has arrived, and not for what is announced;
/// nobody alone takes all of it.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    most: usize,
    room: Option<(&Room, IpAddr)>,
) -> Result<Whole, Problem> {
    let said = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if said
        .and_then(|text| text.parse::<u64>().ok())
        .is_some_and(|said| usize::try_from(said).map_or(true, |said| said > most))
    {
        return Err(Problem::too_large(most));
    }
    let Some((room, from)) = room else {
        let bytes = all_at_once(body, most).await?;
        return Ok(Whole { bytes, held: None });
    };
    let mut chunks = body.into_data_stream();
    let mut bytes = BytesMut::new();
    let mut held = room.part(from);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Problem::bad("the body broke off"))?;
        if bytes.len().saturating_add(chunk.len()) > most {
            return Err(Problem::too_large(most));
        }
        room.hold(&mut held, chunk.len()).await?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(Whole { bytes: bytes.freeze(), held: Some(held) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_alone_takes_all_of_the_room() {
        let room = Room::new(1_000, 250, Duration::from_millis(20));
        let at = |last| IpAddr::from([10, 0, 0, last]);
        let mut one = room.part(at(1));
        room.hold(&mut one, 200).await.unwrap();
        let mut more = room.part(at(1));
        assert!(room.hold(&mut more, 100).await.is_err());
        drop(more);
        let mut others: Vec<Part> = (2..6).map(|last| room.part(at(last))).collect();
        for other in &mut others {
            room.hold(other, 200).await.unwrap();
        }
        let mut late = room.part(at(9));
        assert!(room.hold(&mut late, 100).await.is_err(), "all of it is taken");
        drop((others, late));
        let mut more = room.part(at(1));
        room.hold(&mut more, 50).await.unwrap();
        drop((one, more));
        assert!(room.shares.lock().unwrap().is_empty());
    }
}
