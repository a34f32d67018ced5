//! Names that cannot be mixed up: each is checked once, where it enters.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::checked;
use crate::nearest::nearest;

/// The pattern of every slug, as in the schemas and in error messages.
pub const SLUG_PATTERN: &str = "^[a-z][a-z0-9-]{0,63}$";
const AGENT_ID_PATTERN: &str = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$";
const CAPABILITY_PATTERN: &str =
    "^(policy|scope|quality|safety|output|tools)::[a-z][a-z0-9-]{0,63}$";
const MAX_AGENT_ID: usize = 64;

const PHASE_PATTERN: &str = "^[a-z][a-z0-9-]{0,42}$";
/// With `phase::` in front, it is a label of Gitea, which has at most 50 characters.
const MAX_PHASE: usize = 43;

/// Why a text is not a name of the required kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// Not a slug.
    #[error("`{text}` is not a {kind}: it must match {SLUG_PATTERN}")]
    Slug {
        /// The kind of name.
        kind: &'static str,
        /// The offending text.
        text: String,
    },
    /// Not the name of a phase.
    #[error("`{text}` is not the name of a phase: it must match {PHASE_PATTERN}")]
    Phase {
        /// The offending text.
        text: String,
    },
    /// No `::` between category and slug.
    #[error("`{text}` is not a capability name: write `<category>::<slug>`")]
    Unqualified {
        /// The offending text.
        text: String,
    },
    /// The part before `::` is not a category.
    #[error("`{text}` is not a category: use one of {}{}", Category::list(), did_you_mean(.near))]
    Category {
        /// The offending text.
        text: String,
        /// The nearest category, if one is near.
        near: Option<&'static str>,
    },
    /// An agent id that could not name a directory or a branch.
    #[error("`{text}` is not an agent id: {why}")]
    AgentId {
        /// The offending text.
        text: String,
        /// The reason.
        why: &'static str,
    },
}

fn did_you_mean(near: &Option<&'static str>) -> String {
    near.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

fn is_slug(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= 64
        && bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $pattern:expr, $parse:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(into = "String")]
        pub struct $name(String);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                checked::text(input)
            }
        }

        impl $name {
            /// Checks `text`.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                $parse(text)?;
                Ok(Self(text.to_owned()))
            }

            /// The name as it is written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

checked_text!(
    /// The name of a role: a slug, and the stem of its file.
    RoleName,
    SLUG_PATTERN,
    |text: &str| slug("role name", text)
);

checked_text!(
    /// A phase of the work on an issue, as in its label `phase::<name>`.
    PhaseName,
    PHASE_PATTERN,
    |text: &str| match is_slug(text) && text.len() <= MAX_PHASE {
        true => Ok(()),
        false => Err(NameError::Phase { text: text.to_owned() }),
    }
);

checked_text!(
    /// The name of something that a task may set and a capability accepts.
    ParameterName,
    SLUG_PATTERN,
    |text: &str| slug("parameter name", text)
);

checked_text!(
    /// The name of one running agent. It names a directory and a branch, so it is strict.
    ///
    /// A role name is no agent id, and the compiler says so:
    /// ```compile_fail
    /// # use bailiwick_model::{AgentId, RoleName};
    /// fn stop(_: &AgentId) {}
    /// stop(&RoleName::parse("edit-local").unwrap());
    /// ```
    AgentId,
    AGENT_ID_PATTERN,
    agent_id
);

fn slug(kind: &'static str, text: &str) -> Result<(), NameError> {
    if is_slug(text) { Ok(()) } else { Err(NameError::Slug { kind, text: text.to_owned() }) }
}

fn agent_id(text: &str) -> Result<(), NameError> {
    let refuse = |why| Err(NameError::AgentId { text: text.to_owned(), why });
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    if text.is_empty() {
        return refuse("it is empty");
    }
    if text.len() > MAX_AGENT_ID {
        return refuse("it is longer than 64 characters");
    }
    if !text.bytes().all(inside) {
        return refuse("only A-Z, a-z, 0-9, `_`, `.` and `-` may stand in it");
    }
    if !text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric()) {
        return refuse("it must begin with a letter or a digit");
    }
    if text.contains("..") {
        return refuse("`..` could leave its directory");
    }
    if text.ends_with('.') || text.ends_with(".lock") {
        return refuse("git takes no branch that ends in `.` or `.lock`");
    }
    Ok(())
}

