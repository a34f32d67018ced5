//! What the control plane passes to a run besides its task and policy: admitted MCP servers and the
//! sub-agents that it may start. It is stored beside the policy, where no agent can read it.
//!
//! A run that has this takes servers and templates only from it, never from a commit.

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_fleet::admission::compile::{McpDefinition, SubagentDefinition};
use bailiwick_fleet::admission::review::file_variable;
use bailiwick_fleet::bundle::NamedSource;
use bailiwick_fleet::ports::AttemptOwner;
use bailiwick_fleet::subagents::{ParallelLimits, contract_faults};
use bailiwick_model::task;
use bailiwick_model::template::{AgentType, InvalidAgentType, Template};
use bailiwick_resources::{
    AuditLevel, McpTransport, OutputContract, OutputFormat, ValueFrom, WorkspaceScope,
};
use bailiwick_runner::supervisor::RunDirectory;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::context::set_variable;
use crate::failure::Failure;
use crate::system;

const FILE: &str = "managed.json";

/// What the control plane passes to one of its runs besides the task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagedRunConfig {
    /// Its MCP servers.
    pub servers: Vec<McpDefinition>,
    /// The sub-agents that it may start.
    pub subagents: Vec<SubagentDefinition>,
    /// How many of them may run.
    pub parallel: ParallelLimits,
    /// The owner that counts them.
    #[serde(rename = "belongs")]
    pub owner: AttemptOwner,
    /// Its output contract, if it is a sub-agent itself.
    pub contract: Option<OutputContract>,
    /// How much of each call is recorded.
    #[serde(default)]
    pub audit_level: AuditLevel,
    /// Skills whose files arrive with it.
    #[serde(default)]
    pub skills: Vec<ManagedSkill>,
    /// The sources in its context that it can hand to sub-agents.
    #[serde(default)]
    pub sources: Vec<NamedSource>,
}

/// A skill whose files arrive with an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagedSkill {
    /// Its name.
    pub name: String,
    /// Its directory; empty for a package.
    pub path: String,
    /// In this commit.
    pub commit: String,
    /// The package and its digest, if it is one.
    #[serde(default)]
    pub package: Option<String>,
}

/// The MCP servers of a run, with their secrets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Servers {
    /// By name, each as `.mcp.json` describes it.
    pub all: BTreeMap<String, Value>,
    /// The secrets to redact.
    pub secrets: Vec<String>,
    /// Secret files by name, with their content.
    pub files: Vec<(String, String)>,
}

impl ManagedRunConfig {
    /// Reads the configuration; `None` if no control plane started the run.
    pub fn of(directory: &RunDirectory) -> Result<Option<Self>, Failure> {
        let file = directory.path().join(FILE);
        let unusable =
            |why: String| Failure::general(format!("{} cannot be used: {why}", file.display()));
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                serde_json::from_str(&text).map(Some).map_err(|error| unusable(error.to_string()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(error.to_string())),
        }
    }

    /// Stores it for a run.
    pub fn store(&self, directory: &RunDirectory) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Failure::general(format!("{FILE} cannot be written: {error}")))?;
        system::write_whole(&directory.path().join(FILE), &text)
    }

    /// The servers that a task chooses, with the values that the supervisor was given for them.
    pub fn servers(
        &self,
        chosen: &[task::Line],
        directory: &RunDirectory,
    ) -> Result<Servers, Failure> {
        let mut found = Servers::default();
        for name in chosen {
            let Some(server) = self.servers.iter().find(|one| one.name == name.as_str()) else {
                return Err(Failure::refused(format!("the run was given no MCP server `{name}`")));
            };
            let described = described(server, directory, &mut found, &set_variable)?;
            found.all.insert(name.to_string(), described);
        }
        Ok(found)
    }

    /// A sub-agent that the run may start.
    pub fn subagent(&self, name: &str) -> Option<&SubagentDefinition> {
        self.subagents.iter().find(|one| one.name == name)
    }

    /// The configuration of a sub-agent: the servers that it names, and no sub-agents.
    pub fn for_child(&self, child: &SubagentDefinition) -> Self {
        let has = |server: &&McpDefinition| child.mcp_servers.contains(&server.name);
        let knows = |skill: &&ManagedSkill| child.spec.skill_refs.contains(&skill.name);
        Self {
            servers: self.servers.iter().filter(has).cloned().collect(),
            subagents: Vec::new(),
            parallel: ParallelLimits::default(),
            owner: self.owner.clone(),
            contract: Some(child.spec.output_contract.clone()),
            audit_level: self.audit_level,
            skills: self.skills.iter().filter(knows).cloned().collect(),
            sources: Vec::new(),
        }
    }

    /// The problems of a sub-agent's result.
    pub fn faults(&self, returned: &str) -> Vec<String> {
        self.contract.as_ref().map(|it| contract_faults(it, returned)).unwrap_or_default()
    }
}

/// The files with the servers of agent programs.
const CONFIG_FILES: [&str; 4] = ["mcp.json", "config.toml", "settings.json", "opencode.json"];
/// The maximum depth of these files below the home.
const MAX_DEPTH: usize = 4;
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Deletes the settings that contain secrets of MCP servers at the end of an attempt, so that no secret stays on the
/// disk in plain text. The next attempt gets them again.
pub fn forget(home: &Path, secrets: &[String]) {
    if !secrets.is_empty() {
        forget_below(home, secrets, MAX_DEPTH);
    }
}

