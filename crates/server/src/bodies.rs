//! Reads the bodies of requests, up to a limit. The bodies of unauthenticated clients share a memory budget.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use hyper::HeaderMap;
use hyper::header::CONTENT_LENGTH;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;

const RETRY_AFTER_SECONDS: u64 = 5;

/// From this size on a body has a buffer of its own.
const LARGE_BODY: usize = 1024 * 1024;
/// The capacity of such a buffer. The allocator of glibc returns the memory of buffers above 32 MiB to the system as soon
/// as they are dropped, and keeps smaller ones; pages that are not written take no memory.
const LARGE_CAPACITY: usize = 33 * 1024 * 1024;

/// A copy of a body whose memory is returned to the system after use.
pub(crate) fn copy(bytes: &[u8]) -> Vec<u8> {
    let capacity = if bytes.len() < LARGE_BODY { bytes.len() } else { LARGE_CAPACITY };
    let mut copy = Vec::with_capacity(capacity.max(bytes.len()));
    copy.extend_from_slice(bytes);
    copy
}

/// The memory for the bodies of unauthenticated clients.
pub(crate) struct BodyBudget {
    bytes: Arc<Semaphore>,
    /// The limit of one address.
    per_address: usize,
    /// The bytes that each address uses.
    shares: Arc<Shares>,
    timeout: Duration,
}

type Shares = Mutex<BTreeMap<IpAddr, usize>>;

/// A body with its reservation.
pub(crate) struct ReadBody {
    pub(crate) bytes: Bytes,
    pub(crate) reservation: Option<BodyReservation>,
}

/// The part of the budget that one body uses, until it is dropped.
pub(crate) struct BodyReservation {
    shares: Arc<Shares>,
    from: IpAddr,
    length: usize,
    bytes: Option<OwnedSemaphorePermit>,
}

impl Drop for BodyReservation {
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

impl BodyBudget {
    /// `timeout` limits how long a body waits for memory.
    pub(crate) fn new(max_bytes: usize, per_address: usize, timeout: Duration) -> Self {
        let bytes = Arc::new(Semaphore::new(max_bytes.min(Semaphore::MAX_PERMITS)));
        Self { bytes, per_address, shares: Arc::default(), timeout }
    }

    fn reservation(&self, from: IpAddr) -> BodyReservation {
        BodyReservation { shares: Arc::clone(&self.shares), from, length: 0, bytes: None }
    }

    /// Enlarges a reservation.
    async fn reserve(
        &self,
        reservation: &mut BodyReservation,
        length: usize,
    ) -> Result<(), Problem> {
        let full =
            || Problem::busy("too much data is being received; try again", RETRY_AFTER_SECONDS);
        {
            let mut shares = reservation.shares.lock().unwrap_or_else(PoisonError::into_inner);
            let share = shares.entry(reservation.from).or_default();
            if share.saturating_add(length) > self.per_address {
                return Err(full());
            }
            *share += length;
            reservation.length += length;
        }
        let length = u32::try_from(length).map_err(|_| full())?;
        let more = self.bytes.clone().acquire_many_owned(length);
        let more = tokio::time::timeout(self.timeout, more).await;
        let more = more.map_err(|_| full())?.map_err(|_| full())?;
        match &mut reservation.bytes {
            Some(bytes) => bytes.merge(more),
            None => reservation.bytes = Some(more),
        }
        Ok(())
    }
}

/// Reads a whole body of at most `max_bytes`. A budget is charged for received bytes, not for announced ones.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    max_bytes: usize,
    budget: Option<(&BodyBudget, IpAddr)>,
) -> Result<ReadBody, Problem> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let announced = announced.and_then(|text| text.parse::<u64>().ok());
    if announced
        .is_some_and(|length| usize::try_from(length).map_or(true, |length| length > max_bytes))
    {
        return Err(Problem::too_large(max_bytes));
    }
    let mut reservation = budget.map(|(budget, from)| (budget, budget.reservation(from)));
    let mut chunks = body.into_data_stream();
    let mut bytes = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Problem::bad_request("the body is incomplete"))?;
        if bytes.len().saturating_add(chunk.len()) > max_bytes {
            return Err(Problem::too_large(max_bytes));
        }
        if let Some((budget, reservation)) = &mut reservation {
            budget.reserve(reservation, chunk.len()).await?;
        }
        let length = bytes.len() + chunk.len();
        if length >= LARGE_BODY && bytes.capacity() < LARGE_CAPACITY {
            let mut larger = BytesMut::with_capacity(LARGE_CAPACITY);
            larger.extend_from_slice(&bytes);
            bytes = larger;
        }
        bytes.extend_from_slice(&chunk);
    }
    let reservation = reservation.map(|(_, reservation)| reservation);
    Ok(ReadBody { bytes: bytes.freeze(), reservation })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_address_cannot_use_the_whole_budget() {
        let budget = BodyBudget::new(1_000, 250, Duration::from_millis(20));
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let mut first = budget.reservation(address(1));
        budget.reserve(&mut first, 200).await.unwrap();
        let mut more = budget.reservation(address(1));
        assert!(budget.reserve(&mut more, 100).await.is_err());
        drop(more);
        let mut others: Vec<BodyReservation> =
            (2..6).map(|last| budget.reservation(address(last))).collect();
        for other in &mut others {
            budget.reserve(other, 200).await.unwrap();
        }
        let mut over_budget = budget.reservation(address(9));
        assert!(budget.reserve(&mut over_budget, 100).await.is_err(), "the budget is used up");
        drop((others, over_budget));
        let mut more = budget.reservation(address(1));
        budget.reserve(&mut more, 50).await.unwrap();
        drop((first, more));
        assert!(budget.shares.lock().unwrap().is_empty());
    }
}
