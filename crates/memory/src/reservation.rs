//! Tokens of an issue that a run has been given and may still use. They are in the table of claims, so that of two
//! machines that start a run at once, the second sees what the first one was given.

use bailiwick_resources::Moment;
use serde::{Deserialize, Serialize};

/// Tokens that one invocation may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    pub issue: u64,
    pub agent: String,
    pub invocation: String,
    pub tokens: u64,
    pub reserved_at: Moment,
    /// From then on others may use the tokens: the machine that had the run is lost.
    pub reserved_until: Moment,
}

/// A reservation that was given back, with the comment that did it and its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenBack {
    pub(crate) comment: u64,
    pub(crate) at: Moment,
    pub(crate) reservation: Reservation,
}

/// What an invocation wants to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationRequest {
    pub issue: u64,
    pub agent: String,
    pub invocation: String,
    /// As many as there are, without a limit of its own.
    pub tokens: Option<u64>,
    pub lease_ms: u64,
}
