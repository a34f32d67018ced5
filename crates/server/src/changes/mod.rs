//! Streams of changes: one reader of the change log, and many watchers. Each change is serialized once.

mod frame;
mod hub;
mod run_events;
mod watch;

pub(crate) use frame::Filter;
pub(crate) use hub::{Hub, follow_change_log, store_version};
pub(crate) use run_events::run_events;
pub(crate) use watch::watch;
