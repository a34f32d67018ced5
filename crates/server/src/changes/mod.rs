//! Changes as streams: one reader of the log, each change written once, any number of watchers.

mod frame;
mod hub;
mod run_events;
mod watch;

pub(crate) use frame::Filter;
pub(crate) use hub::{Hub, follow, store_version};
pub(crate) use run_events::run_events;
pub(crate) use watch::watch;
