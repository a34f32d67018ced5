//! The parts of a stack, each judged by what was observed of it.

use bailiwick_policy::tool::{in_vocabulary, matches};
use bailiwick_resources::{
    AgentMcpServer, AgentSecretGrant, ApprovalMode, ConditionType, FilesystemPolicy, Finding, Kind,
    McpScope, Object, Reason, Repository, Secret, SkillFormat, TrustTier, WorkspaceScope,
    scope_fault,
};

use super::Judgement;
use super::facts::{AdapterFacts, AdapterProbe, KitRole, McpProbe, SkillProbe};
use super::stack::StackInput;
use crate::admission::compile::{class_tools, server_name, tool_faults};
use crate::admission::inventory::Found;
use crate::admission::requirements::collect;
use crate::admission::review::is_privileged;
use crate::admission::snapshot::MissingObject;
use crate::bundle::{Breach, label_faults, unsafe_patterns};
use crate::subagents::is_checkable;
use crate::wildcards;

fn adapter<'a>(input: &StackInput<'a>) -> Option<&'a AdapterFacts> {
    match &input.facts.adapter {
        AdapterProbe::Seen(facts) => Some(facts),
        AdapterProbe::NotYet | AdapterProbe::Unsupported(_) | AdapterProbe::Unavailable(_) => None,
    }
}

fn missing(judgement: &mut Judgement, missing: &MissingObject, reason: Reason) {
    let object = &missing.object;
    let message = format!(
        "{} `{}`, named by {}: {}",
        object.kind, object.name, missing.named_by, missing.why
    );
    match missing.unknown {
        true => judgement.doubt(Reason::AccessReviewUnavailable, message),
        false => judgement.fault(reason, message),
    }
}

/// Whether the agent CLI was probed, and has the capabilities that the stack needs.
pub fn capabilities_resolved(input: &StackInput<'_>) -> Finding {
    let mut judgement = Judgement::of(ConditionType::CapabilitiesResolved);
    let spec = &input.frozen.stack.spec;
    if let Err(error) = spec.payment() {
        judgement.fault(Reason::UnsupportedProvider, error.to_string());
    }
    match &input.facts.adapter {
        AdapterProbe::NotYet => {
            judgement.doubt(Reason::NotYetObserved, "it has not been checked yet")
        }
        AdapterProbe::Unsupported(why) => judgement.fault(Reason::UnsupportedBaseAgent, why),
        AdapterProbe::Unavailable(why) => judgement.fault(Reason::AdapterUnavailable, why),
        AdapterProbe::Seen(facts) => {
            if !facts.is_current {
                let message = "the installed program does not have what its adapter expects of it";
                judgement.fault(Reason::StaleCapabilitySchema, message);
            }
            if !facts.gates_tools {
                let message = "its tool calls cannot be stopped before they run";
                judgement.fault(Reason::UnsupportedBaseAgent, message);
            }
            if !facts.mcp && !spec.mcp_server_refs.is_empty() {
                let message = "it cannot use MCP servers, and the stack names some";
                judgement.fault(Reason::UnsupportedBaseAgent, message);
            }
            if !facts.approval_modes.is_empty()
                && !facts.approval_modes.contains(&spec.approval_mode)
            {
                let message = format!("it cannot be held to {:?}", spec.approval_mode);
                judgement.fault(Reason::UnsupportedBaseAgent, message);
            }
            if let Some(why) = unknown_effort(input) {
                judgement.fault(Reason::UnsupportedBaseAgent, why);
            }
        }
    }
    judgement.end(Reason::AdapterManifestLoaded, "the program answered")
}

/// Why the CLI does not support the effort of the stack, if its efforts are known.
fn unknown_effort(input: &StackInput<'_>) -> Option<String> {
    let (effort, program) =
        (input.frozen.stack.spec.effort.as_ref()?, input.facts.program.as_ref()?);
    let known = program.efforts.is_empty() || program.efforts.contains(effort);
    let all = || program.efforts.join(", ");
    (!known).then(|| format!("it knows no effort `{effort}`, but these: {}", all()))
}

/// Whether the tool profile agrees with the policy of each repository.
pub fn tools_admitted(input: &StackInput<'_>) -> Finding {
    let mut judgement = Judgement::of(ConditionType::ToolsAdmitted);
    for gone in input.frozen.missing_of(Kind::AgentToolProfile) {
        missing(&mut judgement, gone, Reason::ToolProfileMissing);
    }
    for repository in input.repositories {
        for fault in tool_faults(input.frozen, repository, repository.spec.trust_tier) {
            judgement.fault(fault.reason, fault.message);
        }
    }
    if input.repositories.is_empty() {
        // Without a repository, only the profile itself can be checked.
        for fault in tool_faults(input.frozen, &nowhere(), TrustTier::Trusted) {
            judgement.fault(fault.reason, fault.message);
        }
    }
    judgement.end(Reason::ToolProfileAdmitted, "the tools fit")
}

