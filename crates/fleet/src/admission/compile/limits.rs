//! All limits. Each of them must allow a call.

use bailiwick_policy::{Limit, Limits};
use bailiwick_resources::{
    AgentMcpServer, AgentSubagent, AgentToolProfile, ApprovalMode, ApprovalReason, DiscoveredTool,
    FilesystemPolicy, McpApproval, NetworkMode, Object, Reason, Repository, ToolApproval,
    ToolClass, TrustTier, WorkspaceScope,
};

use super::tools::{PRIVILEGED_COMMANDS, all_but, class_tools, own_server, speaking, touching};
use super::{CompileFault, CompileInput, server_name, servers};
use crate::admission::snapshot::FrozenStack;

pub(super) fn of(
    input: &CompileInput<'_>,
    faults: &mut Vec<CompileFault>,
    notes: &mut Vec<String>,
) -> Limits {
    let mut limits = vec![repository(input, faults)];
    if let Some(profile) = &input.frozen.tool_profile {
        limits.push(of_profile(input, profile, faults, notes));
    }
    limits.push(of_stack(input));
    if input.approval_policy.require_for.contains(&ApprovalReason::ToolCall) {
        let owner = "the rule".to_owned();
        limits.push(match input.frozen.stack.spec.approval_mode {
            // Without approvals, calls that would need one are denied.
            ApprovalMode::Deny => Limit { owner, deny_tools: touching(), ..Limit::default() },
            ApprovalMode::Prompt | ApprovalMode::PolicyDerived | ApprovalMode::Yolo => {
                Limit { owner, ask_tools: touching(), ..Limit::default() }
            }
        });
    }
    limits.extend(servers_limit(input));
    if let Some(child) = input.child {
        limits.push(of_child(input, child, faults));
    }
    limits.retain(|limit| *limit != Limit { owner: limit.owner.clone(), ..Limit::default() });
    Limits(limits)
}

fn repository(input: &CompileInput<'_>, faults: &mut Vec<CompileFault>) -> Limit {
    let policy = &input.repository.spec.policy;
    let mut limit = Limit {
        owner: format!("the repository {}", input.repository.spec.full_name),
        deny_commands: policy.denied_commands.clone(),
        ..Limit::default()
    };
    if let Some(files) = policy.filesystem {
        filesystem(input, files, &mut limit, faults);
    }
    limit
}

fn filesystem(
    input: &CompileInput<'_>,
    policy: FilesystemPolicy,
    limit: &mut Limit,
    faults: &mut Vec<CompileFault>,
) {
    match policy {
        FilesystemPolicy::WorkspaceWrite => {}
        FilesystemPolicy::ReadOnly => limit.read_only = true,
        FilesystemPolicy::NoFs => {
            limit.read_only = true;
            // A shell can read files, whatever its commands are.
            limit.deny_tools.extend(class_tools(ToolClass::Filesystem));
            limit.deny_tools.extend(class_tools(ToolClass::Shell));
        }
        FilesystemPolicy::RepoWrite => match input.ignored {
            Some(ignored) => {
                let globs = ignored.iter().map(|line| line.trim());
                let globs = globs.filter(|line| !line.is_empty() && !line.starts_with(['#', '!']));
                limit.denylist.extend(globs.map(str::to_owned));
            }
            None => {
                let message = "`repo-write` needs to know what the repository ignores, and nobody \
                               has read its .gitignore";
                faults.push(CompileFault::new(Reason::FilesystemScopeTooBroad, message));
            }
        },
    }
}

