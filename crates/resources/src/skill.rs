//! A reusable procedure that a stack can load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Fault, KeysRef, Kind, Resource, Validation};

const MAX_PACKAGE_NAME: usize = 100;

/// A reusable procedure and its requirements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSkill {
    /// The name that agents use. If left out, the name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// When the skill is useful.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The format.
    pub format: SkillFormat,
    /// The source. The format says which one of its fields is required.
    pub source_ref: SkillSource,
    /// The names of the stacks that may use it. If empty, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_agent_stacks: Vec<String>,
    /// The tools that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_tools: Vec<String>,
    /// The names of the MCP servers that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_mcp_servers: Vec<String>,
    /// Keys of secrets that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_secret_refs: Vec<KeysRef>,
    /// Keys of config maps that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_config_refs: Vec<KeysRef>,
    /// A text that is added to the prompt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt_fragment: String,
    /// The version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The base agents that it works with. If empty, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compatible_agents: Vec<super::BaseAgent>,
    /// The kinds of tasks that it is for. If empty, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_kinds: Vec<String>,
}

/// The format of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SkillFormat {
    /// One file in the repository.
    File,
    /// A directory in the repository with a SKILL.md.
    Directory,
    /// A directory with a SKILL.md on the machine of the control plane, pinned by its digest.
    Package,
    /// The text in the resource itself.
    Inline,
}

/// The source of a skill. Exactly one field must be given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SkillSource {
    /// The path in the base commit of the repository. For `file` and `directory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The package and its digest, as `NAME@sha256:DIGEST`. For `package`. The directory is `packages/NAME` in the
    /// configuration directory of the user who runs the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The text. For `inline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
}

/// A package, pinned by the digest of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageRef {
    /// The name of its directory.
    pub name: String,
    /// 64 hexadecimal digits.
    pub sha256: String,
}

impl PackageRef {
    /// Reads `NAME@sha256:DIGEST`. A name cannot lead to another directory.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, sha256) = text.split_once("@sha256:")?;
        let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = !name.is_empty()
            && name.len() <= MAX_PACKAGE_NAME
            && !name.starts_with('.')
            && name.chars().all(in_name);
        let in_digest = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        let is_digest = sha256.len() == 64 && sha256.chars().all(in_digest);
        (is_name && is_digest).then(|| Self { name: name.to_owned(), sha256: sha256.to_owned() })
    }
}

/// The status of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSkillStatus {
    /// The result of the validation.
    pub validation: Validation,
    /// The reason for the result.
    pub message: String,
    /// The digest of the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The conditions of the skill.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
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
        if source.package.as_ref().is_some_and(|text| PackageRef::parse(text).is_none()) {
            let message = "write NAME@sha256:DIGEST, with the 64 digits of the package's digest";
            faults.push(Fault::new("spec.sourceRef.package", message));
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

#[cfg(test)]
mod tests {
    use super::PackageRef;

    #[test]
    fn package_reference_is_a_plain_name_and_a_digest() {
        let digest = "0123456789abcdef".repeat(4);
        let package = PackageRef::parse(&format!("release-1.2.0@sha256:{digest}")).unwrap();
        assert_eq!((package.name.as_str(), &package.sha256), ("release-1.2.0", &digest));
        for name in ["", "..", ".git", "a/b", "/etc", "a b", "a\0"] {
            assert_eq!(PackageRef::parse(&format!("{name}@sha256:{digest}")), None, "{name}");
        }
        for wrong in ["release", "release@1.2.0", "release@sha256:", "release@sha256:abc"] {
            assert_eq!(PackageRef::parse(wrong), None, "{wrong}");
        }
        assert_eq!(PackageRef::parse(&format!("a@sha256:{}", digest.to_uppercase())), None);
        assert_eq!(PackageRef::parse(&format!("a@sha256:{digest}0")), None);
    }
}
