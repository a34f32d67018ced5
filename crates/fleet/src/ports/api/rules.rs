//! Rules: trying them, and changing whether they act.

use bailiwick_resources::{ExecutionDecision, ForgeKind, LifecycleState, TrustTier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PermissionReview;

/// An action on the lifecycle of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LifecycleVerb {
    /// Activates a draft or disabled rule.
    Enable,
    /// Pauses an active rule.
    Pause,
    /// Activates a paused rule.
    Resume,
    /// Disables a rule. It can be enabled again.
    Disable,
    /// Archives a rule. This cannot be undone.
    Archive,
}

impl LifecycleVerb {
    /// All actions.
    pub const ALL: [Self; 5] =
        [Self::Enable, Self::Pause, Self::Resume, Self::Disable, Self::Archive];

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Disable => "disable",
            Self::Archive => "archive",
        }
    }
}

/// An event to test a rule with: a stored delivery or a given payload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RuleSample {
    /// The name of a stored WebhookDelivery. If given, the fields of the payload are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// The event, as the sender names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The kind of forge. If left out, that of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forge: Option<ForgeKind>,
    /// The repository, by the name of its object or as `owner/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The payload of the event.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub payload: Value,
    /// The reason for the audit log. It is only used if something is created.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The result of testing a rule with an event. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleTrial {
    /// Whether the rule matches the event.
    pub matched: bool,
    /// The result for each field of the matcher.
    pub matchers: Vec<MatcherResult>,
    /// The decision that would be made.
    pub decision: ExecutionDecision,
    /// The reason for the decision.
    pub reason: String,
    /// The prompt that the agent would get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered_prompt: Option<String>,
    /// The sources that would be attached: whether each is available, and its maximum size in bytes.
    #[serde(default)]
    pub context_bundle_plan: Value,
    /// The permissions of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_review: Option<PermissionReview>,
    /// The trust tier of the event.
    pub trust_tier: TrustTier,
    /// The reason why the event is not trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrust: Option<String>,
    /// The lifecycle state of the rule. The test treats the rule as active.
    pub lifecycle: String,
    /// The errors in the matcher, if it cannot be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matcher_faults: Vec<String>,
    /// The error in the prompt template, if it cannot be rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_fault: Option<String>,
    /// The deduplication key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// The reason why there is no deduplication key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_fault: Option<String>,
    /// The name of the earlier execution that the event duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<String>,
    /// The concurrency group of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_group: Option<String>,
    /// The decision of the concurrency policy, with the runs that it affects.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub concurrency: Value,
    /// The actions that would be taken, in order.
    pub expected_actions: Vec<String>,
}

/// The result for one field of a matcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatcherResult {
    /// The field, such as `match.branches`.
    pub field: String,
    /// Whether the field matches.
    pub holds: bool,
    /// The expected and the actual value.
    pub why: String,
}

/// A request to change the lifecycle state of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LifecycleRequest {
    /// The action.
    pub action: LifecycleVerb,
    /// The reason for the audit log.
    #[serde(default)]
    pub reason: String,
    /// The expected generation of the rule. If it is another one, the request is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_generation: Option<u64>,
}

/// The lifecycle state after the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleAnswer {
    /// The name of the rule.
    pub rule: String,
    /// The lifecycle state.
    pub lifecycle_state: LifecycleState,
    /// The generation after the change.
    pub generation: u64,
}

/// A request to evaluate a rule again for a stored delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplayRequest {
    /// The name of the WebhookDelivery.
    pub delivery: String,
    /// The reason for the audit log.
    #[serde(default)]
    pub reason: String,
}

/// A request to fire a rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FireRequest {
    /// The repository, by the name of its object or as `owner/name`.
    pub repository: String,
    /// The full ref, such as `refs/heads/main`. If left out, the default branch.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The payload that the templates of the rule can use.
    pub payload: Value,
    /// The reason for the audit log.
    pub reason: String,
    /// An ID for retries: a second request with the same ID does not fire the rule again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The result of a rule for an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionAnswer {
    /// Whether the result was recorded.
    pub accepted: bool,
    /// The name of the AgentTriggerExecution.
    pub execution: String,
    /// The decision.
    pub decision: ExecutionDecision,
    /// The reason for the decision.
    pub reason: String,
    /// The run that was created or that the event was added to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The work item that was created or linked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_item: Option<String>,
}