fn of_profile(
    input: &CompileInput<'_>,
    profile: &Object<AgentToolProfile>,
    faults: &mut Vec<CompileFault>,
    notes: &mut Vec<String>,
) -> Limit {
    let spec = &profile.spec;
    let stack = &input.frozen.stack.spec;
    let mut limit = Limit {
        owner: format!("the tool profile {}", profile.name()),
        allow_commands: spec.allowed_commands.clone(),
        deny_commands: spec.denied_commands.clone(),
        ..Limit::default()
    };
    filesystem(input, spec.filesystem_policy, &mut limit, faults);
    let mut allowed = speaking();
    if !stack.skill_refs.is_empty() {
        allowed.extend(["Skill".to_owned(), "SlashCommand".to_owned()]);
    }
    for (&class, _) in spec.native_tools.iter().filter(|(_, on)| **on) {
        let tools = tools_of(input, class);
        let approval = spec.approval_policy_by_tool.get(&class).copied();
        match approval_need(stack.approval_mode, approval) {
            ApprovalNeed::Nobody => {}
            ApprovalNeed::Denied => {
                notes.push(format!("calls of {class:?} would need a person: they are denied"));
                continue;
            }
            ApprovalNeed::Person => limit.ask_tools.extend(tools.iter().cloned()),
            ApprovalNeed::PersonForPrivileged => {
                let commands = PRIVILEGED_COMMANDS.iter().map(ToString::to_string);
                match class {
                    ToolClass::Shell => limit.ask_commands.extend(commands),
                    // Writing outside of the workspace is denied to everybody.
                    ToolClass::Filesystem => {}
                    ToolClass::Network
                    | ToolClass::Browser
                    | ToolClass::Subagents
                    | ToolClass::Mcp => {
                        limit.ask_tools.extend(tools.iter().cloned());
                    }
                }
                notes.push(format!(
                    "what the rules deny of {class:?} stays denied: nobody is asked"
                ));
            }
            ApprovalNeed::PrivilegedDenied => {
                let commands = PRIVILEGED_COMMANDS.iter().map(ToString::to_string);
                match class {
                    ToolClass::Shell => limit.deny_commands.extend(commands),
                    ToolClass::Filesystem => {}
                    ToolClass::Network
                    | ToolClass::Browser
                    | ToolClass::Subagents
                    | ToolClass::Mcp => {
                        continue;
                    }
                }
            }
        }
        allowed.extend(tools);
    }
    for (class, on) in &spec.native_tools {
        if *on && *class == ToolClass::Browser {
            notes
                .push("no agent program has a browser of its own; an MCP server brings one".into());
        }
    }
    let on = |class| spec.native_tools.get(&class).copied().unwrap_or(false);
    if !on(ToolClass::Mcp) && !servers(input).is_empty() {
        let message = format!(
            "the tool profile `{}` has MCP off, and the stack names servers",
            profile.name()
        );
        faults.push(CompileFault::new(Reason::McpServerNotAllowed, message));
    }
    if !on(ToolClass::Subagents) && !stack.subagent_refs.is_empty() {
        let message = format!(
            "the tool profile `{}` has sub-agents off, and the stack names some",
            profile.name()
        );
        faults.push(CompileFault::new(Reason::SubagentDispatchUnsupported, message));
    }
    limit.allow_tools = Some(allowed);
    limit
}

fn tools_of(input: &CompileInput<'_>, class: ToolClass) -> Vec<String> {
    let mut tools = class_tools(class);
    match class {
        ToolClass::Mcp => {
            for server in servers(input) {
                let name = server_name(server);
                match discovered(input, server) {
                    // A tool that the server did not list when it was probed may write.
                    Some(known) => {
                        tools
                            .extend(known.iter().map(|tool| format!("mcp__{name}__{}", tool.name)));
                    }
                    None => tools.push(format!("mcp__{name}__*")),
                }
            }
        }
        // Declared sub-agents are runs of ours, not agents that a CLI starts itself.
        ToolClass::Subagents if input.frozen.subagents.is_empty() => tools.push(own_server()),
        ToolClass::Subagents => tools = vec![own_server()],
        ToolClass::Shell | ToolClass::Filesystem | ToolClass::Network | ToolClass::Browser => {}
    }
    tools
}

/// The tools of a server that lets those through which only read; nothing where a tool profile does not
/// close the others, so that all of them have to be approved.
fn discovered<'a>(
    input: &CompileInput<'a>,
    server: &Object<AgentMcpServer>,
) -> Option<&'a Vec<DiscoveredTool>> {
    let sorted = server.spec.approval_policy == McpApproval::ReadonlyAutoWritePrompt;
    let closed = input.frozen.tool_profile.is_some();
    (sorted && closed).then(|| input.discovered.get(server.name())).flatten()
}

enum ApprovalNeed {
    Nobody,
    Person,
    PersonForPrivileged,
    Denied,
    PrivilegedDenied,
}

