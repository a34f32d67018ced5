//! A managed MCP server.

use bailiwick_model::DiscoveredTool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Fault, KeysRef, Kind, Resource, ValueFrom, header_fault, variable_fault};

/// An MCP server: how it is started or reached, and who may use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentMcpServer {
    /// The name that agents use. If left out, the name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The transport.
    pub transport: McpTransport,
    /// The command that starts it. Only for `stdio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The arguments of the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The URL. Only for `sse` and `streamable-http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Environment variables from secrets and config maps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<ValueFrom>,
    /// Keys of secrets that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_refs: Vec<KeysRef>,
    /// Keys of config maps that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_map_refs: Vec<KeysRef>,
    /// HTTP headers from secrets and config maps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers_from: Vec<ValueFrom>,
    /// The scope in which it can be used.
    pub scope: McpScope,
    /// The repositories that may use it, as globs. If empty, all; with the scope `repository`, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_repositories: Vec<String>,
    /// The names of the stacks that may use it. If empty, all; with the scope `stack`, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_agent_stacks: Vec<String>,
    /// If true, work on forks and other untrusted work may use it. The default is false.
    #[serde(default)]
    pub allow_untrusted: bool,
    /// Its tools that may be used, as globs. If left out, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Its tools that may not be used, as globs. A tool that is in both lists is denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
    /// Tools that it must offer. If one is missing, the server is degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_tools: Vec<String>,
    /// Whether its tools need an approval.
    #[serde(default)]
    pub approval_policy: McpApproval,
    /// If true, a stack can be ready although the server does not respond yet. The default is false.
    #[serde(default)]
    pub lazy: bool,
}

/// The transport of an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum McpTransport {
    /// A local program, over its standard input and output.
    Stdio,
    /// A remote server, over server-sent events.
    Sse,
    /// A remote server, over streamable HTTP.
    StreamableHttp,
}

/// The scope in which an MCP server can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum McpScope {
    /// Everywhere.
    Global,
    /// One organisation. Not supported: it is refused.
    Org,
    /// The repositories in `allowedRepositories`.
    Repository,
    /// The stacks in `allowedAgentStacks`.
    Stack,
    /// Runs that request it. Not supported: it is refused.
    Dispatch,
}

/// Whether the tools of an MCP server need an approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum McpApproval {
    /// No approval is needed.
    Allow,
    /// Tools that declare themselves read-only need no approval; all others do.
    ReadonlyAutoWritePrompt,
    /// Every call needs an approval. This is the default.
    #[default]
    Prompt,
    /// Every call is denied.
    Deny,
}

/// The health of an MCP server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum McpHealth {
    /// It was not probed yet.
    #[default]
    Unknown,
    /// It responded and offers all required tools.
    Ready,
    /// It responded, but a required tool is missing.
    Degraded,
    /// It may not be used.
    Denied,
    /// It did not respond.
    Failed,
    /// It is switched off.
    Disabled,
}

/// The status of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentMcpServerStatus {
    /// The health.
    pub health: McpHealth,
    /// The tools that it offered when it was last probed.
    pub discovered_tools: Vec<DiscoveredTool>,
    /// The reason for the health.
    pub message: String,
    /// The conditions of the server.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
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
    /// Values that a remote server would never get: it has headers and no environment.
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

/// The maximum number of variables or headers of a server.
pub const MAX_VALUES: usize = 256;

/// Errors in values and in the names of their variables or headers.
fn named(field: &str, values: &[ValueFrom], fault: fn(&str) -> Option<String>) -> Vec<Fault> {
    let mut faults = Vec::new();
    if values.len() > MAX_VALUES {
        faults.push(Fault::new(field, format!("there may be {MAX_VALUES} at most")));
    }
    for (index, value) in values.iter().enumerate() {
        faults.extend(fault(&value.name).map(|message| Fault::new(field, message)));
        let mut before = values.iter().take(index);
        if before.any(|other| other.name.eq_ignore_ascii_case(&value.name)) {
            faults.push(Fault::new(field, format!("`{}` appears twice", value.name)));
        }
        if value.secret_ref.is_some() == value.config_map_ref.is_some() {
            let message = format!("`{}` needs a secretRef or a configMapRef", value.name);
            faults.push(Fault::new(field, message));
        }
    }
    faults
}

/// Why a scope is not supported.
pub fn scope_fault(scope: McpScope) -> Option<&'static str> {
    match scope {
        McpScope::Global | McpScope::Repository | McpScope::Stack => None,
        McpScope::Org => Some("there is no organisation: write `repository` and its repositories"),
        McpScope::Dispatch => Some("no run asks for a server: write `stack` and its stacks"),
    }
}

/// Whether a text is a valid tool name, or a glob of tool names.
fn is_tool(name: &str, globs: bool) -> bool {
    let fits =
        |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c) || globs && "*?".contains(c);
    !name.is_empty() && !name.starts_with("mcp__") && name.chars().all(fits)
}
