//! Rules: trying them, and changing whether they act.

use bailiwick_resources::{ExecutionDecision, ForgeKind, LifecycleState, TrustTier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PermissionReview;

/// What a person does to a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LifecycleVerb {
    /// A draft or a disabled rule goes to work.
    Enable,
    /// It stops for now.
    Pause,
    /// It goes on.
    Resume,
    /// It stops.
    Disable,
    /// It is kept for the record, for good.
    Archive,
}

impl LifecycleVerb {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Enable, Self::Pause, Self::Resume, Self::Disable, Self::Archive];

    /// As it is written.
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

/// An event to try a rule with: one that came in, or one made up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RuleSample {
    /// A delivery that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// The event, as its sender names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Whose language it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forge: Option<ForgeKind>,
    /// The repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Its body.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub payload: Value,
    /// Why, where something is made of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What a rule would do with an event. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleTrial {
    /// Whether it matches.
    pub matched: bool,
    /// Each matcher, whether it holds, and why.
    pub matchers: Vec<MatcherResult>,
    /// What would be decided.
    pub decision: ExecutionDecision,
    /// Why.
    pub reason: String,
    /// The prompt as the agent would get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered_prompt: Option<String>,
    /// What would be in the bundle: each layer with its bytes and its digest.
    #[serde(default)]
    pub context_bundle_plan: Value,
    /// What would be permitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_review: Option<PermissionReview>,
    /// How much the event is trusted.
    pub trust_tier: TrustTier,
    /// Why not more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrust: Option<String>,
    /// How the rule stands; it is tried as if it were at work.
    pub lifecycle: String,
    /// What is wrong with its matcher, if that cannot be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matcher_faults: Vec<String>,
    /// Why the agent cannot be told what the template says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_fault: Option<String>,
    /// What makes it the same as others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// Why there is no such key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_fault: Option<String>,
    /// The execution that it is the same as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<String>,
    /// The group that it would be in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_group: Option<String>,
    /// What that group makes of it: `decision`, and the runs that it is about.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub concurrency: Value,
    /// What would be done, in order.
    pub expected_actions: Vec<String>,
}

/// One matcher of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatcherResult {
    /// The field, as `match.branches`.
    pub field: String,
    /// Whether it holds.
    pub holds: bool,
    /// Why.
    pub why: String,
}

/// A wish to change a rule's lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LifecycleRequest {
    /// What is to be done.
    pub action: LifecycleVerb,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// The generation that the rule must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_generation: Option<u64>,
}

/// How a rule stands after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleAnswer {
    /// The rule.
    pub rule: String,
    /// How it stands.
    pub lifecycle_state: LifecycleState,
    /// Its generation now.
    pub generation: u64,
}

/// A delivery that a rule is to look at again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplayRequest {
    /// The delivery.
    pub delivery: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// What a rule is fired with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FireRequest {
    /// The repository that it is about, by the name of its object or as `owner/name`.
    pub repository: String,
    /// The ref, in full; the default branch when left out.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What the rule's templates see as `payload`.
    pub payload: Value,
    /// Why.
    pub reason: String,
    /// What makes a second request the same as the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// What a rule did with an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionAnswer {
    /// Whether it was kept.
    pub accepted: bool,
    /// Its record.
    pub execution: String,
    /// What was decided.
    pub decision: ExecutionDecision,
    /// Why.
    pub reason: String,
    /// The run that was made or joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The work item that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_item: Option<String>,
}
