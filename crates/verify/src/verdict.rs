//! What a check found: it holds, with the evidence, or it does not, with the reason.

use serde::{Deserialize, Serialize};

/// The outcome of one check on one tree. A check that could not run has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// It holds.
    Pass {
        /// What was measured, in one sentence.
        evidence: String,
    },
    /// It does not hold, or could not be measured.
    Fail {
        /// Why, in one sentence.
        reason: String,
        /// What a person needs to mend it: paths, the end of an output.
        detail: Option<String>,
    },
}

impl Verdict {
    /// It holds.
    pub fn pass(evidence: impl Into<String>) -> Self {
        Self::Pass { evidence: evidence.into() }
    }

    /// It does not.
    pub fn fail(reason: impl Into<String>) -> Self {
        Self::Fail { reason: reason.into(), detail: None }
    }

    /// It does not, and this is what to look at.
    pub fn fail_with(reason: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Fail { reason: reason.into(), detail: Some(detail.into()) }
    }

    /// Whether it holds.
    pub fn holds(&self) -> bool {
        match self {
            Self::Pass { .. } => true,
            Self::Fail { .. } => false,
        }
    }
}
