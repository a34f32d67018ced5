//! Streams of changes: one reader of the change log, and many watchers. Each change is serialized once.

mod run_events;
mod stream_slots;
mod watch;

pub(crate) use run_events::run_events;
pub use stream_slots::StreamRefusal;
pub(crate) use stream_slots::{StreamSlot, StreamSlots};
pub(crate) use watch::watch;
