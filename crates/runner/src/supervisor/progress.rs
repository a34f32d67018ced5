//! Usage, budget and session of an attempt at one moment.

use bailiwick_model::attempt::{Allowance, Used};
use serde::{Deserialize, Serialize};

/// Usage, budget and session of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Usage, including earlier attempts.
    pub used: Used,
    /// Elapsed milliseconds, including earlier attempts.
    pub time: u64,
    /// The budget.
    pub budget: Allowance,
    /// The program's id of the conversation.
    pub session: Option<String>,
    /// The model, by the name that it reports.
    pub model: String,
}
