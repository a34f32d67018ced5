//! How resources point at each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Kind;

/// A reference to an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectRef {
    /// The kind of the object.
    pub kind: Kind,
    /// The name of the object.
    pub name: String,
    /// The namespace of the object. If left out, the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A reference to keys of a secret or config map.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeysRef {
    /// The name of the secret or config map.
    pub name: String,
    /// Its namespace. If left out, the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The keys. If empty, none.
    #[serde(default)]
    pub keys: Vec<String>,
}

/// A value from a secret or config map. Exactly one of the two references is given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValueFrom {
    /// The name of the variable or header that gets the value.
    pub name: String,
    /// The key of a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<KeyRef>,
    /// The key of a config map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<KeyRef>,
}

/// A reference to one key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyRef {
    /// The name of the secret or config map.
    pub name: String,
    /// The key.
    pub key: String,
}

/// The kind of subject of a grant or binding.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// A person.
    User,
    /// A group of the identity provider. Its members are known after they have signed in.
    Group,
    /// A team. It is the same as a group of this name.
    Team,
    /// A stack.
    AgentStack,
    /// A runner pool.
    RunnerPool,
    /// An AgentServiceAccount.
    ServiceAccount,
    /// A tool profile.
    Tool,
    /// A skill.
    Skill,
    /// An MCP server.
    McpServer,
}

/// The subject of a grant or binding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    /// The kind of subject.
    pub kind: SubjectKind,
    /// The name of the subject.
    pub name: String,
    /// If given, only as part of this stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_ref: Option<String>,
    /// If given, only with this AgentServiceAccount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_ref: Option<String>,
}

/// Globs of what is included and excluded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Globs {
    /// What is included. If empty, everything.
    pub include: Vec<String>,
    /// What is excluded, although it is included.
    pub exclude: Vec<String>,
}

impl Globs {
    /// Whether both lists are empty.
    pub fn is_empty(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }
}

/// The trust tier of the origin of work.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TrustTier {
    /// A fork, an unknown person or an unknown ref.
    #[default]
    Untrusted,
    /// The branches of the repository itself.
    Trusted,
}

/// A reason why an approval is needed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalReason {
    /// Something is written back to the forge.
    WriteBack,
    /// A secret is used.
    SecretAccess,
    /// A host besides the model is reached.
    NetworkExpanded,
    /// A branch is pushed.
    BranchPush,
    /// A tool call.
    ToolCall,
    /// A release note or a deployment.
    Release,
    /// A role grants additional rights.
    Escalation,
}

/// The actions that need an approval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApprovalPolicy {
    /// The actions. If empty, none besides those that other policies name.
    pub require_for: Vec<ApprovalReason>,
    /// How long an approval can be given, such as `4h`; then it expires. The default is one day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Span>,
}

/// A duration such as `30m`, `4h` or `7d`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    /// A duration of this many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The duration in milliseconds.
    pub fn millis(self) -> u64 {
        self.0
    }
}

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration; write it as 30s, 45m, 4h or 7d")]
pub struct InvalidSpan(String);

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl std::str::FromStr for Span {
    type Err = InvalidSpan;

    fn from_str(text: &str) -> Result<Self, InvalidSpan> {
        let wrong = || InvalidSpan(text.to_owned());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        number.checked_mul(*factor).map(Self).ok_or_else(wrong)
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (unit, factor) = UNITS
            .iter()
            .rev()
            .find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor))
            .copied()
            .unwrap_or(("ms", 1));
        write!(out, "{}{unit}", self.0 / factor)
    }
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" })
    }
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn span_survives_a_round_trip() {
        for text in ["0ms", "30s", "45m", "4h", "7d", "1500ms"] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.to_string().parse(), Ok(span));
        }
        assert_eq!("90m".parse::<Span>().map(Span::millis), Ok(5_400_000));
        for wrong in ["", "m", "1.5h", "1 h", "-1s", "99999999999999999999d", "5w"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }
}
