//! An agent's assignment from its template.

use bailiwick_model::template::{AgentType, Template, ToolLists};

use super::select::{Effective, Inherited, KnownModel, Overrides, SelectError, effective, select};

/// The write and network access of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// No writes, and no network except the model, no matter what its parent may do.
    ReadOnly,
    /// The same as its parent.
    Inherited,
}

impl Sandbox {
    /// The sandbox that a template requires.
    pub fn of(template: &Template) -> Self {
        if template.read_only { Self::ReadOnly } else { Self::Inherited }
    }

    /// Whether the agent may only read, under a parent that may or may not.
    pub fn is_read_only(self, parent_is: bool) -> bool {
        match self {
            Self::ReadOnly => true,
            Self::Inherited => parent_is,
        }
    }
}

/// The assignment of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The type that its file has, however it was spelt in the call.
    pub agent_type: AgentType,
    /// The persona, unless it is the default.
    pub agent_name: Option<String>,
    /// When to use it: the persona's description, else the template's.
    pub description: String,
    pub prompt: String,
    pub sandbox: Sandbox,
    /// Which tools it may use, of those that its parent may.
    pub tools: ToolLists,
    /// Its model and effort.
    pub settings: Effective,
}

/// Computes an assignment; refuses unknown models and personas.
pub fn assign(
    template: &Template,
    agent_name: Option<&str>,
    call: Overrides<'_>,
    inherited: Inherited<'_>,
    known: &[KnownModel],
) -> Result<Assignment, SelectError> {
    let selected = select(template, agent_name)?;
    let sandbox = Sandbox::of(template);
    let settings = effective(call, selected.persona, template, inherited);
    settings.check(known)?;
    let persona = selected.persona;
    let description = persona.map_or(&template.description, |persona| &persona.description);
    Ok(Assignment {
        agent_type: template.agent_type.clone(),
        agent_name: persona.map(|persona| persona.name.clone()),
        description: description.clone(),
        prompt: selected.prompt.to_owned(),
        sandbox,
        tools: template.tools.clone(),
        settings,
    })
}
