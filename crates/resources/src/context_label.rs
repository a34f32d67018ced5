//! A reviewed piece of prompt that rules and stacks may add.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Fault, Kind, Resource};

/// The maximum length of a fragment in bytes.
const MAX_FRAGMENT_LENGTH: usize = 16 * 1024;

/// A piece of prompt text. It cannot grant any rights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentContextLabel {
    /// The name that is shown to people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// The text that is added to the prompt.
    pub prompt_fragment: String,
    /// The kinds of work for which the label may be used. If empty, none.
    pub allowed_sources: Vec<LabelSource>,
    /// If true, the label may only be used after its text was reviewed. The default is false.
    #[serde(default)]
    pub requires_review: bool,
    /// The owner of the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The reviewer. It must be another person than the author of the text, and set by the reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewed_by: Option<String>,
    /// The digest of the text that was reviewed. Another text needs another review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewed_digest: Option<String>,
    /// The names of the stacks that may use it. If empty, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_stacks: Vec<String>,
    /// The repositories that may use it, as globs. If empty, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_repositories: Vec<String>,
}

/// A kind of work.
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
    /// A request by a person.
    Manual,
}

/// The status of a context label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentContextLabelStatus {
    /// The digest of the text.
    pub digest: String,
    /// Patterns in the text that are not allowed.
    pub unsafe_patterns: Vec<String>,
    /// The conditions of the label.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
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