fn approval_need(mode: ApprovalMode, approval: Option<ToolApproval>) -> ApprovalNeed {
    let asks = match mode {
        ApprovalMode::Prompt | ApprovalMode::PolicyDerived => Some(true),
        ApprovalMode::Deny => Some(false),
        ApprovalMode::Yolo => None,
    };
    match (approval, asks) {
        (Some(ToolApproval::Deny), _) => ApprovalNeed::Denied,
        (None | Some(ToolApproval::Allow | ToolApproval::AllowWorkspace), _) => {
            ApprovalNeed::Nobody
        }
        (Some(ToolApproval::Prompt), Some(true)) => ApprovalNeed::Person,
        (Some(ToolApproval::Prompt), Some(false)) => ApprovalNeed::Denied,
        (Some(ToolApproval::PromptOnDeniedOrPrivileged), Some(true)) => {
            ApprovalNeed::PersonForPrivileged
        }
        (Some(ToolApproval::PromptOnDeniedOrPrivileged), Some(false)) => {
            ApprovalNeed::PrivilegedDenied
        }
        (Some(ToolApproval::Prompt | ToolApproval::PromptOnDeniedOrPrivileged), None) => {
            ApprovalNeed::Nobody
        }
    }
}

fn of_stack(input: &CompileInput<'_>) -> Limit {
    let stack = &input.frozen.stack;
    let spec = &stack.spec;
    let given = !spec.allowed_commands.is_empty();
    let scope = spec.scope.as_ref();
    let declared = !input.frozen.subagents.is_empty() && input.child.is_none();
    Limit {
        owner: format!("the stack {}", stack.name()),
        allow_tools: declared.then(|| {
            let others = ["mcp__*".to_owned(), own_server()];
            all_but(&class_tools(ToolClass::Subagents)).into_iter().chain(others).collect()
        }),
        allow_commands: given.then(|| spec.allowed_commands.clone()),
        deny_commands: spec.denied_commands.clone(),
        whitelist: scope.map(|scope| scope.files_whitelist.clone()),
        denylist: scope.map(|scope| scope.files_denylist.clone()).unwrap_or_default(),
        ..Limit::default()
    }
}

/// The approvals that each MCP server requires for its tools. For a server that was not probed yet, every tool needs
/// one.
fn servers_limit(input: &CompileInput<'_>) -> Vec<Limit> {
    let yolo = input.frozen.stack.spec.approval_mode == ApprovalMode::Yolo;
    let deny = input.frozen.stack.spec.approval_mode == ApprovalMode::Deny;
    let mut limits = Vec::new();
    for server in servers(input) {
        let name = server_name(server);
        let all = format!("mcp__{name}__*");
        let owner = format!("the MCP server {name}");
        limits.extend(listed(input, server));
        let ask: Vec<String> = match server.spec.approval_policy {
            McpApproval::Allow => Vec::new(),
            McpApproval::Deny => {
                limits.push(Limit { owner, deny_tools: vec![all], ..Limit::default() });
                continue;
            }
            McpApproval::Prompt => vec![all],
            McpApproval::ReadonlyAutoWritePrompt => match discovered(input, server) {
                None => vec![all],
                Some(tools) => {
                    let writing = tools.iter().filter(|tool| !tool.read_only);
                    writing.map(|tool| format!("mcp__{name}__{}", tool.name)).collect()
                }
            },
        };
        match (ask.is_empty(), yolo, deny) {
            (true, _, _) | (_, true, _) => {}
            (false, false, true) => {
                limits.push(Limit { owner, deny_tools: ask, ..Limit::default() });
            }
            (false, false, false) => {
                limits.push(Limit { owner, ask_tools: ask, ..Limit::default() });
            }
        }
    }
    limits
}

/// The limits from the tool lists of a server's object. They do not affect other tools.
fn listed(input: &CompileInput<'_>, server: &Object<AgentMcpServer>) -> Option<Limit> {
    let name = server_name(server);
    let of_it = |tools: &[String]| -> Vec<String> {
        tools.iter().map(|tool| format!("mcp__{name}__{tool}")).collect()
    };
    let deny_tools = of_it(&server.spec.denied_tools);
    let allow_tools = server.spec.allowed_tools.as_deref().map(|tools| {
        let others = servers(input).into_iter().map(server_name).filter(|other| *other != name);
        let others = others.map(|other| format!("mcp__{other}__*"));
        all_but(&[]).into_iter().chain(others).chain([own_server()]).chain(of_it(tools)).collect()
    });
    let owner = format!("the MCP server {name}");
    let limits = allow_tools.is_some() || !deny_tools.is_empty();
    limits.then(|| Limit { owner, allow_tools, deny_tools, ..Limit::default() })
}

