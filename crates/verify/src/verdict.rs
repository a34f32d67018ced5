//! The verdict of a check: passed, with the evidence, or failed, with the reason.

use serde::{Deserialize, Serialize};

/// The result of one check on one tree. A check that could not run has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// The check passed.
    Pass {
        /// What was measured, in one sentence.
        evidence: String,
    },
    /// The check failed, or could not be measured.
    Fail {
        /// Why, in one sentence.
        reason: String,
        /// What a person needs to fix it: paths, the end of an output.
        detail: Option<String>,
    },
}

impl Verdict {
    /// A passed check.
    pub fn pass(evidence: impl Into<String>) -> Self {
        Self::Pass { evidence: evidence.into() }
    }

    /// A failed check.
    pub fn fail(reason: impl Into<String>) -> Self {
        Self::Fail { reason: reason.into(), detail: None }
    }

    /// A failed check, with what to look at.
    pub fn fail_with(reason: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Fail { reason: reason.into(), detail: Some(detail.into()) }
    }

    /// Whether the check passed.
    pub fn is_pass(&self) -> bool {
        match self {
            Self::Pass { .. } => true,
            Self::Fail { .. } => false,
        }
    }
}
