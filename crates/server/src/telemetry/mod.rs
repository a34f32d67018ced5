//! What the server tells about itself: figures, and how long the store takes.

mod histogram;
mod metrics;
mod tally;
mod timed;

pub(crate) use metrics::Metrics;
pub(crate) use tally::Tally;
pub(crate) use timed::Timed;
