//! The tool `list_agents`: its arguments and its answer.

use bailiwick_model::template::{AgentType, Persona, Template};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::discovery::{FoundTemplate, TemplateError, Templates};
use super::file::check_listed;

/// The arguments of `list_agents`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListAgents {
    /// Only this agent_type
    #[serde(default)]
    pub agent_type: Option<String>,
    /// With model, reasoning_effort and prompts
    #[serde(default)]
    pub expanded: Option<bool>,
}

/// The answer of `list_agents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentsListed {
    /// In the order of their types.
    pub agents: Vec<AgentListed>,
    /// Invalid templates, in the same order: they cannot be started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<BrokenTemplate>,
}

/// A template that breaks the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenTemplate {
    /// Its type.
    pub agent_type: AgentType,
    pub error: String,
}

/// A template in the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentListed {
    /// Its type.
    pub agent_type: AgentType,
    /// When to use it.
    pub description: String,
    /// Null when every tool is allowed.
    pub allow_list: Option<Vec<String>>,
    /// Null when no tool is denied.
    pub deny_list: Option<Vec<String>>,
    /// Its personas by name, if it has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agent_names: Vec<PersonaListed>,
    /// Only if requested and set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Only if requested and set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Only if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_prompt: Option<String>,
}

/// A persona in the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PersonaListed {
    /// Its name.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Only if requested and set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Only if requested and set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Only if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// How much of each template is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Enough to choose one.
    Brief,
    /// Also models, efforts and prompts.
    Expanded,
}

/// Answers `list_agents`. An invalid template is listed as an error beside the others; if it is requested by name,
/// it is the error of the call.
pub fn list(templates: &Templates, asked: &ListAgents) -> Result<AgentsListed, TemplateError> {
    let detail = match asked.expanded {
        Some(true) => Detail::Expanded,
        Some(false) | None => Detail::Brief,
    };
    if let Some(agent_type) = &asked.agent_type {
        let found = templates.find(agent_type)?;
        return Ok(AgentsListed { agents: vec![listed(&found, detail)?], errors: Vec::new() });
    }
    let mut answer = AgentsListed { agents: Vec::new(), errors: Vec::new() };
    for (agent_type, found) in templates.inventory().templates {
        match found.and_then(|found| listed(&found, detail)) {
            Ok(entry) => answer.agents.push(entry),
            Err(error) => {
                answer.errors.push(BrokenTemplate { agent_type, error: error.to_string() });
            }
        }
    }
    Ok(answer)
}

/// The entry of one template, if it is valid for `list_agents`.
pub fn listed(found: &FoundTemplate, detail: Detail) -> Result<AgentListed, TemplateError> {
    let template = found.template();
    check_listed(template, &found.source).map_err(|problems| TemplateError::Broken {
        agent_type: template.agent_type.clone(),
        problems,
    })?;
    Ok(entry(template, detail))
}

fn entry(template: &Template, detail: Detail) -> AgentListed {
    let expanded = detail == Detail::Expanded;
    let mut agent_names: Vec<PersonaListed> =
        template.personas.iter().map(|persona| persona_entry(persona, detail)).collect();
    agent_names.sort_by(|one, other| one.name.cmp(&other.name));
    AgentListed {
        agent_type: template.agent_type.clone(),
        description: template.description.trim().to_owned(),
        allow_list: template.tools.allow_list.clone(),
        deny_list: template.tools.deny_list.clone(),
        agent_names,
        model: template.model.clone().filter(|_| expanded),
        reasoning_effort: template.reasoning_effort.clone().filter(|_| expanded),
        default_prompt: expanded.then(|| template.default_prompt.trim().to_owned()),
    }
}

fn persona_entry(persona: &Persona, detail: Detail) -> PersonaListed {
    let expanded = detail == Detail::Expanded;
    PersonaListed {
        name: persona.name.clone(),
        description: persona.description.clone(),
        model: persona.model.clone().filter(|_| expanded),
        reasoning_effort: persona.reasoning_effort.clone().filter(|_| expanded),
        prompt: expanded.then(|| persona.prompt.trim().to_owned()),
    }
}
