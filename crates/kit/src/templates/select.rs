//! Selects an agent's prompt, model and effort from a template, each with its origin.

use bailiwick_model::template::{AgentType, InvalidAgentType, Persona, Template};
use serde::Serialize;
use thiserror::Error;

use super::file::NO_TEMPLATE;
use crate::tool_table::matches;

/// The effort that every model has.
const NO_EFFORT: &str = "none";

/// Why a selection failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelectError {
    /// The name of the type cannot be one.
    #[error(transparent)]
    InvalidType(#[from] InvalidAgentType),
    /// A persona of no template.
    #[error("agent_name requires a non-default agent_type")]
    PersonaWithoutType,
    /// The template has no such persona.
    #[error("unknown agent_name \"{name}\" for agent_type \"{agent_type}\"")]
    UnknownPersona {
        /// The requested name.
        name: String,
        /// Of which template.
        agent_type: AgentType,
    },
    /// The template has no prompt for calls without a persona.
    #[error("agent_type \"{0}\" requires agent_name selection")]
    PersonaNeeded(AgentType),
    /// No such model.
    #[error("unknown model \"{model}\" for spawn_agent. Available models: {}", available.join(", "))]
    UnknownModel {
        /// The requested model.
        model: String,
        /// The available names.
        available: Vec<String>,
    },
    /// The model has no such effort.
    #[error(
        "reasoning_effort {effort} is not supported for model \"{model}\". Supported efforts: {}",
        supported.join(", ")
    )]
    UnsupportedEffort {
        /// The requested effort.
        effort: String,
        model: String,
        /// The supported efforts.
        supported: Vec<String>,
    },
    /// No models are known, so the name cannot be checked.
    #[error("Models are being updated; try spawn_agent again in a moment.")]
    ModelsUnknown,
}

/// The template that a call names; none if it leaves the type out or names `default`.
pub fn asked_type(
    agent_type: Option<&str>,
    agent_name: Option<&str>,
) -> Result<Option<AgentType>, SelectError> {
    let agent_type = agent_type.map(AgentType::parse).transpose()?;
    let agent_type = agent_type.filter(|name| name.as_str() != NO_TEMPLATE);
    match (agent_type, agent_name) {
        (None, Some(_)) => Err(SelectError::PersonaWithoutType),
        (agent_type, _) => Ok(agent_type),
    }
}

/// The selection from a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selected<'a> {
    /// The persona, unless it is the default.
    pub persona: Option<&'a Persona>,
    pub prompt: &'a str,
}

/// Chooses the prompt: the persona that is named, else the default, else the only persona.
pub fn select<'a>(
    template: &'a Template,
    agent_name: Option<&str>,
) -> Result<Selected<'a>, SelectError> {
    let chosen =
        |persona: &'a Persona| Selected { persona: Some(persona), prompt: &persona.prompt };
    if let Some(name) = agent_name {
        let name = name.trim().to_ascii_lowercase();
        let found = template.personas.iter().find(|persona| persona.name == name);
        let agent_type = template.agent_type.clone();
        return found.map(chosen).ok_or(SelectError::UnknownPersona { name, agent_type });
    }
    if !template.default_prompt.trim().is_empty() {
        return Ok(Selected { persona: None, prompt: &template.default_prompt });
    }
    match template.personas.as_slice() {
        [only] => Ok(chosen(only)),
        [] | [_, _, ..] => Err(SelectError::PersonaNeeded(template.agent_type.clone())),
    }
}

/// Who set a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetBy {
    /// The call that starts the agent.
    Call,
    Persona,
    /// The template itself.
    Template,
    /// Who starts it.
    Inherited,
}

impl SetBy {
    /// As people read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "the call",
            Self::Persona => "the persona",
            Self::Template => "the template",
            Self::Inherited => "who starts it",
        }
    }
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub value: String,
    /// Who set it.
    pub set_by: SetBy,
}

/// Model and effort of a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overrides<'a> {
    pub model: Option<&'a str>,
    pub reasoning_effort: Option<&'a str>,
}

/// Model and effort of the caller.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inherited<'a> {
    pub model: Option<&'a str>,
    pub reasoning_effort: Option<&'a str>,
}

/// Model and effort of an agent; `None` if not set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Effective {
    pub model: Option<Setting>,
    pub reasoning_effort: Option<Setting>,
}

/// Precedence: call, persona, template, caller; for each value separately.
pub fn effective(
    call: Overrides<'_>,
    persona: Option<&Persona>,
    template: &Template,
    inherited: Inherited<'_>,
) -> Effective {
    let first = |values: [Option<&str>; 4]| {
        let by = [SetBy::Call, SetBy::Persona, SetBy::Template, SetBy::Inherited];
        let mut set = values.into_iter().zip(by);
        set.find_map(|(value, set_by)| Some(Setting { value: value?.to_owned(), set_by }))
    };
    Effective {
        model: first([
            call.model,
            persona.and_then(|persona| persona.model.as_deref()),
            template.model.as_deref(),
            inherited.model,
        ]),
        reasoning_effort: first([
            call.reasoning_effort,
            persona.and_then(|persona| persona.reasoning_effort.as_deref()),
            template.reasoning_effort.as_deref(),
            inherited.reasoning_effort,
        ]),
    }
}

/// A model that can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownModel {
    /// Its name, or a pattern of such names: `*` matches any text.
    pub name: String,
    /// Its efforts; `none` is one of every model.
    pub efforts: Vec<String>,
}

impl KnownModel {
    fn is_form(&self) -> bool {
        self.name.contains('*')
    }

    fn has(&self, effort: &str) -> bool {
        effort == NO_EFFORT || self.efforts.iter().any(|known| known == effort)
    }

    fn lacks(&self, effort: &str, model: &str) -> SelectError {
        let others = self.efforts.iter().filter(|known| *known != NO_EFFORT).cloned();
        SelectError::UnsupportedEffort {
            effort: effort.to_owned(),
            model: model.to_owned(),
            supported: [NO_EFFORT.to_owned()].into_iter().chain(others).collect(),
        }
    }
}

impl Effective {
    /// Checks the settings against the known models. A pair that is completely inherited is in use already.
    pub fn check(&self, known: &[KnownModel]) -> Result<(), SelectError> {
        let set = |setting: &&Setting| setting.set_by != SetBy::Inherited;
        let (model, effort) = (self.model.as_ref(), self.reasoning_effort.as_ref());
        if model.filter(set).is_none() && effort.filter(set).is_none() {
            return Ok(());
        }
        if known.is_empty() {
            return Err(SelectError::ModelsUnknown);
        }
        let Some(model) = model else {
            // The agent CLI chooses the model, so each one must support the effort.
            let effort = effort.map_or(NO_EFFORT, |effort| &effort.value);
            let forms_alone = known.iter().all(KnownModel::is_form);
            let mut chosen = known.iter().filter(|model| forms_alone || !model.is_form());
            let without = chosen.find(|model| !model.has(effort));
            return without.map_or(Ok(()), |model| Err(model.lacks(effort, &model.name)));
        };
        let by_name = known.iter().find(|known| known.name == model.value);
        let fits = |known: &&KnownModel| known.is_form() && matches(&known.name, &model.value);
        let Some(found) = by_name.or_else(|| known.iter().find(fits)) else {
            let available = known.iter().map(|known| known.name.clone()).collect();
            return Err(SelectError::UnknownModel { model: model.value.clone(), available });
        };
        match effort {
            Some(effort) if !found.has(&effort.value) => {
                Err(found.lacks(&effort.value, &model.value))
            }
            Some(_) | None => Ok(()),
        }
    }
}
