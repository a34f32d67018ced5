//! An event that counts.

use bailiwick_resources::Moment;

use crate::event::Event;

/// An event that counts, with what the forge says about its comment.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    pub comment: u64,
    pub author: String,
    pub at: Moment,
    pub event: Event,
    /// The first line of what the comment says was done.
    pub action: String,
}

/// The run that an invocation is of: another part tells its attempts apart.
pub(crate) fn run_of(invocation: &str) -> &str {
    invocation.split_once('/').map_or(invocation, |(run, _)| run)
}