fn forget_below(directory: &Path, secrets: &[String], depth: usize) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        // The agent may have put links here: none is followed.
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        if found.is_dir() && depth > 0 {
            forget_below(&path, secrets, depth - 1);
        }
        let is_config = CONFIG_FILES.iter().any(|name| entry.file_name() == *name);
        if !(is_config && found.is_file() && found.len() <= MAX_FILE_BYTES) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        // In JSON or TOML, a secret can be escaped.
        let quoted = |secret: &String| Value::from(secret.as_str()).to_string();
        let has = |secret: &String| {
            text.contains(secret.as_str()) || text.contains(quoted(secret).trim_matches('"'))
        };
        if secrets.iter().any(has) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn described(
    server: &McpDefinition,
    directory: &RunDirectory,
    found: &mut Servers,
    variable: &dyn Fn(&str) -> Result<Option<String>, Failure>,
) -> Result<Value, Failure> {
    // Only a program on this machine can read a file. A header goes to another host, which gets no local path.
    let started = server.transport == McpTransport::Stdio;
    let mut values = |from: &[ValueFrom]| -> Result<Map<String, Value>, Failure> {
        let mut all = Map::new();
        for value in from {
            let source = server.variable(value);
            let secret = variable(&source)?.ok_or_else(|| {
                let (server, name) = (&server.name, &value.name);
                Failure::general(format!("the MCP server `{server}` was given no `{name}`"))
            })?;
            if value.secret_ref.is_some() {
                found.secrets.push(secret.clone());
            }
            if started && server.in_files.contains(&value.name) {
                let path = directory.granted().join(&source);
                all.insert(file_variable(&value.name), path.display().to_string().into());
                found.files.push((source, secret));
            } else {
                all.insert(value.name.clone(), secret.into());
            }
        }
        Ok(all)
    };
    Ok(match server.transport {
        McpTransport::Stdio => json!({
            "command": server.command.clone().unwrap_or_default(),
            "args": server.args,
            "env": values(&server.env_from)?,
        }),
        McpTransport::Sse | McpTransport::StreamableHttp => json!({
            "type": if server.transport == McpTransport::Sse { "sse" } else { "http" },
            "url": server.url.clone().unwrap_or_default(),
            "headers": values(&server.headers_from)?,
        }),
    })
}

/// A sub-agent as a template, which is what agents are started by.
pub fn template(child: &SubagentDefinition) -> Result<Template, InvalidAgentType> {
    let spec = &child.spec;
    let agent_type = AgentType::parse(&child.name)?;
    let kinds: Vec<&str> = spec.task_kinds.iter().map(|kind| kind.as_str()).collect();
    let kinds = format!("For {}.", kinds.join(", "));
    let without = match spec.optional {
        true => "You may go on without it.",
        false => "Once you have started it, you may not go on without it.",
    };
    let description = [spec.description.trim(), &kinds, without];
    let description = description.into_iter().filter(|text| !text.is_empty());
    let description = description.collect::<Vec<_>>().join(" ");
    let parts = [spec.role_prompt.clone(), kinds].into_iter().chain(child.skills.iter().cloned());
    let parts = parts.chain([asked_for(&spec.output_contract)]);
    let prompt = parts.map(|text| text.trim_end().to_owned()).collect::<Vec<_>>().join("\n\n");
    Ok(Template {
        agent_type,
        description,
        model: spec.model_override.clone(),
        read_only: match spec.workspace_scope {
            WorkspaceScope::ReadOnly | WorkspaceScope::NoWorkspace => true,
            WorkspaceScope::BranchLocal | WorkspaceScope::IsolatedWorktree => false,
        },
        default_prompt: prompt,
        allowed_subagents: Some(Vec::new()),
        ..Template::plain()
    })
}

/// The contract as text for the agent.
fn asked_for(contract: &OutputContract) -> String {
    let form = match contract.format {
        OutputFormat::Summary => "a summary in Markdown",
        OutputFormat::Patch => "a unified diff and nothing else",
        OutputFormat::Checklist => "a checklist in Markdown, with lines such as `- [x] …`",
        OutputFormat::Json => "JSON and nothing else",
        OutputFormat::ReviewComments => "review comments, each as `path:line: …`",
        OutputFormat::TestReport => "a test report in Markdown",
        OutputFormat::ReleaseReadiness => "a report on whether a release is ready, in Markdown",
        OutputFormat::RiskAssessment => "an assessment of risks in Markdown",
    };
    let sections = match (contract.required_sections.join(", "), contract.format) {
        (list, _) if list.is_empty() => String::new(),
        (list, OutputFormat::Json) => format!(" It has the keys {list}."),
        (list, _) => format!(" It has the headings {list}."),
    };
    format!("Your last message is what you return: {form}.{sections} It is checked.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_variable_may_be_a_file_but_a_header_may_not() {
        let value = ValueFrom { name: "TOKEN".to_owned(), secret_ref: None, config_map_ref: None };
        let directory = RunDirectory::new(Path::new("/state"), "one");
        let describe = |transport: McpTransport| {
            let server = McpDefinition {
                name: "docs".to_owned(),
                transport,
                command: None,
                args: Vec::new(),
                url: None,
                env_from: vec![value.clone()],
                headers_from: vec![value.clone()],
                in_files: vec!["TOKEN".to_owned()],
            };
            let value_of =
                |_: &str| -> Result<Option<String>, Failure> { Ok(Some("abc".to_owned())) };
            let mut found = Servers::default();
            let config = described(&server, &directory, &mut found, &value_of).unwrap();
            (config, found.files.len())
        };
        for remote in [McpTransport::Sse, McpTransport::StreamableHttp] {
            let (config, files) = describe(remote);
            assert_eq!((&config["headers"], files), (&json!({ "TOKEN": "abc" }), 0), "{config}");
        }
        let (config, files) = describe(McpTransport::Stdio);
        assert!(config["env"]["TOKEN_FILE"].is_string() && files == 1, "{config}");
    }
}
