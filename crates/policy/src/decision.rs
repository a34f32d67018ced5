//! The decision about a call: never just yes or no.

use bailiwick_model::capability::GateSeverity;
use bailiwick_model::role::EscalationPolicy;
use serde::{Deserialize, Serialize};

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Whether it may run.
    pub outcome: Outcome,
    /// The objection that decided; none if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<Objection>,
    /// Objections that do not stop it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// What the call does not show, and the sandbox enforces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_to_sandbox: Vec<String>,
    /// The escalation after a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<EscalationPolicy>,
}

/// Whether a call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It runs.
    Allow,
    /// A person must approve it.
    Ask,
    /// It does not run.
    Deny,
}

/// Why a call should not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objection {
    /// The capability, or the part of the role, that objects.
    pub rule: String,
    /// Why, in one sentence.
    pub reason: String,
    /// What the agent can do instead.
    pub instead: String,
}

/// An objection that does not stop the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// Whether the agent receives the objection, or only the log.
    pub severity: GateSeverity,
    /// The objection.
    pub objection: Objection,
}

impl Objection {
    /// An objection of this rule.
    pub fn new(
        rule: impl Into<String>,
        reason: impl Into<String>,
        instead: impl Into<String>,
    ) -> Self {
        Self { rule: rule.into(), reason: reason.into(), instead: instead.into() }
    }

    /// The text for the agent.
    pub fn sentence(&self) -> String {
        format!("{}: {} Instead: {}", self.rule, full_stop(&self.reason), full_stop(&self.instead))
    }
}

fn full_stop(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

impl Decision {
    /// Nothing objects.
    pub fn allow() -> Self {
        Self {
            outcome: Outcome::Allow,
            because: None,
            warnings: Vec::new(),
            left_to_sandbox: Vec::new(),
            escalation: None,
        }
    }

    /// It does not run.
    pub fn deny(because: Objection) -> Self {
        Self { outcome: Outcome::Deny, because: Some(because), ..Self::allow() }
    }

    /// The denial of a call that could not be decided.
    pub fn undecidable(reason: impl Into<String>) -> Self {
        Self::deny(Objection::new(
            "bailiwick::input",
            reason,
            "nothing can run until this is fixed; tell the person who started you",
        ))
    }

    /// The message for an agent that was denied, with the escalation.
    pub fn message(&self) -> String {
        let because = self.because.as_ref().map(Objection::sentence).unwrap_or_default();
        let escalation = match self.escalation {
            None | Some(EscalationPolicy::AskViaReturn) => "",
            Some(EscalationPolicy::OrchestratorNotify) => " The orchestrator has been notified.",
            Some(EscalationPolicy::FailFast) => " This role ends its run at the first denial.",
        };
        format!("{because}{escalation}")
    }
}
