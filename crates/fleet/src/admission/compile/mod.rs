//! From a stack to what the engine reads: a task.toml, and limits that are laid over the role's policy.
//!
//! Every limit of the repository, the tool profile, the stack, the rule and the sub-agent becomes a limit of
//! `bailiwick_policy`. A limit that no rule can enforce is a fault: it is never ignored.

mod children;
mod limits;
mod network;
mod task;
mod tools;
mod values;

use std::collections::BTreeMap;

use bailiwick_model::Sha256Hex;
use bailiwick_policy::Limits;
use bailiwick_policy::tool_lists::OWN_SERVER;
use bailiwick_resources::{
    AgentMcpServer, AgentSubagent, ApprovalPolicy, AuditLevel, DiscoveredTool, McpTransport,
    Object, Reason, Repository, SkillFormat, ValueFrom,
};
use serde::{Deserialize, Serialize};

use super::review::Review;
use super::snapshot::FrozenStack;
use crate::subagents::ParallelLimits;

pub use children::{SubagentDefinition, subagent_name};
pub use limits::tool_faults;
pub use tools::class_tools;

/// The inputs of the compilation.
#[derive(Debug, Clone, Copy)]
pub struct CompileInput<'a> {
    /// The stack, frozen.
    pub frozen: &'a FrozenStack,
    /// The repository it works on.
    pub repository: &'a Object<Repository>,
    /// The approvals that are required.
    pub approval_policy: &'a ApprovalPolicy,
    /// Its permission review, without which no secret is mounted.
    pub review: Option<&'a Review>,
    /// Parameters that the capabilities of its role accept.
    pub accepted: &'a [String],
    /// The repository's root .gitignore at the base commit; needed for `repo-write`.
    pub ignored: Option<&'a [String]>,
    /// Tools that its MCP servers were found to have.
    pub discovered: &'a BTreeMap<String, Vec<DiscoveredTool>>,
    /// The sub-agent that it is, for a child run.
    pub child: Option<&'a Object<AgentSubagent>>,
    /// The instructions.
    pub body: &'a str,
}

/// Why a stack cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompileFault {
    /// For programs.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

impl CompileFault {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// An MCP server as the agent program sees it, with the names of secrets and without values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpDefinition {
    /// Its name for agents.
    pub name: String,
    pub transport: McpTransport,
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its address.
    pub url: Option<String>,
    /// Its environment.
    pub env_from: Vec<ValueFrom>,
    /// Its headers.
    pub headers_from: Vec<ValueFrom>,
    /// Variables of its environment whose values arrive in files: `TOKEN_FILE` names that of `TOKEN`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_files: Vec<String>,
}

impl McpDefinition {
    /// The variable by which the supervisor gets a value of its environment or headers.
    pub fn variable(&self, value: &ValueFrom) -> String {
        let kind = if self.env_from.contains(value) { "env" } else { "header" };
        let digest = Sha256Hex::of(format!("{}\n{kind}\n{}", self.name, value.name));
        format!("BAILIWICK_SERVER_{}", digest.prefix(24).to_ascii_uppercase())
    }
}

/// The compiled stack.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The task.toml.
    pub task: String,
    /// The limits that apply besides the policy of its role.
    pub limits: Limits,
    pub mcp_servers: Vec<McpDefinition>,
    /// Its sub-agents.
    pub subagents: Vec<SubagentDefinition>,
    /// The limits on parallel sub-agents.
    pub parallel: ParallelLimits,
    /// How much of each call is written down.
    pub audit_level: AuditLevel,
    /// Skills whose files are copied for the agent.
    pub skills: Vec<SkillFiles>,
    /// Notes about limits that became narrower than they were written.
    pub notes: Vec<String>,
}

/// The limits of a launch besides the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LaunchLimits {
    /// The limits that apply besides the policy.
    pub limits: Limits,
    pub mcp_servers: Vec<McpDefinition>,
    /// Sub-agents that it may start.
    #[serde(default)]
    pub subagents: Vec<SubagentDefinition>,
    /// The limits on parallel sub-agents.
    #[serde(default)]
    pub parallel: ParallelLimits,
    /// How much of each call is written down.
    pub audit_level: AuditLevel,
    /// Skills whose files are copied for the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<SkillFiles>,
}

