//! Connection limits: idle connections are closed for new ones, and requests to the gate always find a slot.
//!
//! An agent can open any number of connections to the address where its own CLI asks the gate. A question to the
//! gate without an answer would be lost, and some CLIs treat that as permission.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::bodies::{Body, BodyError};

/// The maximum number of connections. If it is reached, the connection that has been idle longest is closed.
pub(super) const MAX_CONNECTIONS: usize = 256;
/// The maximum number of concurrent model requests and tunnels; the other slots are for the gate.
const MAX_MODEL_REQUESTS: usize = 160;
/// Connections that stay open between two questions to the gate.
const MAX_KEPT_OPEN: usize = 32;
/// How long a connection may take to send its first request.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The connections of a proxy.
pub(super) struct Connections {
    taken: Mutex<Vec<Weak<Connection>>>,
    model_slots: Arc<Semaphore>,
    kept_open: Arc<Semaphore>,
}

impl Connections {
    pub(super) fn new() -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        let (model_slots, kept_open) = (semaphore(MAX_MODEL_REQUESTS), semaphore(MAX_KEPT_OPEN));
        Self { taken: Mutex::default(), model_slots, kept_open }
    }

    /// Registers a connection; it is removed when the last handle is dropped.
    pub(super) fn take(&self) -> Arc<Connection> {
        let now = ConnectionRecord {
            state: ConnectionState::Idle,
            since: Instant::now(),
            asked: false,
            leaves: false,
            stays: None,
        };
        let seat = Arc::new(Connection {
            now: Mutex::new(now),
            leave: Notify::new(),
            model_slots: Arc::clone(&self.model_slots),
            kept_open: Arc::clone(&self.kept_open),
        });
        let mut seats = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        seats.retain(|one| one.strong_count() > 0);
        seats.push(Arc::downgrade(&seat));
        seat
    }

    /// Closes the connection that has been idle longest.
    pub(super) fn make_room(&self) {
        let seats = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all = seats.iter().filter_map(Weak::upgrade);
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

/// One connection.
pub(super) struct Connection {
    now: Mutex<ConnectionRecord>,
    leave: Notify,
    model_slots: Arc<Semaphore>,
    kept_open: Arc<Semaphore>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionState {
    /// No request, or the response is complete.
    Idle,
    /// The request never gets a response.
    NeverAnswered,
    /// A request is in progress.
    Requesting,
}

struct ConnectionRecord {
    state: ConnectionState,
    since: Instant,
    /// Whether it has sent a request.
    asked: bool,
    leaves: bool,
    /// The permit that keeps it open.
    stays: Option<OwnedSemaphorePermit>,
}

impl ConnectionRecord {
    /// The order in which connections are closed.
    fn dispensable(&self) -> Option<(ConnectionState, Instant)> {
        let waits = match self.state {
            ConnectionState::Idle => self.stays.is_none(),
            ConnectionState::NeverAnswered => true,
            ConnectionState::Requesting => false,
        };
        (waits && !self.leaves).then_some((self.state, self.since))
    }
}

impl Connection {
    fn now(&self) -> MutexGuard<'_, ConnectionRecord> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, state: ConnectionState) {
        let mut now = self.now();
        (now.state, now.since) = (state, Instant::now());
    }

    /// Marks a request as active until the returned value is dropped.
    pub(super) fn turn(self: &Arc<Self>) -> ActiveRequest {
        self.set_state(ConnectionState::Requesting);
        self.now().asked = true;
        ActiveRequest { seat: Arc::clone(self), model_slots: None }
    }

    /// Whether closing it loses no request.
    pub(super) fn waits(&self) -> bool {
        self.now().state != ConnectionState::Requesting
    }

    /// Waits until it must close: another connection needs the slot, or no request arrived in time.
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

/// A request, from its head to the end of its response.
pub(super) struct ActiveRequest {
    seat: Arc<Connection>,
    model_slots: Option<OwnedSemaphorePermit>,
}

impl ActiveRequest {
    /// Marks it as a model request; false if there are too many.
    pub(super) fn acquire_model_slot(&mut self) -> bool {
        if self.model_slots.is_none() {
            self.model_slots = Arc::clone(&self.seat.model_slots).try_acquire_owned().ok();
        }
        self.model_slots.is_some()
    }

    /// Marks it as a gate request; returns whether its connection may stay open.
    pub(super) fn may_stay_open(&self) -> bool {
        let mut now = self.seat.now();
        if now.stays.is_none() {
            now.stays = Arc::clone(&self.seat.kept_open).try_acquire_owned().ok();
        }
        now.stays.is_some()
    }

    /// Marks it as a request without a response.
    pub(super) fn mark_never_answered(&self) {
        self.seat.set_state(ConnectionState::NeverAnswered);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.seat.set_state(ConnectionState::Idle);
    }
}

/// A response; the request ends when it has been sent.
pub(super) struct ResponseBody {
    body: Body,
    _turn: Option<ActiveRequest>,
}

impl ResponseBody {
    pub(super) fn new(body: Body, turn: Option<ActiveRequest>) -> Self {
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