fn nowhere() -> Object<Repository> {
    let spec = Repository {
        full_name: "no/where".to_owned(),
        forge: bailiwick_resources::ForgeKind::Local,
        api_url: None,
        clone_url: None,
        checkout: "/".to_owned(),
        default_branch: "main".to_owned(),
        webhook_secret_ref: None,
        credential_ref: None,
        trust_tier: TrustTier::Trusted,
        policy: bailiwick_resources::RepositoryPolicy::default(),
        poll_every: None,
        issue_memory: false,
        claims_issue: None,
        accounts: std::collections::BTreeMap::new(),
    };
    Object::new(bailiwick_resources::Metadata::named("nowhere"), spec)
}

/// Why a stack may not use a server; nothing if it may.
pub fn server_refusal(
    stack: &str,
    repositories: &[Object<Repository>],
    server: &Object<AgentMcpServer>,
) -> Option<String> {
    let (name, spec) = (server.name(), &server.spec);
    let named = spec.allowed_agent_stacks.iter().any(|allowed| allowed == stack);
    if !spec.allowed_agent_stacks.is_empty() && !named {
        return Some(format!("`{name}` is not for the stack `{stack}`"));
    }
    if let Some(why) = scope_fault(spec.scope) {
        return Some(format!("`{name}`: {why}"));
    }
    if spec.scope == McpScope::Stack && spec.allowed_agent_stacks.is_empty() {
        return Some(format!("`{name}` is for some stacks, and names none"));
    }
    for repository in repositories {
        let full = &repository.spec.full_name;
        let limited = spec.scope == McpScope::Repository || !spec.allowed_repositories.is_empty();
        let outside = limited && !wildcards::any(&spec.allowed_repositories, full);
        if repository.spec.trust_tier == TrustTier::Untrusted && !spec.allow_untrusted {
            return Some(format!("`{full}` is not trusted, and `{name}` is for trusted work"));
        }
        let list = repository.spec.policy.allowed_mcp_servers.as_ref();
        if outside || list.is_some_and(|list| !list.iter().any(|allowed| allowed == name)) {
            return Some(format!("`{name}` is not allowed in `{full}`"));
        }
    }
    None
}

/// Whether the MCP servers answer and may be used.
pub fn mcp_healthy(input: &StackInput<'_>) -> Finding {
    let mut judgement = Judgement::of(ConditionType::McpHealthy);
    let stack = input.frozen.stack.name();
    for gone in input.frozen.missing_of(Kind::AgentMcpServer) {
        missing(&mut judgement, gone, Reason::McpServerMissing);
    }
    let needs = collect(input.frozen).secrets;
    let mut lazy = 0_usize;
    for server in &input.frozen.mcp_servers {
        let (name, spec) = (server.name(), &server.spec);
        if let Some(why) = server_refusal(stack, input.repositories, server) {
            judgement.fault(Reason::McpServerNotAllowed, why);
        }
        for need in needs
            .iter()
            .filter(|need| need.owner.kind == Kind::AgentMcpServer && need.owner.name == name)
        {
            match input.inventory.get::<Secret>(&need.namespace, &need.name) {
                Found::Here(secret) if secret.spec.keys.contains_key(&need.key) => {}
                Found::Here(_) | Found::Missing => {
                    let message =
                        format!("`{name}` needs `{}/{}`, which is not there", need.name, need.key);
                    judgement.fault(Reason::McpSecretMissing, message);
                }
                Found::Unknown(why) => judgement.doubt(Reason::AccessReviewUnavailable, why),
            }
        }
        match input.facts.mcp.get(name).unwrap_or(&McpProbe::NotYet) {
            McpProbe::Answered(tools) => {
                for (wanted, by) in needed(input, server) {
                    if !tools.iter().any(|tool| tool.name == wanted) {
                        let message = format!("`{name}` has no tool `{wanted}`, which {by} needs");
                        judgement.fault(Reason::McpToolMissing, message);
                    }
                }
            }
            McpProbe::Failed(_) | McpProbe::TimedOut(_) | McpProbe::NotYet if spec.lazy => {
                lazy += 1;
            }
            McpProbe::TimedOut(why) => {
                judgement.fault(Reason::McpProbeTimedOut, format!("`{name}`: {why}"));
            }
            McpProbe::Failed(why) => {
                judgement.fault(Reason::McpProbeFailed, format!("`{name}`: {why}"));
            }
            McpProbe::NotYet => {
                judgement
                    .doubt(Reason::NotYetObserved, format!("`{name}` has not been checked yet"));
            }
        }
    }
    match lazy {
        0 => judgement.end(Reason::AllRequiredServersReady, "every server answers"),
        count => {
            let message = format!("{count} do not answer yet and may be started later");
            judgement.end(Reason::LazyServersAllowed, message)
        }
    }
}

