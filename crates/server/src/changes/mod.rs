//! Streams of changes: one reader of the change log, and many watchers. Each change is serialized once.

mod run_events;
mod watch;

pub(crate) use run_events::run_events;
pub(crate) use watch::watch;
