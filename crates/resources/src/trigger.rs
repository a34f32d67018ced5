//! What came in, and what rules did with it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EventSource, Fault, Kind, Moment, Resource, SourceRefs, TrustTier};

/// A webhook as it came in; its bytes are kept beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookDelivery {
    /// Whose language it speaks.
    pub forge: ForgeKind,
    /// The id that its sender gave it; a second one of the same id is the same.
    pub delivery_id: String,
    /// The event, as its sender names it.
    pub event: String,
    /// The repository whose endpoint it came to.
    pub repository: String,
    /// The digest of its bytes.
    pub payload_digest: String,
    /// How many bytes.
    pub bytes: u64,
    /// When it came.
    pub received_at: Moment,
    /// Headers that say what it is; never signatures.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// Whose language a webhook speaks.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ForgeKind {
    /// GitHub.
    Github,
    /// Gitea or Forgejo.
    Gitea,
    /// Anybody who signs with a shared secret.
    Generic,
    /// This machine's own git, with no server.
    Local,
}

/// What is known of a delivery.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WebhookDeliveryStatus {
    /// Whether rules have looked at it.
    pub evaluated: bool,
    /// What they did.
    pub executions: Vec<String>,
    /// Why nothing could be done with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// How often it came.
    pub redeliveries: u32,
    /// How often it could not be looked at because somebody did not answer.
    pub tries: u32,
    /// When it is looked at again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Moment>,
}

impl Resource for WebhookDelivery {
    const KIND: Kind = Kind::WebhookDelivery;
    type Status = WebhookDeliveryStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// What a rule did with an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentTriggerExecution {
    /// The rule.
    pub trigger_rule: String,
    /// Its generation.
    pub rule_generation: u64,
    /// The event: its source.
    pub source: EventSource,
    /// The event: its id.
    pub event_uid: String,
    /// What it was about.
    #[serde(default)]
    pub source_refs: SourceRefs,
    /// How much it was trusted.
    pub trust_tier: TrustTier,
    /// What was done.
    pub decision: ExecutionDecision,
    /// Why.
    pub reason: String,
    /// What made it match.
    #[serde(default)]
    pub matched: Vec<String>,
    /// What makes it the same as others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// The fingerprint under which all reports of one failure are found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_key: Option<String>,
    /// The execution that it is the same as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<String>,
    /// Whether a person was to be asked, and for what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_decision: Option<String>,
    /// The digest of what the agent was given to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_bundle_digest: Option<String>,
    /// The digest of the stack, with all that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_digest: Option<String>,
    /// The run that was made or joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_run: Option<String>,
    /// When.
    pub at: Moment,
}

/// What a rule did.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ExecutionDecision {
    /// A run was made.
    Created,
    /// It joined a run.
    Coalesced,
    /// It was the same as an earlier one.
    Deduplicated,
    /// It was refused.
    Rejected,
    /// A run was made that waits for a person.
    WaitingForApproval,
    /// A work item was made without a run.
    Materialized,
}

/// Executions do not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentTriggerExecutionStatus {}

impl Resource for AgentTriggerExecution {
    const KIND: Kind = Kind::AgentTriggerExecution;
    type Status = AgentTriggerExecutionStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
