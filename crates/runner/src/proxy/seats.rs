//! Seats for connections: who asks for nothing gives way to who comes, and who asks the gate always finds
//! one.
//!
//! An agent can open as many connections as it likes, to the address where its own program asks the gate.
//! A question that gets no answer would be lost, and some programs take that for a yes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::bodies::{Body, BodyError};

/// All seats. If they are taken, who waits longest without a request gives up theirs.
pub(super) const MAX_CONNECTIONS: usize = 256;
/// Requests to the model, and tunnels, at once: the other seats are for who asks the gate.
const MAX_MODEL_REQUESTS: usize = 160;
/// Connections that stay open between two questions to the gate.
const MAX_KEPT_OPEN: usize = 32;
/// How long a connection may take to say what it is there for.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// All seats of a proxy.
pub(super) struct Seats {
    taken: Mutex<Vec<Weak<Seat>>>,
    model_slots: Arc<Semaphore>,
    kept_open: Arc<Semaphore>,
}

impl Seats {
    pub(super) fn new() -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        let (model_slots, kept_open) = (semaphore(MAX_MODEL_REQUESTS), semaphore(MAX_KEPT_OPEN));
        Self { taken: Mutex::default(), model_slots, kept_open }
    }

    /// A seat for a connection; it is free again when nobody has it any more.
    pub(super) fn take(&self) -> Arc<Seat> {
        let now = SeatState {
            state: ConnectionState::Idle,
            since: Instant::now(),
            asked: false,
            leaves: false,
            stays: None,
        };
        let seat = Arc::new(Seat {
            now: Mutex::new(now),
            leave: Notify::new(),
            model_slots: Arc::clone(&self.model_slots),
            kept_open: Arc::clone(&self.kept_open),
        });
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|one| one.strong_count() > 0);
        taken.push(Arc::downgrade(&seat));
        seat
    }

    /// Tells one to leave that asks for nothing: the one that has waited longest.
    pub(super) fn make_room(&self) {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all = taken.iter().filter_map(Weak::upgrade);
        let dispensable = all.filter_map(|seat| {
            let since = seat.now().dispensable()?;
            Some((since, seat))
        });
        if let Some((_, seat)) = dispensable.min_by_key(|(since, _)| *since) {
            seat.now().leaves = true;
            seat.leave.notify_one();
        }
    }
}

/// The seat of one connection.
pub(super) struct Seat {
    now: Mutex<SeatState>,
    leave: Notify,
    model_slots: Arc<Semaphore>,
    kept_open: Arc<Semaphore>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionState {
    /// It has asked for nothing yet, or has its answer.
    Idle,
    /// It has asked for what is never answered.
    NeverAnswered,
    /// It has asked.
    Requesting,
}

struct SeatState {
    state: ConnectionState,
    since: Instant,
    /// Whether it has ever asked.
    asked: bool,
    leaves: bool,
    /// Its right to stay.
    stays: Option<OwnedSemaphorePermit>,
}

impl SeatState {
    /// How dispensable it is: the less, the later.
    fn dispensable(&self) -> Option<(ConnectionState, Instant)> {
        let waits = match self.state {
            ConnectionState::Idle => self.stays.is_none(),
            ConnectionState::NeverAnswered => true,
            ConnectionState::Requesting => false,
        };
        (waits && !self.leaves).then_some((self.state, self.since))
    }
}

impl Seat {
    fn now(&self) -> MutexGuard<'_, SeatState> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, state: ConnectionState) {
        let mut now = self.now();
        (now.state, now.since) = (state, Instant::now());
    }

    /// It asks for something, until the turn is over.
    pub(super) fn turn(self: &Arc<Self>) -> Turn {
        self.set_state(ConnectionState::Requesting);
        self.now().asked = true;
        Turn { seat: Arc::clone(self), model_slots: None }
    }

    /// Whether it would lose nothing by its end.
    pub(super) fn waits(&self) -> bool {
        self.now().state != ConnectionState::Requesting
    }

    /// Waits until it has to leave: another one needs the seat, or it has not said what it is there for.
    pub(super) async fn must_leave(&self) {
        let silent = async {
            tokio::time::sleep(FIRST_REQUEST_TIMEOUT).await;
            if self.now().asked {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.leave.notified() => {}
            () = silent => {}
        }
    }
}

/// A request, from its head to the end of its answer.
pub(super) struct Turn {
    seat: Arc<Seat>,
    model_slots: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// It is not for the gate; false if too many others are not, either.
    pub(super) fn acquire_model_slot(&mut self) -> bool {
        if self.model_slots.is_none() {
            self.model_slots = Arc::clone(&self.seat.model_slots).try_acquire_owned().ok();
        }
        self.model_slots.is_some()
    }

    /// It is for the gate; whether its connection may stay open for the next one.
    pub(super) fn stays(&self) -> bool {
        let mut now = self.seat.now();
        if now.stays.is_none() {
            now.stays = Arc::clone(&self.seat.kept_open).try_acquire_owned().ok();
        }
        now.stays.is_some()
    }

    /// There will be no answer.
    pub(super) fn mark_never_answered(&self) {
        self.seat.set_state(ConnectionState::NeverAnswered);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.seat.set_state(ConnectionState::Idle);
    }
}

/// An answer: its turn is over when it has gone out.
pub(super) struct ResponseBody {
    body: Body,
    _turn: Option<Turn>,
}

impl ResponseBody {
    pub(super) fn new(body: Body, turn: Option<Turn>) -> Self {
        Self { body, _turn: turn }
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