pub(super) fn of_child(
    input: &CompileInput<'_>,
    child: &Object<AgentSubagent>,
    faults: &mut Vec<CompileFault>,
) -> Limit {
    let spec = &child.spec;
    let mut limit = Limit {
        owner: format!("the sub-agent {}", child.name()),
        // A child cannot have sub-agents.
        deny_tools: class_tools(ToolClass::Subagents).into_iter().chain([own_server()]).collect(),
        ..Limit::default()
    };
    if let Some(tools) = &spec.tool_refs {
        let mut allowed = speaking();
        allowed.extend(tools.iter().cloned());
        limit.allow_tools = Some(allowed);
    }
    match spec.workspace_scope {
        WorkspaceScope::ReadOnly => limit.read_only = true,
        WorkspaceScope::BranchLocal | WorkspaceScope::IsolatedWorktree => {}
        WorkspaceScope::NoWorkspace => {
            filesystem(input, FilesystemPolicy::NoFs, &mut limit, faults);
        }
    }
    if spec.approval_policy.require_for.contains(&ApprovalReason::ToolCall) {
        limit.ask_tools = touching();
    }
    limit
}

fn breadth(policy: FilesystemPolicy) -> u8 {
    match policy {
        FilesystemPolicy::NoFs => 0,
        FilesystemPolicy::ReadOnly => 1,
        FilesystemPolicy::RepoWrite => 2,
        FilesystemPolicy::WorkspaceWrite => 3,
    }
}

/// The tools of a stack that violate the policy of a repository, for work of this trust.
pub fn tool_faults(
    frozen: &FrozenStack,
    repository: &Object<Repository>,
    trust: TrustTier,
) -> Vec<CompileFault> {
    let mut faults = Vec::new();
    let mut fault = |reason, message: String| faults.push(CompileFault::new(reason, message));
    let policy = &repository.spec.policy;
    let name = &repository.spec.full_name;
    let spec = &frozen.stack.spec;
    let profile = frozen.tool_profile.as_ref();
    let of_profile = profile.and_then(|profile| profile.spec.allowed_commands.as_deref());
    let allowed = spec.allowed_commands.iter().chain(of_profile.unwrap_or_default());
    let denied = Limit { deny_commands: policy.denied_commands.clone(), ..Limit::default() };
    match denied.denied_patterns() {
        Err(error) => fault(Reason::DeniedShellCommand, error.to_string()),
        Ok(denied) => {
            for command in allowed {
                let plain = command.split_whitespace().collect::<Vec<_>>().join(" ");
                let plain = plain.strip_suffix(" *").unwrap_or(&plain).to_owned();
                if denied.matches(&plain).unwrap_or(true) {
                    let message =
                        format!("`{command}` is allowed, and the repository {name} denies it");
                    fault(Reason::DeniedShellCommand, message);
                }
            }
        }
    }
    let Some(profile) = profile else { return faults };
    if let Some(most) = policy.filesystem
        && breadth(profile.spec.filesystem_policy) > breadth(most)
    {
        let message = format!(
            "the tool profile has {:?}, and the repository {name} allows {most:?}",
            profile.spec.filesystem_policy
        );
        fault(Reason::FilesystemScopeTooBroad, message);
    }
    let on = |class| profile.spec.native_tools.get(&class).copied().unwrap_or(false);
    match &profile.spec.network_policy {
        None if on(ToolClass::Network) || on(ToolClass::Browser) => {
            let message = "the tool profile allows the network but has no networkPolicy".to_owned();
            fault(Reason::NetworkPolicyMissing, message);
        }
        Some(network) if network.mode == NetworkMode::UnrestrictedWithApproval => {
            let message = "`unrestricted-with-approval` cannot be held; name the hosts".to_owned();
            fault(Reason::NetworkPolicyMissing, message);
        }
        None | Some(_) => {}
    }
    if trust == TrustTier::Untrusted && on(ToolClass::Browser) {
        let message = "untrusted work may not have a browser".to_owned();
        fault(Reason::FilesystemScopeTooBroad, message);
    }
    faults
}