/// The tools that a server must have, and what requires them: its own object, or a skill of the stack.
fn needed(input: &StackInput<'_>, server: &Object<AgentMcpServer>) -> Vec<(String, String)> {
    let own = server.spec.required_tools.iter();
    let own = own.map(|tool| (tool.clone(), "its own object".to_owned()));
    let prefix = format!("mcp__{}__", server_name(server));
    let skills = input.frozen.skills.iter().flat_map(|skill| {
        let tools = skill.spec.required_tools.iter();
        let of_it = tools.filter_map(|tool| tool.strip_prefix(&prefix));
        of_it.map(|tool| (tool.to_owned(), format!("the skill `{}`", skill.name())))
    });
    own.chain(skills).collect()
}

/// Whether a tool would be allowed by the profile and the role; without knowledge of the role, nothing.
fn admits(input: &StackInput<'_>, tool: &str) -> Option<bool> {
    let tool = in_vocabulary(tool);
    let by_profile = input.frozen.tool_profile.as_ref().is_none_or(|profile| {
        let on = profile.spec.native_tools.iter().filter(|(_, on)| **on);
        let mut listed = on.flat_map(|(class, _)| class_tools(*class));
        let served = |tool: &str| {
            let mut servers = input.frozen.mcp_servers.iter();
            servers.any(|server| tool.starts_with(&format!("mcp__{}__", server_name(server))))
        };
        listed.any(|one| one == tool) || served(&tool)
    });
    if !by_profile {
        return Some(false);
    }
    match &input.facts.role {
        KitRole::Found(role) => {
            Some(role.tools.iter().any(|glob| matches(&in_vocabulary(glob), &tool)))
        }
        KitRole::NotYet | KitRole::Missing(_) => None,
    }
}

/// Whether the skills were found and fit.
pub fn skills_validated(input: &StackInput<'_>) -> Finding {
    let mut judgement = Judgement::of(ConditionType::SkillsValidated);
    let stack = &input.frozen.stack;
    for gone in input.frozen.missing_of(Kind::AgentSkill) {
        missing(&mut judgement, gone, Reason::SkillMissing);
    }
    for skill in &input.frozen.skills {
        let (name, spec) = (skill.name(), &skill.spec);
        if !spec.allowed_agent_stacks.is_empty()
            && !spec.allowed_agent_stacks.iter().any(|allowed| allowed == stack.name())
        {
            let message = format!("`{name}` is not for the stack `{}`", stack.name());
            judgement.fault(Reason::SkillNotAllowed, message);
        }
        if !spec.compatible_agents.is_empty()
            && !spec.compatible_agents.contains(&stack.spec.base_agent)
        {
            let message = format!("`{name}` does not work with {}", stack.spec.base_agent.as_str());
            judgement.fault(Reason::SkillNotAllowed, message);
        }
        let texts = [Some(&spec.prompt_fragment), spec.source_ref.inline.as_ref()];
        for pattern in texts.into_iter().flatten().flat_map(|text| unsafe_patterns(text)) {
            let message = format!("the text of `{name}` {}", pattern.text);
            judgement.fault(Reason::UnsafePromptFragment, message);
        }
        for tool in &spec.required_tools {
            match admits(input, tool) {
                Some(true) => {}
                Some(false) => {
                    let message =
                        format!("`{name}` needs the tool `{tool}`, which is not admitted");
                    judgement.fault(Reason::RequiredToolNotAdmitted, message);
                }
                None => {
                    judgement.doubt(Reason::NotYetObserved, "the tools of the role are not known")
                }
            }
        }
        for server in &spec.required_mcp_servers {
            if !stack.spec.mcp_server_refs.contains(server) {
                let message = format!(
                    "`{name}` needs the MCP server `{server}`, which the stack does not name"
                );
                judgement.fault(Reason::RequiredToolNotAdmitted, message);
            }
        }
        if spec.format == SkillFormat::Inline {
            continue;
        }
        match input.facts.skills.get(name).unwrap_or(&SkillProbe::NotYet) {
            SkillProbe::Found { text, .. } => {
                for what in hidden_text(text) {
                    let message = format!("the text of `{name}` {what}");
                    judgement.fault(Reason::UnsafePromptFragment, message);
                }
            }
            SkillProbe::Missing => {
                judgement
                    .fault(Reason::SkillMissing, format!("the source of `{name}` is not there"));
            }
            SkillProbe::Invalid(why) => {
                judgement.fault(Reason::InvalidSkillPackage, format!("`{name}`: {why}"));
            }
            SkillProbe::NotYet => {
                judgement
                    .doubt(Reason::NotYetObserved, format!("`{name}` has not been checked yet"));
            }
        }
    }
    agents_doc(input, &mut judgement);
    judgement.end(Reason::SkillsFound, "every skill is there and fits")
}

