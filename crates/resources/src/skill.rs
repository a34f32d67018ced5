//! A reusable procedure that a stack can load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, KeysRef, Kind, Resource, Validation};

/// A runbook, and what it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSkill {
    /// What agents call it; the object's own name when left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// When it is of use.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What it is.
    pub format: SkillFormat,
    /// Where it is: a path in the repository's base commit, or the text itself.
    pub source_ref: SkillSource,
    /// The stacks that may use it; every one when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_agent_stacks: Vec<String>,
    /// Tools it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_tools: Vec<String>,
    /// MCP servers it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_mcp_servers: Vec<String>,
    /// Secrets it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_secret_refs: Vec<KeysRef>,
    /// Config maps it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_config_refs: Vec<KeysRef>,
    /// What is added to the prompt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt_fragment: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The base agents it works with; every one when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compatible_agents: Vec<super::BaseAgent>,
    /// The kinds of tasks it is for; every one when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_kinds: Vec<String>,
}

/// What a skill is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SkillFormat {
    /// One file.
    File,
    /// A directory with a SKILL.md.
    Directory,
    /// A package of npm.
    Package,
    /// Text in the resource.
    Inline,
}

/// Where a skill is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SkillSource {
    /// The path in the base commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The package, with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
}

/// What the control plane knows of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSkillStatus {
    /// How it stands.
    pub validation: Validation,
    /// Why.
    pub message: String,
    /// The digest of what was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The generation that this speaks of.
    pub observed_generation: u64,
}

impl Resource for AgentSkill {
    const KIND: Kind = Kind::AgentSkill;
    type Status = AgentSkillStatus;

    fn faults(&self) -> Vec<Fault> {
        let source = &self.source_ref;
        let (wanted, given) = match self.format {
            SkillFormat::File | SkillFormat::Directory => ("path", source.path.is_some()),
            SkillFormat::Package => ("package", source.package.is_some()),
            SkillFormat::Inline => ("inline", source.inline.is_some()),
        };
        let count = [&source.path, &source.package, &source.inline]
            .into_iter()
            .filter(|part| part.is_some())
            .count();
        let mut faults = Vec::new();
        if !given || count != 1 {
            let message = format!("this format needs `{wanted}` and nothing else");
            faults.push(Fault::new("spec.sourceRef", message));
        }
        let outside = |path: &String| {
            path.starts_with('/') || path.split('/').any(|part| part == ".." || part == ".git")
        };
        if source.path.as_ref().is_some_and(outside) {
            let message = "it must be a path inside of the repository";
            faults.push(Fault::new("spec.sourceRef.path", message));
        }
        faults
    }
}
