//! How many streams may be open: in the whole server, and for one person, so that nobody takes all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;
use crate::telemetry::Metrics;

/// Why a stream is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StreamRefusal {
    #[error("too many streams are open on this server; try again later")]
    Server,
    #[error("you have {0} live pages and streams open, which is the limit; close some of them")]
    Person(usize),
}

impl From<StreamRefusal> for Problem {
    fn from(refusal: StreamRefusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            StreamRefusal::Server => Self::unavailable(message),
            StreamRefusal::Person(_) => Self::too_many(message, RETRY_SECONDS),
        }
    }
}

const RETRY_SECONDS: u64 = 30;

/// The streams that may be open.
#[derive(Debug)]
pub(crate) struct StreamSlots {
    all: Arc<Semaphore>,
    per_person: usize,
    /// How many each person has.
    open: Mutex<HashMap<String, usize>>,
    metrics: Arc<Metrics>,
}

impl StreamSlots {
    pub(crate) fn new(all: usize, per_person: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        let (all, open) = (Arc::new(Semaphore::new(all)), Mutex::default());
        Arc::new(Self { all, per_person, open, metrics })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a stream of this person.
    pub(crate) fn take(self: &Arc<Self>, person: &str) -> Result<StreamSlot, StreamRefusal> {
        let mut open = self.open();
        if open.get(person).copied().unwrap_or_default() >= self.per_person {
            return Err(StreamRefusal::Person(self.per_person));
        }
        let permit = self.all.clone().try_acquire_owned().map_err(|_| StreamRefusal::Server)?;
        *open.entry(person.to_owned()).or_default() += 1;
        self.metrics.stream_opened();
        let (slots, person) = (self.clone(), person.to_owned());
        Ok(StreamSlot { slots, person, _permit: permit })
    }
}

/// A slot for a stream, released on drop.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    slots: Arc<StreamSlots>,
    person: String,
    _permit: OwnedSemaphorePermit,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.slots.metrics.stream_closed();
        let mut open = self.slots.open();
        let Some(count) = open.get_mut(&self.person) else { return };
        *count -= 1;
        if *count == 0 {
            open.remove(&self.person);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_person_are_limited() {
        let slots = StreamSlots::new(5, 2, Arc::default());
        let mut of_ada: Vec<StreamSlot> = (0..2).map(|_| slots.take("ada").unwrap()).collect();
        assert_eq!(slots.take("ada").err(), Some(StreamRefusal::Person(2)));
        let of_others: Vec<StreamSlot> =
            ["ben", "cleo", "dan"].map(|other| slots.take(other).unwrap()).into();
        assert_eq!(slots.take("eve").err(), Some(StreamRefusal::Server));
        of_ada.pop();
        assert!(slots.take("ada").is_ok(), "a closed stream frees its slot");
        drop((of_ada, of_others));
        assert!(slots.open().is_empty(), "nothing is stored about people without streams");
    }
}
