//! An entry of a review.

use bailiwick_resources::Reason;
use serde::{Deserialize, Serialize};

use super::Decision;

/// The decision about one requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EntryDecision {
    /// It may be used.
    Allowed,
    /// It needs an approval.
    RequiresApproval,
    /// It may not be used.
    Denied,
    /// Nothing permits it.
    MissingGrant,
    /// The grant is out of date.
    StaleGrant,
    /// The platform's object is not what it should be.
    DriftedNativeObject,
}

impl EntryDecision {
    /// Its effect on the whole review.
    pub fn weight(self) -> Decision {
        match self {
            Self::Allowed => Decision::Allowed,
            Self::RequiresApproval => Decision::RequiresApproval,
            Self::Denied | Self::MissingGrant | Self::StaleGrant | Self::DriftedNativeObject => {
                Decision::Denied
            }
        }
    }
}

/// The level of a grant, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantLevel {
    /// Of the identity itself.
    Subject,
    Stack,
    /// Of a tool profile, a skill or an MCP server.
    Capability,
    /// Of a team, a group, a person or a pool.
    Team,
}

/// How grave a reason is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// So it should be.
    Info,
    /// It deserves a look.
    Warning,
    /// It stops everything.
    Error,
}

/// Why, for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewReason {
    /// How grave it is.
    pub severity: Severity,
    /// A stable code.
    pub code: Reason,
    pub about: String,
    /// A sentence.
    pub message: String,
}

/// The decision about one requirement, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    pub decision: EntryDecision,
    pub why: ReviewReason,
    /// The grant that permits it, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// The digest of that grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_digest: Option<String>,
    /// The level of the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<GrantLevel>,
    /// Grants for it that do not apply here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<String>,
}

impl Entry {
    /// It may be used.
    pub fn allowed(code: Reason, about: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(EntryDecision::Allowed, code, about, message)
    }

    pub fn new(
        decision: EntryDecision,
        code: Reason,
        about: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let severity = match decision.weight() {
            Decision::Allowed => Severity::Info,
            Decision::RequiresApproval => Severity::Warning,
            Decision::Denied => Severity::Error,
        };
        let why = ReviewReason { severity, code, about: about.into(), message: message.into() };
        Self { decision, why, grant: None, grant_digest: None, level: None, invalid: Vec::new() }
    }

    /// Whether it stops everything.
    pub fn is_denied(&self) -> bool {
        self.decision.weight() == Decision::Denied
    }
}
