//! The tool lists of agent templates: what one allows, and what is left when they are laid over each
//! other.
//!
//! A list means the same for every CLI: an exact name means its tool, whatever a CLI calls it.

use bailiwick_model::template::ToolLists;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::decision::Objection;
use crate::tool::{Class, Tool, ToolName, matches};

/// The name of an objection by a list.
pub(crate) const RULE: &str = "template::tools";

/// The names of a patch in the CLIs.
const PATCHES: [&str; 2] = ["apply_patch", "patch"];

/// The MCP server through which our own tools are called.
pub const OWN_SERVER: &str = "bailiwick";

/// Lists that must all allow a tool. None can be removed, so rights only shrink.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolStack(Vec<TemplateLists>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateLists {
    /// The template of the lists.
    template: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allow: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deny: Vec<String>,
}

impl ToolStack {
    /// No lists: every tool is allowed.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// This stack, with the lists of `template` laid over it: what a child of the agent may use.
    #[must_use]
    pub fn narrowed_by(&self, template: &str, lists: &ToolLists) -> Self {
        let mut stack = self.clone();
        // Empty lists limit nothing.
        if lists.allow_list.is_some() || lists.deny_list.is_some() {
            stack.0.push(TemplateLists {
                template: template.to_owned(),
                allow: lists.allow_list.clone(),
                deny: lists.deny_list.clone().unwrap_or_default(),
            });
        }
        stack
    }

    /// Whether any list limits anything.
    pub fn is_unlimited(&self) -> bool {
        self.0.is_empty()
    }

    /// Why a call must not run; `None` if every list allows all that it amounts to.
    pub fn objection(&self, call: &Call) -> Option<Objection> {
        if call.tools.is_empty() {
            return self.of(&Names::of(&call.cli_tool_name, None));
        }
        call.tools.iter().find_map(|tool| self.of(&Names::of(&call.cli_tool_name, Some(tool))))
    }

    /// Why a tool must not be used, by the name that a CLI or our MCP server has for it.
    pub fn objection_to(&self, native: &str) -> Option<Objection> {
        self.of(&Names::of(native, None))
    }

    fn of(&self, names: &Names<'_>) -> Option<Objection> {
        self.0.iter().find_map(|laid| laid.objection(names))
    }
}

impl TemplateLists {
    fn objection(&self, names: &Names<'_>) -> Option<Objection> {
        let (shown, template) = (names.shown, &self.template);
        if let Some(entry) = self.deny.iter().find(|entry| names.denied_by(entry)) {
            let reason = format!("the template {template} denies {shown} by `{entry}`");
            return Some(Objection::new(RULE, reason, self.instead()));
        }
        let allow = self.allow.as_ref()?;
        if allow.iter().any(|entry| names.allowed_by(entry)) {
            return None;
        }
        let reason = format!("the template {template} does not allow {shown}");
        Some(Objection::new(RULE, reason, self.instead()))
    }

    fn instead(&self) -> String {
        match self.allow.as_deref() {
            Some([]) => "answer without tools".to_owned(),
            Some(list) => format!("use {}", list.join(", ")),
            None => "use another tool".to_owned(),
        }
    }
}

/// Every name of one tool.
struct Names<'a> {
    shown: &'a str,
    /// Its names here: of the CLI, of our server, in the vocabulary.
    here: Vec<&'a str>,
    /// The tools of the vocabulary that it is.
    tools: Vec<&'static Tool>,
}

impl<'a> Names<'a> {
    fn of(native: &'a str, tool: Option<&'a ToolName>) -> Self {
        let mut here = vec![native];
        here.extend(tool.map(ToolName::as_str));
        here.extend(own(native));
        here.extend(tool.and_then(|tool| own(tool.as_str())));
        // A call that is split, as a patch that writes and edits, is judged by its parts.
        let known = here.iter().skip(usize::from(tool.is_some()));
        let mut tools: Vec<&'static Tool> = known.filter_map(|name| Tool::named(name)).collect();
        tools.dedup();
        here.extend(tools.iter().map(|tool| tool.name));
        Self { shown: native, here, tools }
    }

    /// Wide: by any name that the tool has anywhere, or that a tool has which does the same.
    fn denied_by(&self, entry: &str) -> bool {
        let mut alike = self.tools.iter().flat_map(|tool| match tool.class {
            // A patch writes files as well as it edits them.
            Class::Writes => PATCHES.to_vec(),
            // Typing is part of the shell.
            Class::TerminalInput => Tool::named("Bash").into_iter().flat_map(Tool::names).collect(),
            Class::Shell | Class::Reads | Class::NoEffect | Class::Other => Vec::new(),
        });
        let mut anywhere = self.tools.iter().flat_map(|tool| tool.names());
        self.here.iter().any(|name| matches(entry, name))
            || anywhere.any(|name| matches(entry, name))
            || alike.any(|name| matches(entry, name))
    }

    /// Narrow: an exact name means its tool; a glob matches the names here. A glob that matches the name in another
    /// CLI was not written for it.
    fn allowed_by(&self, entry: &str) -> bool {
        if entry.contains(['*', '?']) {
            // A pattern such as `mcp*` means other servers, not ours.
            let ours = |name: &str| {
                own(name).is_some() && entry != "*" && !entry.starts_with("mcp__bailiwick__")
            };
            return self.here.iter().any(|name| !ours(name) && matches(entry, name));
        }
        let meant = Tool::named(entry);
        self.here.contains(&entry) || meant.is_some_and(|tool| self.tools.contains(&tool))
    }
}

/// The plain name of a tool of our own server.
pub fn own(name: &str) -> Option<&str> {
    name.strip_prefix("mcp__")?.strip_prefix(OWN_SERVER)?.strip_prefix("__")
}
#[cfg(test)]
mod tests;
