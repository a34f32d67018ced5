//! Trigger events, and what rules did with them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EventSource, Fault, Kind, Moment, Resource, SourceRefs, TrustTier};

/// A webhook that was received. Its body is stored separately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookDelivery {
    /// The kind of forge that sent it.
    pub forge: ForgeKind,
    /// The ID that the sender gave it. Another delivery with the same ID is a redelivery.
    pub delivery_id: String,
    /// The event, as the sender names it.
    pub event: String,
    /// The repository whose endpoint received it.
    pub repository: String,
    /// The digest of the body.
    pub payload_digest: String,
    /// The size of the body in bytes.
    pub bytes: u64,
    /// When it was received.
    pub received_at: Moment,
    /// When it happened, by the clock of the forge; known of events that were found by polling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub happened_at: Option<Moment>,
    /// The headers that describe the event. Signatures are not stored.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// The kind of a forge.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ForgeKind {
    /// GitHub.
    Github,
    /// Gitea or Forgejo.
    Gitea,
    /// Any sender that signs with a shared secret.
    Generic,
    /// A local git repository without a server.
    Local,
}

/// The status of a delivery.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WebhookDeliveryStatus {
    /// Whether the rules were evaluated.
    pub evaluated: bool,
    /// The names of the resulting AgentTriggerExecutions.
    pub executions: Vec<String>,
    /// The reason why it could not be evaluated, or why it is postponed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// How often it was delivered again.
    pub redeliveries: u32,
    /// How often its evaluation was postponed because a service did not respond.
    pub tries: u32,
    /// The earliest time of the next try.
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

/// The result of one rule for one event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentTriggerExecution {
    /// The name of the AgentTriggerRule.
    pub trigger_rule: String,
    /// The generation of the rule.
    pub rule_generation: u64,
    /// The source of the event.
    pub source: EventSource,
    /// The ID of the event.
    pub event_uid: String,
    /// The objects that the event is about.
    #[serde(default)]
    pub source_refs: SourceRefs,
    /// The trust tier of the event.
    pub trust_tier: TrustTier,
    /// The decision.
    pub decision: ExecutionDecision,
    /// The reason for the decision.
    pub reason: String,
    /// The fields that matched.
    #[serde(default)]
    pub matched: Vec<String>,
    /// The deduplication key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// The fingerprint of the failure. Reports of the same failure have the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_key: Option<String>,
    /// The name of the earlier execution that this one duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<String>,
    /// The approvals that are needed, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_decision: Option<String>,
    /// The digest of the context bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_bundle_digest: Option<String>,
    /// The digest of the stack and of everything that it refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_digest: Option<String>,
    /// The run that was created or that the event was added to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_run: Option<String>,
    /// The time of the decision.
    pub at: Moment,
}

/// The decision of a rule.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ExecutionDecision {
    /// A run was created.
    Created,
    /// The event was added to an active run.
    Coalesced,
    /// The event was a duplicate.
    Deduplicated,
    /// The event was rejected.
    Rejected,
    /// A run was created and waits for an approval.
    WaitingForApproval,
    /// A work item was created without a run.
    Materialized,
}

/// Executions do not change, so their status is empty.
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
