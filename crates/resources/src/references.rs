//! How resources point at each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Kind;

/// Another object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its namespace, if another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Some keys of a secret or of a config map.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeysRef {
    /// Its name.
    pub name: String,
    /// Its namespace, if another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The keys; none means none, never all.
    #[serde(default)]
    pub keys: Vec<String>,
}

/// One value out of a secret or a config map, and the name under which it arrives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValueFrom {
    /// The variable, header or file that it becomes.
    pub name: String,
    /// The secret that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<KeyRef>,
    /// The config map that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<KeyRef>,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyRef {
    /// The secret or config map.
    pub name: String,
    /// The key in it.
    pub key: String,
}

/// Who a grant or a binding is for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// A person.
    User,
    /// A group of the identity provider.
    Group,
    /// A team.
    Team,
    /// A stack.
    AgentStack,
    /// A pool of runners.
    RunnerPool,
    /// An identity.
    ServiceAccount,
    /// A tool profile.
    Tool,
    /// A skill.
    Skill,
    /// An MCP server.
    McpServer,
}

/// Who.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    /// What it is.
    pub kind: SubjectKind,
    /// Its name.
    pub name: String,
    /// Only as part of this stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_ref: Option<String>,
    /// Only under this identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_ref: Option<String>,
}

impl Subject {
    /// Why nothing can be given to it: nobody says who is in a team or a group, and what is not known is not
    /// permitted. Something can be forbidden to it all the same.
    pub fn gets_nothing(&self) -> Option<&'static str> {
        match self.kind {
            SubjectKind::Group | SubjectKind::Team => {
                Some("nobody says who is in it: name people, a stack or an identity")
            }
            SubjectKind::User
            | SubjectKind::AgentStack
            | SubjectKind::RunnerPool
            | SubjectKind::ServiceAccount
            | SubjectKind::Tool
            | SubjectKind::Skill
            | SubjectKind::McpServer => None,
        }
    }
}

/// Globs of what is meant and of what is not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Globs {
    /// What is meant; everything when empty.
    pub include: Vec<String>,
    /// What is not, though it is meant.
    pub exclude: Vec<String>,
}

impl Globs {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }
}

/// How much the origin of a piece of work is trusted.
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
    /// A fork, a stranger, an unknown ref.
    #[default]
    Untrusted,
    /// The repository's own branches.
    Trusted,
}

/// What may be asked of a person.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalReason {
    /// Something is written back to the forge.
    WriteBack,
    /// A secret is used.
    SecretAccess,
    /// A host is reached that the profile does not name.
    NetworkExpanded,
    /// A branch is pushed.
    BranchPush,
    /// A tool call.
    ToolCall,
    /// A release.
    Release,
    /// Rights of an identity grow.
    Escalation,
}

/// Who must be asked for what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApprovalPolicy {
    /// What needs a person.
    pub require_for: Vec<ApprovalReason>,
    /// How long an answer is waited for, as `4h`; a day when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Span>,
}

/// A length of time as people write it: `30m`, `4h`, `7d`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    /// That many milliseconds.
    pub fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// In milliseconds.
    pub fn millis(self) -> u64 {
        self.0
    }
}

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no length of time; write it as 30s, 45m, 4h or 7d");
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
    fn a_span_is_read_as_it_is_written() {
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