/// Patterns that hide a part of a text from people. Other rules apply to labels only.
fn hidden_text(text: &str) -> impl Iterator<Item = String> {
    let hidden = unsafe_patterns(text).into_iter().filter(|one| one.breach == Breach::HidesText);
    hidden.map(|one| one.text)
}

/// Whether the instructions that the stack names are in the commit that binds its work.
fn agents_doc(input: &StackInput<'_>, judgement: &mut Judgement) {
    let Some(doc) = &input.frozen.stack.spec.agents_doc_ref else { return };
    let path = &doc.path;
    match &input.facts.agents_doc {
        SkillProbe::Found { text, .. } => {
            for what in hidden_text(text) {
                let message = format!("the text of `{path}` {what}");
                judgement.fault(Reason::UnsafePromptFragment, message);
            }
        }
        SkillProbe::Missing => {
            let message = format!("agentsDocRef: the repository has no `{path}`");
            judgement.fault(Reason::AgentsDocMissing, message);
        }
        SkillProbe::Invalid(why) => {
            judgement.fault(Reason::AgentsDocMissing, format!("agentsDocRef: `{path}`: {why}"));
        }
        SkillProbe::NotYet => {
            let message = format!("`{path}` has not been checked yet");
            judgement.doubt(Reason::NotYetObserved, message);
        }
    }
}

/// Whether the sub-agents fit the adapter and the stack.
pub fn subagents_valid(input: &StackInput<'_>) -> Finding {
    let mut judgement = Judgement::of(ConditionType::SubagentsValid);
    for gone in input.frozen.missing_of(Kind::AgentSubagent) {
        missing(&mut judgement, gone, Reason::SubagentMissing);
    }
    let stack = &input.frozen.stack.spec;
    let children = &input.frozen.subagents;
    if !children.is_empty() {
        match adapter(input) {
            None => judgement.doubt(Reason::NotYetObserved, "what the adapter can do is not known"),
            Some(facts) if !facts.subagents => {
                let message = "the agent program cannot delegate";
                judgement.fault(Reason::SubagentDispatchUnsupported, message);
            }
            Some(_) => {}
        }
    }
    let repository = input.repositories.iter();
    let repository =
        repository.filter_map(|repository| repository.spec.policy.max_parallel_subagents).min();
    let limits = [
        ("the adapter", adapter(input).and_then(|facts| facts.max_parallel)),
        ("the stack", stack.max_parallel_subagents),
        ("the repository", repository),
    ];
    let read_only = input.frozen.tool_profile.as_ref().is_some_and(|profile| {
        matches!(
            profile.spec.filesystem_policy,
            FilesystemPolicy::ReadOnly | FilesystemPolicy::NoFs
        )
    });
    for child in children {
        let (name, spec) = (child.name(), &child.spec);
        for (whose, most) in limits {
            if most.is_some_and(|most| spec.max_parallel_tasks > most) {
                let message = format!(
                    "`{name}` wants {} at once, more than {whose} allows",
                    spec.max_parallel_tasks
                );
                judgement.fault(Reason::ParallelismExceedsLimit, message);
            }
        }
        if !is_checkable(&spec.output_contract) {
            let message = format!("what `{name}` must return cannot be checked");
            judgement.fault(Reason::OutputContractUnsupported, message);
        }
        let beyond = |own: &[String], parent: &[String]| {
            own.iter().find(|name| !parent.contains(name)).cloned()
        };
        let more = beyond(&spec.mcp_server_refs, &stack.mcp_server_refs)
            .or_else(|| beyond(&spec.skill_refs, &stack.skill_refs));
        if let Some(more) = more {
            let message = format!("`{name}` names `{more}`, which its stack does not have");
            judgement.fault(Reason::SubagentEscalates, message);
        }
        for tool in spec.tool_refs.iter().flatten() {
            if admits(input, tool) == Some(false) {
                let message =
                    format!("`{name}` names the tool `{tool}`, which its stack does not have");
                judgement.fault(Reason::SubagentEscalates, message);
            }
        }
        let writes = match spec.workspace_scope {
            WorkspaceScope::BranchLocal | WorkspaceScope::IsolatedWorktree => true,
            WorkspaceScope::ReadOnly | WorkspaceScope::NoWorkspace => false,
        };
        if writes && read_only {
            let message = format!("`{name}` would write, and its stack may only read");
            judgement.fault(Reason::SubagentEscalates, message);
        }
    }
    judgement.end(Reason::SubagentsAdmitted, "every sub-agent fits")
}

