//! The compiled policy: all that a decision reads, as one JSON file with a digest.

use bailiwick_model::Sha256Hex;
use bailiwick_model::capability::GateSeverity;
use bailiwick_model::module::GateModule;
use bailiwick_model::role::EscalationPolicy;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::pattern::Patterns;
use crate::tool_lists::ToolStack;

/// The version of the file's format; a gate reads no other.
pub const FORMAT: u32 = 1;

/// The policy of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// [`FORMAT`].
    pub format: u32,
    /// The role that it was compiled from.
    pub role: String,
    /// The agent, if the policy is for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The tools that may be used, as globs; none if the role does not list them.
    pub tools: Option<Vec<String>>,
    /// The tools that a person has to approve each time, as globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approval: Vec<String>,
    /// The tool lists of the agent's template and of those above it; each must allow a tool.
    #[serde(default, skip_serializing_if = "ToolStack::is_unlimited")]
    pub tool_lists: ToolStack,
    /// The patterns that every program of a shell command must match; none means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<Patterns>,
    /// The capabilities that can stop a call, in the role's order.
    pub rules: Vec<Rule>,
    /// The writable files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whitelist: Vec<String>,
    /// Exceptions from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denylist: Vec<String>,
    /// Directories besides the workspace in which anything may be written: temporary ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub temporary: Vec<String>,
    /// Directories that are never written by an agent: our records, the person's settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    /// Whether the task may change dependencies.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dependencies_may_change: bool,
    /// The maximum number of files that one call may delete.
    #[serde(default = "default_most_deleted")]
    pub most_deleted: u32,
    /// The escalation after a denial.
    pub escalation: EscalationPolicy,
    /// Checks that run after each call too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks_per_call: Vec<String>,
    /// Capabilities that a variable switched off when this was compiled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bypassed: Vec<String>,
    /// Whether it may write nothing at all.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
    /// Commands that a person has to approve each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_commands: Option<Patterns>,
    /// The owner of this limit, if it is on top of an agent's policy and not the policy of another agent.
    #[serde(rename = "limit_of", default, skip_serializing_if = "Option::is_none")]
    pub limit_owner: Option<String>,
    /// The policies of the agents above, nearest first: each must allow a call as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "above")]
    pub ancestors: Vec<Policy>,
}

/// A capability that can stop a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name.
    pub capability: String,
    /// The gate that judges, if it has one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "module_out",
        deserialize_with = "module_in"
    )]
    pub gate: Option<GateModule>,
    /// The tools that it applies to, as globs.
    pub tools: Vec<String>,
    /// What happens to a call that it denies.
    pub severity: GateSeverity,
    /// Commands that it forbids.
    #[serde(default, skip_serializing_if = "Patterns::is_empty")]
    pub patterns: Patterns,
    /// Tools that it forbids, as globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_denied: Vec<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn default_most_deleted() -> u32 {
    10
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
fn module_out<S: Serializer>(module: &Option<GateModule>, out: S) -> Result<S::Ok, S::Error> {
    module.map(GateModule::path).serialize(out)
}

fn module_in<'de, D: Deserializer<'de>>(input: D) -> Result<Option<GateModule>, D::Error> {
    let path = Option::<String>::deserialize(input)?;
    path.map(|path| GateModule::parse(&path)).transpose().map_err(serde::de::Error::custom)
}

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The digest of the bytes differs from the expected one.
    #[error("the policy was altered: its digest is {found}, not {expected}")]
    Altered {
        /// The expected digest.
        expected: String,
        /// The actual digest.
        found: String,
    },
    /// The bytes are no policy.
    #[error("the policy cannot be read: {0}")]
    Unreadable(String),
    /// It is of another version.
    #[error("the policy has format {0}, and only {FORMAT} is understood")]
    Format(u32),
}

impl Policy {
    /// The policy, bound by the policy of the agent's parent and by those of the parent's ancestors.
    #[must_use]
    pub fn with_ancestors_of(mut self, parent: &Self) -> Self {
        let mut nearest = parent.clone();
        let rest = std::mem::take(&mut nearest.ancestors);
        self.ancestors = vec![nearest];
        self.ancestors.extend(rest);
        self
    }

    /// This policy and all above it: each must allow a call.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.ancestors)
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        // Nothing in it can fail: no maps with odd keys, no numbers out of range.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses a policy file and compares its digest with the expected one.
    pub fn read(bytes: &[u8], expected: &str) -> Result<Self, PolicyError> {
        let found = digest(bytes);
        let expected = expected.strip_prefix("sha256:").unwrap_or(expected);
        if found != expected {
            return Err(PolicyError::Altered { expected: expected.to_owned(), found });
        }
        Self::parse(bytes)
    }

    /// Reads the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, PolicyError> {
        let policy: Self = serde_json::from_slice(bytes)
            .map_err(|error| PolicyError::Unreadable(error.to_string()))?;
        if policy.format != FORMAT {
            return Err(PolicyError::Format(policy.format));
        }
        Ok(policy)
    }
}

/// The digest of a policy's file, in lower-case hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    Sha256Hex::of(bytes).to_string()
}
