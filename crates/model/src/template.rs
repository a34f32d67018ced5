//! An agent template: the prompt and permissions of one type of agent, with named variants.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::RoleName;

/// A template as it was read. Who reads it has checked it: every persona has its prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Template {
    /// The stem of its file.
    pub agent_type: AgentType,
    /// When to use it.
    pub description: String,
    /// The model, unless the persona or the call names another.
    pub model: Option<String>,
    /// The effort, unless the persona or the call names another.
    pub reasoning_effort: Option<String>,
    /// No writes, and no network beyond the model.
    pub read_only: bool,
    /// Which tools it may use.
    pub tools: ToolLists,
    /// The prompt, unless a persona is chosen.
    pub default_prompt: String,
    /// Its variants, by name.
    pub personas: Vec<Persona>,
    /// The role of the kit whose capabilities bind it as well.
    pub role: Option<RoleName>,
    /// The agent program that plays it; that of its parent if left out.
    pub cli: Option<String>,
    /// Which templates it may start; any that its parent may, if left out.
    pub allowed_subagents: Option<Vec<AgentType>>,
    /// The maximum number of levels of agents below it.
    pub max_depth: Option<u32>,
    /// The expected usage of one agent in tokens, until one has run.
    pub estimated_tokens: Option<u64>,
    /// The same in answers of the model.
    pub estimated_turns: Option<u64>,
    /// The same in United States dollars.
    pub estimated_usd: Option<f64>,
    /// The maximum number of model responses of one agent.
    pub max_turns: Option<u64>,
    /// The maximum duration of one agent, in minutes.
    pub max_minutes: Option<u64>,
    /// What it may load before it starts.
    pub context: Option<ContextLimits>,
    /// The other fields of the file that it was imported from; they limit and grant nothing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl Template {
    /// The template of an agent without one: empty and without limits.
    pub fn plain() -> Self {
        Self {
            agent_type: AgentType("default".to_owned()),
            description: String::new(),
            model: None,
            reasoning_effort: None,
            read_only: false,
            tools: ToolLists::default(),
            default_prompt: String::new(),
            personas: Vec::new(),
            role: None,
            cli: None,
            allowed_subagents: None,
            max_depth: None,
            estimated_tokens: None,
            estimated_turns: None,
            estimated_usd: None,
            max_turns: None,
            max_minutes: None,
            context: None,
            metadata: BTreeMap::new(),
        }
    }
}

/// A variant of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Persona {
    /// In lower case.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Overrides the template's model.
    pub model: Option<String>,
    /// Overrides the template's effort.
    pub reasoning_effort: Option<String>,
    /// The prompt instead of the template's default.
    pub prompt: String,
}

/// Tools by name; `*` and `?` match. What both lists name is denied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolLists {
    /// All tools if left out, none if empty.
    pub allow_list: Option<Vec<String>>,
    /// None if left out.
    pub deny_list: Option<Vec<String>>,
}

/// What an agent may load before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContextLimits {
    /// The part of the model's context window that all of it may use.
    #[serde(alias = "window-share")]
    pub window_share: f64,
    /// The maximum number of files.
    pub files: u32,
    /// The maximum number of skills.
    pub skills: u32,
    /// The maximum number of rules.
    pub rules: u32,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self { window_share: 0.3, files: 3, skills: 1, rules: 1 }
    }
}

impl ContextLimits {
    /// The stricter of both limits.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            window_share: self.window_share.min(other.window_share),
            files: self.files.min(other.files),
            skills: self.skills.min(other.skills),
            rules: self.rules.min(other.rules),
        }
    }
}

/// The type of an agent: `worker`, `my_custom_role`, `my-custom-role`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AgentType(String);

/// A type that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid agent_type {0:?}: expected snake_case or kebab-case like \"worker\", \"my_custom_role\", \
     or \"my-custom-role\""
)]
pub struct InvalidAgentType(pub String);

impl AgentType {
    /// Reads it, without blanks around it and in lower case.
    pub fn parse(text: &str) -> Result<Self, InvalidAgentType> {
        let name = text.trim().to_ascii_lowercase();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        match !name.is_empty() && name.chars().all(fits) {
            true => Ok(Self(name)),
            false => Err(InvalidAgentType(name)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both are the same when `-` and `_` are.
    pub fn folds_to(&self, other: &Self) -> bool {
        self.0.replace('-', "_") == other.0.replace('-', "_")
    }
}

impl fmt::Display for AgentType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for AgentType {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimmed_type_must_be_snake_case_or_kebab_case() {
        assert_eq!(AgentType::parse(" My-Custom_Role2 ").unwrap().as_str(), "my-custom_role2");
        for bad in ["", "  ", "a b", "../a", "ä", "a.md", "a/b"] {
            let error = AgentType::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with("invalid agent_type \""), "{error}");
            assert!(
                error.contains("\": expected snake_case or kebab-case like \"worker\""),
                "{error}"
            );
        }
    }

    #[test]
    fn dashes_and_underscores_are_equivalent() {
        let [one, other] = ["my-role", "my_role"].map(|text| AgentType::parse(text).unwrap());
        assert!(one.folds_to(&other) && one != other);
    }
}
