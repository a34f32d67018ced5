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
pub(super) const SEATS: usize = 256;
/// Requests to the model, and tunnels, at once: the other seats are for who asks the gate.
const MAX_MODEL_REQUESTS: usize = 160;
/// Connections that stay open between two questions to the gate, whoever comes.
const STAYING: usize = 32;
/// How long a connection may take to say what it is there for.
const FIRST_WORDS: Duration = Duration::from_secs(10);

/// All seats of a proxy.
pub(super) struct Seats {
    taken: Mutex<Vec<Weak<Seat>>>,
    elsewhere: Arc<Semaphore>,
    staying: Arc<Semaphore>,
}

impl Seats {
    pub(super) fn new() -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        let (elsewhere, staying) = (semaphore(MAX_MODEL_REQUESTS), semaphore(STAYING));
        Self { taken: Mutex::default(), elsewhere, staying }
    }

    /// A seat for a connection; it is free again when nobody has it any more.
    pub(super) fn take(&self) -> Arc<Seat> {
        let now = Now {
            doing: Doing::Waits,
            since: Instant::now(),
            asked: false,
            leaves: false,
            stays: None,
        };
        let seat = Arc::new(Seat {
            now: Mutex::new(now),
            leave: Notify::new(),
            elsewhere: Arc::clone(&self.elsewhere),
            staying: Arc::clone(&self.staying),
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
    now: Mutex<Now>,
    leave: Notify,
    elsewhere: Arc<Semaphore>,
    staying: Arc<Semaphore>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    /// It has asked for nothing yet, or has its answer.
    Waits,
    /// It has asked for what is never answered.
    NeverAnswered,
    /// It has asked.
    Asks,
}

struct Now {
    doing: Doing,
    since: Instant,
    /// Whether it has ever asked.
    asked: bool,
    leaves: bool,
    /// Its right to stay.
    stays: Option<OwnedSemaphorePermit>,
}

impl Now {
    /// How dispensable it is: the less, the later.
    fn dispensable(&self) -> Option<(Doing, Instant)> {
        let waits = match self.doing {
            Doing::Waits => self.stays.is_none(),
            Doing::NeverAnswered => true,
            Doing::Asks => false,
        };
        (waits && !self.leaves).then_some((self.doing, self.since))
    }
}

impl Seat {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn does(&self, doing: Doing) {
        let mut now = self.now();
        (now.doing, now.since) = (doing, Instant::now());
    }

    /// It asks for something, until the turn is over.
    pub(super) fn turn(self: &Arc<Self>) -> Turn {
        self.does(Doing::Asks);
        self.now().asked = true;
        Turn { seat: Arc::clone(self), elsewhere: None }
    }

    /// Whether it would lose nothing by its end.
    pub(super) fn waits(&self) -> bool {
        self.now().doing != Doing::Asks
    }

    /// Waits until it has to leave: another one needs the seat, or it has not said what it is there for.
    pub(super) async fn told_to_leave(&self) {
        let silent = async {
            tokio::time::sleep(FIRST_WORDS).await;
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
    elsewhere: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// It is not for the gate; false if too many others are not, either.
    pub(super) fn is_elsewhere(&mut self) -> bool {
        if self.elsewhere.is_none() {
            self.elsewhere = Arc::clone(&self.seat.elsewhere).try_acquire_owned().ok();
        }
        self.elsewhere.is_some()
    }

    /// It is for the gate; whether its connection may stay open for the next one.
    pub(super) fn stays(&self) -> bool {
        let mut now = self.seat.now();
        if now.stays.is_none() {
            now.stays = Arc::clone(&self.seat.staying).try_acquire_owned().ok();
        }
        now.stays.is_some()
    }

    /// There will be no answer.
    pub(super) fn mark_never_answered(&self) {
        self.seat.does(Doing::NeverAnswered);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.seat.does(Doing::Waits);
    }
}

/// An answer: its turn is over when it has gone out.
pub(super) struct Answer {
    body: Body,
    _turn: Option<Turn>,
}

impl Answer {
    pub(super) fn new(body: Body, turn: Option<Turn>) -> Self {
        Self { body, _turn: turn }
    }
}

impl hyper::body::Body for Answer {
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
