//! The result of one check on one tree.

use bailiwick_verify::{Pass, Verdict};
use serde::Serialize;

/// The result of one check on one tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    /// The capability.
    pub capability: String,
    /// The tree.
    pub pass: Pass,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Whether the verdict was reused, because the same tree was checked with the same parameters before.
    pub reused: bool,
}
