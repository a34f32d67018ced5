//! A reviewed piece of prompt that rules and stacks may add.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, Resource};

/// How long a fragment may be, in bytes.
const MAX_FRAGMENT_LENGTH: usize = 16 * 1024;

/// A piece of prompt. It is text: it can grant nothing and hides nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentContextLabel {
    /// What people call it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// The text.
    pub prompt_fragment: String,
    /// What the work must be about for the label to be added.
    pub allowed_sources: Vec<LabelSource>,
    /// Whether it may be used only once its reviewer has said so.
    #[serde(default)]
    pub requires_review: bool,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Who has reviewed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewed_by: Option<String>,
    /// The digest of the text that was reviewed: another text needs another review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewed_digest: Option<String>,
    /// The stacks that may use it; every one when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_stacks: Vec<String>,
    /// The repositories that may use it, as globs; every one when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_repositories: Vec<String>,
}

/// What a piece of work is about.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LabelSource {
    /// A pipeline.
    Pipeline,
    /// A job.
    Job,
    /// A pull request.
    PullRequest,
    /// An issue.
    Issue,
    /// A push or a tag.
    Push,
    /// A webhook.
    Webhook,
    /// A schedule.
    Schedule,
    /// A person.
    Manual,
}

/// What the control plane knows of a label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentContextLabelStatus {
    /// The digest of its text.
    pub digest: String,
    /// What in its text is not allowed.
    pub unsafe_patterns: Vec<String>,
    /// The generation that this speaks of.
    pub observed_generation: u64,
}

impl Resource for AgentContextLabel {
    const KIND: Kind = Kind::AgentContextLabel;
    type Status = AgentContextLabelStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.prompt_fragment.trim().is_empty() {
            faults.push(Fault::new("spec.promptFragment", "it is empty"));
        }
        if self.prompt_fragment.len() > MAX_FRAGMENT_LENGTH {
            let message = format!("it is longer than {MAX_FRAGMENT_LENGTH} bytes");
            faults.push(Fault::new("spec.promptFragment", message));
        }
        if self.allowed_sources.is_empty() {
            faults.push(Fault::new("spec.allowedSources", "name at least one"));
        }
        faults
    }
}