impl AgentId {
    /// Generates the ID of an agent: `ag-<role>-<unix ms in hex>-<4 hex>`.
    pub fn make(role: &RoleName, unix_ms: u64, random: u16) -> Self {
        let tail = format!("{unix_ms:x}-{random:04x}");
        let room = MAX_AGENT_ID.saturating_sub("ag--".len() + tail.len());
        let short: String = role.as_str().chars().take(room).collect();
        Self(format!("ag-{}-{tail}", short.trim_end_matches('-')))
    }

    /// The branch that the agent works on.
    pub fn branch(&self) -> String {
        format!("agent/{}", self.0)
    }
}

/// The kind of limit or duty that a capability is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// The general permissions of the agent.
    Policy,
    /// Which files it may touch.
    Scope,
    /// Requirements on its work.
    Quality,
    /// Risks that it must not take.
    Safety,
    /// Requirements on its report.
    Output,
    /// Which tools it may use.
    Tools,
    /// Requirements on a review of its work.
    Verify,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Policy,
        Self::Scope,
        Self::Quality,
        Self::Safety,
        Self::Output,
        Self::Tools,
        Self::Verify,
    ];

    /// The word in front of `::`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Scope => "scope",
            Self::Quality => "quality",
            Self::Safety => "safety",
            Self::Output => "output",
            Self::Tools => "tools",
            Self::Verify => "verify",
        }
    }

    fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl FromStr for Category {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::ALL.into_iter().find(|category| category.as_str() == text).ok_or_else(|| {
            let near = nearest(text, Self::ALL.map(Self::as_str));
            NameError::Category { text: text.to_owned(), near }
        })
    }
}

impl fmt::Display for Category {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The name of a capability: `<category>::<slug>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
pub struct CapabilityName {
    category: Category,
    slug: String,
}

impl<'de> Deserialize<'de> for CapabilityName {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        checked::text(input)
    }
}

/// Old names with their current names.
const RENAMED: [(&str, &str); 2] = [
    ("tools::read-only", "tools::deny-tools"),
    ("tools::cargo-only-bash", "tools::bash-allowlist"),
];

impl CapabilityName {
    /// Checks `text` and splits it.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let Some((category, rest)) = text.split_once("::") else {
            return Err(NameError::Unqualified { text: text.to_owned() });
        };
        slug("capability slug", rest)?;
        Ok(Self { category: category.parse()?, slug: rest.to_owned() })
    }

    /// The part in front of `::`.
    pub fn category(&self) -> Category {
        self.category
    }

    /// The part behind `::`.
    pub fn slug(&self) -> &str {
        &self.slug
    }

    /// The current name of a renamed capability; none if the name is current.
    pub fn renamed_to(&self) -> Option<Self> {
        let old = self.to_string();
        let (_, new) = RENAMED.iter().find(|(name, _)| *name == old)?;
        Self::parse(new).ok()
    }
}

impl CapabilityName {
    /// Its old names.
    pub fn old_names(&self) -> impl Iterator<Item = Self> {
        let name = self.to_string();
        let old = RENAMED.iter().filter(move |(_, new)| *new == name);
        old.filter_map(|(old, _)| Self::parse(old).ok())
    }
}

impl fmt::Display for CapabilityName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}::{}", self.category, self.slug)
    }
}

impl FromStr for CapabilityName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for CapabilityName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::parse(&text)
    }
}

impl From<CapabilityName> for String {
    fn from(name: CapabilityName) -> String {
        name.to_string()
    }
}

impl JsonSchema for CapabilityName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CapabilityName".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": CAPABILITY_PATTERN })
    }
}
#[cfg(test)]
mod tests;
