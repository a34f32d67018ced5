//! A managed MCP server.

use bailiwick_model::DiscoveredTool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Fault, KeysRef, Kind, Resource, ValueFrom, header_fault, variable_fault};

/// How an MCP server is started or reached, and who may use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentMcpServer {
    /// What agents call it; the object's own name when left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How it is spoken to.
    pub transport: McpTransport,
    /// The program, for stdio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its address, for the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its environment, out of secrets and config maps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<ValueFrom>,
    /// Secrets it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_refs: Vec<KeysRef>,
    /// Config maps it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_map_refs: Vec<KeysRef>,
    /// Headers, out of secrets and config maps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers_from: Vec<ValueFrom>,
    /// How far it reaches.
    pub scope: McpScope,
    /// The repositories that may use it, as globs; every one when empty, but for the scope `repository`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_repositories: Vec<String>,
    /// The stacks that may use it; every one when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_agent_stacks: Vec<String>,
    /// Whether forks and other untrusted work may use it.
    #[serde(default)]
    pub allow_untrusted: bool,
    /// Its tools that may be used, as globs; all of them when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Its tools that may not, as globs; what both lists name may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
    /// Tools that it must have; without one of them it is not healthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_tools: Vec<String>,
    /// Who is asked for its tools.
    #[serde(default)]
    pub approval_policy: McpApproval,
    /// Whether a stack is ready though it does not answer yet.
    #[serde(default)]
    pub lazy: bool,
}

/// How an MCP server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum McpTransport {
    /// A program of ours, by its input and output.
    Stdio,
    /// A server, by server-sent events.
    Sse,
    /// A server, by streamable HTTP.
    StreamableHttp,
}

/// How far an MCP server reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum McpScope {
    /// Everybody.
    Global,
    /// One organisation. There is none here, so that it is refused.
    Org,
    /// Some repositories.
    Repository,
    /// Some stacks.
    Stack,
    /// A run that asks for it. No run can, so that it is refused.
    Dispatch,
}

/// Who is asked for the tools of an MCP server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum McpApproval {
    /// Nobody.
    Allow,
    /// Nobody for tools that say they only read; a person for the others.
    ReadonlyAutoWritePrompt,
    /// A person.
    #[default]
    Prompt,
    /// They are denied.
    Deny,
}

/// How an MCP server is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum McpHealth {
    /// Nobody has asked.
    #[default]
    Unknown,
    /// It answered with its tools.
    Ready,
    /// It answered, but not well.
    Degraded,
    /// It may not be used.
    Denied,
    /// It did not answer.
    Failed,
    /// It is switched off.
    Disabled,
}

/// What the control plane knows of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentMcpServerStatus {
    /// How it is.
    pub health: McpHealth,
    /// What it offers.
    pub discovered_tools: Vec<DiscoveredTool>,
    /// Why.
    pub message: String,
    /// Further conditions.
    pub conditions: Vec<Condition>,
    /// The generation that this speaks of.
    pub observed_generation: u64,
}

