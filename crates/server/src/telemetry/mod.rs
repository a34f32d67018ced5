//! Metrics of the server, including the latency of the store.

mod histogram;
mod metrics;
mod run_counts;
mod timed_store;
mod worker_gauges;

pub(crate) use metrics::Metrics;
pub(crate) use run_counts::RunCounts;
pub(crate) use timed_store::TimedStore;
pub(crate) use worker_gauges::write as write_worker_gauges;
