//! The context that an agent received, layer by layer, with digests.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, Moment, NoStatus, Resource};

/// The context of a run, as it was assembled. Its texts are stored under their digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentContextBundle {
    /// The name of the run.
    pub dispatch_run: String,
    /// The digest of all layers and attachments.
    pub digest: String,
    /// The parts, in the order of the seven layers. A layer can have several parts.
    pub sources: Vec<BundlePart>,
    /// The total size in bytes.
    pub total_bytes: u64,
    /// The number of redactions by category.
    #[serde(default)]
    pub redactions: BTreeMap<String, u64>,
    /// When the bundle was assembled.
    pub assembled_at: Moment,
}

/// A layer of a context bundle.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum BundleLayer {
    /// The system prompt of the stack.
    StackSystem,
    /// The developer prompt of the stack.
    StackDeveloper,
    /// Texts of skills.
    SkillFragments,
    /// Texts of context labels.
    ContextLabelFragments,
    /// The prompt template of the rule.
    TriggerTemplate,
    /// The task of the run.
    UserTask,
    /// Sources and attachments of limited size.
    Sources,
}

impl BundleLayer {
    /// All layers, in order.
    pub const ALL: [Self; 7] = [
        Self::StackSystem,
        Self::StackDeveloper,
        Self::SkillFragments,
        Self::ContextLabelFragments,
        Self::TriggerTemplate,
        Self::UserTask,
        Self::Sources,
    ];
}

/// One part of a context bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundlePart {
    /// The layer.
    pub layer: BundleLayer,
    /// The name of the part.
    pub name: String,
    /// The origin: an object with its generation, a path at a commit, or a delivery.
    pub provenance: String,
    /// The digest of the text that the agent reads.
    pub digest: String,
    /// The size of that text in bytes.
    pub bytes: u64,
    /// How the text was truncated. If left out, it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
}

/// How a text was truncated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Truncation {
    /// The original size in bytes.
    pub original_bytes: u64,
    /// The limit that was exceeded.
    pub limit: String,
    /// The part of the text that was kept.
    pub kept: String,
}

impl Resource for AgentContextBundle {
    const KIND: Kind = Kind::AgentContextBundle;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
