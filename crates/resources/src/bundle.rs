//! What an agent was given to read, layer by layer, with digests.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, Moment, NoStatus, Resource};

/// A bundle as it was assembled; its texts are kept beside it under their digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentContextBundle {
    /// The run.
    pub dispatch_run: String,
    /// The digest over all layers and attachments.
    pub digest: String,
    /// The seven layers, in their order; one may have several parts.
    pub sources: Vec<BundlePart>,
    /// How many bytes in all.
    pub total_bytes: u64,
    /// What was taken out, by category: counts alone.
    #[serde(default)]
    pub redactions: BTreeMap<String, u64>,
    /// When it was assembled.
    pub assembled_at: Moment,
}

/// A layer of a bundle.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum BundleLayer {
    /// The stack's system prompt.
    StackSystem,
    /// The stack's developer prompt.
    StackDeveloper,
    /// Fragments of skills.
    SkillFragments,
    /// Fragments of labels.
    ContextLabelFragments,
    /// The rule's template.
    TriggerTemplate,
    /// What a person asked for.
    UserTask,
    /// Bounded sources and attachments.
    Sources,
}

impl BundleLayer {
    /// All seven, in their order.
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

/// One part of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundlePart {
    /// Its layer.
    pub layer: BundleLayer,
    /// What it is called.
    pub name: String,
    /// Where it comes from: an object with its generation, a path at a commit, a delivery.
    pub provenance: String,
    /// The digest of its text as the agent reads it.
    pub digest: String,
    /// How many bytes that is.
    pub bytes: u64,
    /// What was cut off, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
}

/// What was cut off, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Truncation {
    /// How many bytes there were.
    pub original_bytes: u64,
    /// The limit that cut.
    pub limit: String,
    /// What was kept.
    pub kept: String,
}

impl Resource for AgentContextBundle {
    const KIND: Kind = Kind::AgentContextBundle;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
