//! Metrics of the server, including the latency of the store.

mod histogram;
mod metrics;
mod run_counts;
mod timed_store;

pub(crate) use metrics::Metrics;
pub(crate) use run_counts::RunCounts;
pub(crate) use timed_store::TimedStore;