/// A skill that is a directory, which is copied for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkillFiles {
    pub name: String,
    /// The directory, in the commit that binds the work; empty for a package.
    pub path: String,
    /// The package and its digest, if the skill is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}

impl Compiled {
    pub fn launch_limits(&self) -> LaunchLimits {
        LaunchLimits {
            limits: self.limits.clone(),
            mcp_servers: self.mcp_servers.clone(),
            subagents: self.subagents.clone(),
            parallel: self.parallel,
            audit_level: self.audit_level,
            skills: self.skills.clone(),
        }
    }
}

/// Compiles a stack for one piece of work.
pub fn compile(input: &CompileInput<'_>) -> Result<Compiled, Vec<CompileFault>> {
    let mut notes = Vec::new();
    let mut faults = Vec::new();
    let limits = limits::of(input, &mut faults, &mut notes);
    for limit in &limits.0 {
        if let Err(error) = limit.compile() {
            faults.push(CompileFault::new(Reason::DeniedShellCommand, error.to_string()));
        }
    }
    let subagents = children::of(input, &mut faults);
    for server in servers(input) {
        faults.extend(name_fault(server_name(server)));
    }
    let task = task::text(input, &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    let profile = input.frozen.tool_profile.as_ref();
    Ok(Compiled {
        task,
        limits,
        mcp_servers: servers(input).into_iter().map(|one| definition(input, one)).collect(),
        subagents,
        parallel: children::parallel(input),
        audit_level: profile.map_or_else(AuditLevel::default, |profile| profile.spec.audit_level),
        skills: skill_files(input),
        notes,
    })
}

/// The skills with their own files; their texts are part of the context.
fn skill_files(input: &CompileInput<'_>) -> Vec<SkillFiles> {
    let skills = input.frozen.skills.iter().filter_map(|skill| match skill.spec.format {
        SkillFormat::Directory => {
            let path = skill.spec.source_ref.path.clone()?;
            Some(SkillFiles { name: skill.name().to_owned(), path, package: None })
        }
        SkillFormat::Package => {
            let package = skill.spec.source_ref.package.clone()?;
            let name = skill.name().to_owned();
            Some(SkillFiles { name, path: String::new(), package: Some(package) })
        }
        SkillFormat::File | SkillFormat::Inline => None,
    });
    skills.collect()
}

/// The name of a server for agents.
pub(in crate::admission) fn server_name(server: &Object<AgentMcpServer>) -> &str {
    match server.spec.name.as_str() {
        "" => server.name(),
        name => name,
    }
}

/// Why a server cannot be called so: its tools are known by the name.
fn name_fault(name: &str) -> Option<CompileFault> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let fits = !name.is_empty() && name.chars().all(plain) && !name.contains("__");
    let message = match (fits, name == OWN_SERVER) {
        (true, false) => return None,
        (_, true) => format!("no other server may be called `{OWN_SERVER}`"),
        (false, false) => format!("`{name}` is no name for a server: write it as in my-docs"),
    };
    Some(CompileFault::new(Reason::McpServerNotAllowed, message))
}

/// The servers that this piece of work has: the stack's, or those of them that its sub-agent names.
fn servers<'a>(input: &CompileInput<'a>) -> Vec<&'a Object<AgentMcpServer>> {
    let stack = &input.frozen.stack.spec.mcp_server_refs;
    let mine = input.frozen.mcp_servers.iter().filter(|server| {
        let has = |list: &[String]| list.iter().any(|name| name == server.name());
        has(stack) && input.child.is_none_or(|child| has(&child.spec.mcp_server_refs))
    });
    mine.collect()
}

fn definition(input: &CompileInput<'_>, server: &Object<AgentMcpServer>) -> McpDefinition {
    let spec = &server.spec;
    let (env_from, in_files) = values::of_server(input, server);
    McpDefinition {
        name: server_name(server).to_owned(),
        transport: spec.transport,
        command: spec.command.clone(),
        args: spec.args.clone(),
        url: spec.url.clone(),
        env_from,
        headers_from: spec.headers_from.clone(),
        in_files,
    }
}