impl Resource for AgentMcpServer {
    const KIND: Kind = Kind::AgentMcpServer;
    type Status = AgentMcpServerStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        match self.transport {
            McpTransport::Stdio => {
                if self.command.as_ref().is_none_or(|command| command.trim().is_empty()) {
                    faults.push(Fault::new("spec.command", "a server of stdio needs a program"));
                }
                if self.url.is_some() {
                    faults.push(Fault::new("spec.url", "a server of stdio has no address"));
                }
                if !self.headers_from.is_empty() {
                    faults.push(Fault::new("spec.headersFrom", "a server of stdio has no headers"));
                }
            }
            McpTransport::Sse | McpTransport::StreamableHttp => {
                let known =
                    |url: &String| url.starts_with("https://") || url.starts_with("http://");
                if !self.url.as_ref().is_some_and(known) {
                    faults
                        .push(Fault::new("spec.url", "write an address with http:// or https://"));
                }
                if self.command.is_some() {
                    faults
                        .push(Fault::new("spec.command", "a server on the network has no program"));
                }
                faults.extend(self.unheard());
            }
        }
        faults.extend(named("spec.envFrom", &self.env_from, variable_fault));
        faults.extend(named("spec.headersFrom", &self.headers_from, header_fault));
        faults.extend(scope_fault(self.scope).map(|message| Fault::new("spec.scope", message)));
        let lists = [
            ("spec.allowedTools", self.allowed_tools.as_deref().unwrap_or_default()),
            ("spec.deniedTools", self.denied_tools.as_slice()),
            ("spec.requiredTools", self.required_tools.as_slice()),
        ];
        for (field, tools) in lists {
            for tool in tools.iter().filter(|tool| !is_tool(tool, field != "spec.requiredTools")) {
                let message =
                    format!("`{tool}` is no tool of a server: write it without `mcp__…__`");
                faults.push(Fault::new(field, message));
            }
        }
        if self.scope == McpScope::Repository && self.allowed_repositories.is_empty() {
            let message = "a scope of repositories names at least one";
            faults.push(Fault::new("spec.allowedRepositories", message));
        }
        if self.scope == McpScope::Stack && self.allowed_agent_stacks.is_empty() {
            let message = "a scope of stacks names at least one";
            faults.push(Fault::new("spec.allowedAgentStacks", message));
        }
        faults
    }
}

impl AgentMcpServer {
    /// Values that a server on the network would never be told: it has headers and no environment.
    fn unheard(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if !self.env_from.is_empty() {
            let message = "a server on the network has no environment: use headersFrom";
            faults.push(Fault::new("spec.envFrom", message));
        }
        let refs = [
            ("spec.secretRefs", &self.secret_refs, true),
            ("spec.configMapRefs", &self.config_map_refs, false),
        ];
        for (field, refs, secret) in refs {
            let told = |name: &str, key: &str| {
                let mut headers = self.headers_from.iter().filter_map(|header| match secret {
                    true => header.secret_ref.as_ref(),
                    false => header.config_map_ref.as_ref(),
                });
                headers.any(|from| from.name == name && from.key == key)
            };
            let keys = refs.iter().flat_map(|one| one.keys.iter().map(move |key| (&one.name, key)));
            for (name, key) in keys.filter(|(name, key)| !told(name, key)) {
                let message = format!("no header of headersFrom is `{key}` of `{name}`");
                faults.push(Fault::new(field, message));
            }
        }
        faults
    }
}

/// What is wrong with values and the names under which they arrive.
fn named(field: &str, values: &[ValueFrom], fault: fn(&str) -> Option<String>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, value) in values.iter().enumerate() {
        faults.extend(fault(&value.name).map(|message| Fault::new(field, message)));
        let mut before = values.iter().take(index);
        if before.any(|other| other.name.eq_ignore_ascii_case(&value.name)) {
            faults.push(Fault::new(field, format!("`{}` stands there twice", value.name)));
        }
        if value.secret_ref.is_some() == value.config_map_ref.is_some() {
            let message = format!("`{}` needs a secretRef or a configMapRef", value.name);
            faults.push(Fault::new(field, message));
        }
    }
    faults
}

/// Why a scope means nothing here.
pub fn scope_fault(scope: McpScope) -> Option<&'static str> {
    match scope {
        McpScope::Global | McpScope::Repository | McpScope::Stack => None,
        McpScope::Org => Some("there is no organisation: write `repository` and its repositories"),
        McpScope::Dispatch => Some("no run asks for a server: write `stack` and its stacks"),
    }
}

/// The name of a tool as its server says it, or a glob of such names.
fn is_tool(name: &str, globs: bool) -> bool {
    let fits =
        |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c) || globs && "*?".contains(c);
    !name.is_empty() && !name.starts_with("mcp__") && name.chars().all(fits)
}