/// Whether the labels are there and approved.
pub fn context_labels_valid(input: &StackInput<'_>) -> Finding {
    let mut judgement = Judgement::of(ConditionType::ContextLabelsValid);
    for gone in input.frozen.missing_of(Kind::AgentContextLabel) {
        missing(&mut judgement, gone, Reason::ContextLabelDeleted);
    }
    let stack = input.frozen.stack.name();
    for asked in &input.frozen.label_refs {
        let label = input.frozen.labels.iter().find(|label| label.name() == asked.name);
        for fault in
            label.into_iter().flat_map(|label| label_faults(label, asked, stack, None, None))
        {
            judgement.fault(fault.reason, format!("`{}`: {}", fault.label, fault.message));
        }
    }
    judgement.end(Reason::ContextLabelsApproved, "every label is there and approved")
}

/// Whether a repository allows an approval mode.
pub(crate) fn mode_allowed(repository: &Repository, mode: ApprovalMode) -> bool {
    match repository.policy.approval_modes.as_slice() {
        [] => mode != ApprovalMode::Yolo,
        modes => modes.contains(&mode),
    }
}

/// Whether policy allows the stack to be dispatched.
pub fn policy_admitted(input: &StackInput<'_>) -> Finding {
    let mut judgement = Judgement::of(ConditionType::PolicyAdmitted);
    let stack = &input.frozen.stack;
    match &input.facts.role {
        KitRole::NotYet => {
            judgement.doubt(Reason::NotYetObserved, "its role has not been checked yet")
        }
        KitRole::Missing(why) => judgement.fault(Reason::KitRoleMissing, why),
        KitRole::Found(_) => {}
    }
    let needs_secrets = !collect(input.frozen).secrets.is_empty();
    for repository in input.repositories {
        let (full, spec) = (&repository.spec.full_name, &repository.spec);
        let stacks = &spec.policy.allowed_stacks;
        if !stacks.is_empty() && !stacks.iter().any(|allowed| allowed == stack.name()) {
            let message = format!("`{full}` does not allow this stack");
            judgement.fault(Reason::SubjectNotAuthorized, message);
        }
        let trusts = spec.trust_tier == TrustTier::Trusted;
        if !trusts && needs_secrets && !stack.spec.secret_policy.allow_on_forks {
            let message = format!("`{full}` is not trusted, and the stack needs secrets");
            judgement.fault(Reason::UntrustedRepository, message);
        }
        if !mode_allowed(spec, stack.spec.approval_mode) {
            let message = format!("`{full}` does not allow {:?}", stack.spec.approval_mode);
            judgement.fault(Reason::ForbiddenApprovalMode, message);
        }
    }
    if stack.spec.secret_policy.allow_on_forks {
        match input.inventory.all::<AgentSecretGrant>() {
            Err(error) => judgement.doubt(Reason::AccessReviewUnavailable, error.to_string()),
            Ok(grants) => {
                let allowed = &stack.spec.secret_policy.allowed_secret_refs;
                let open = grants.iter().find(|grant| {
                    !grant.spec.deny
                        && grant.spec.allow_untrusted
                        && is_privileged(grant.spec.purpose)
                        && allowed.contains(&grant.spec.secret_ref.name)
                });
                if let Some(grant) = open {
                    let message =
                        format!("`{}` would let a privileged secret reach forks", grant.name());
                    judgement.fault(Reason::PrivilegedSecretsOnFork, message);
                }
            }
        }
    }
    judgement.end(Reason::PolicyAdmitted, "policy allows it")
}
