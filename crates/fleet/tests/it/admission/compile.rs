//! The compiled form of a stack, decided by one policy: that of the role and all limits above it.

use std::collections::BTreeMap;

use bailiwick_fleet::admission::compile::{
    CompileFault, CompileInput, Compiled, SkillFiles, compile,
};
use bailiwick_policy::decide::lookups;
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::facts::{self, ResolvedPath};
use bailiwick_policy::{Call, Effects, Facts, Outcome, Policy, decide};
use bailiwick_resources::{
    AgentSubagent, ApprovalPolicy, ApprovalReason, DiscoveredTool, Kind, Object, Reason,
};
use serde_json::{Value, json};

use super::world::{World, facts as known};
use crate::embedded_kit;

fn compiled_as(world: &World, child: Option<&str>) -> Result<Compiled, Vec<CompileFault>> {
    let frozen = world.frozen();
    let child: Option<Object<AgentSubagent>> =
        child.map(|name| world.objects[&(Kind::AgentSubagent, name.to_owned())].typed().unwrap());
    let bailiwick_fleet::admission::conditions::KitRole::Found(role) = known().role else {
        panic!("the role of the world is known");
    };
    let discovered: BTreeMap<String, Vec<DiscoveredTool>> = world.facts.discovered();
    compile(&CompileInput {
        frozen: &frozen,
        repository: &world.repository(),
        approval_policy: &world.approval_policy,
        review: Some(&world.review()),
        accepted: &role.accepted,
        ignored: Some(&["target/".to_owned(), "# made".to_owned(), "!keep".to_owned()]),
        discovered: &discovered,
        child: child.as_ref(),
        body: "Mend it.",
    })
}

/// The policy that the gate reads.
fn policy_as(world: &World, child: Option<&str>) -> Policy {
    let compiled = compiled_as(world, child).unwrap_or_else(|faults| panic!("{faults:?}"));
    let policy = embedded_kit::policy(&compiled.task);
    let policy = compiled.limits.apply_to(policy).unwrap();
    Policy::parse(policy.to_json().as_bytes()).unwrap()
}

fn outcome(policy: &Policy, tool: &str, input: Value) -> Outcome {
    let payload = json!({ "tool_name": tool, "tool_input": input, "cwd": "/w" }).to_string();
    let servers = ["docs".to_owned()];
    let call = Dialect::Claude.read(payload.as_bytes(), &servers).unwrap();
    decide(policy, &call, &file_facts(&call)).outcome
}

/// File facts without links, in which every requested file exists.
fn file_facts(call: &Call) -> Facts {
    let mut facts = Facts { root: "/w".into(), directory: Some("/w".into()), ..Facts::default() };
    for path in lookups(call, &Effects::of(call), &facts).paths {
        let resolved =
            ResolvedPath { entry: path.clone(), real: path.clone(), kind: facts::Kind::File };
        facts.paths.insert(path, resolved);
    }
    facts
}

fn shell(policy: &Policy, command: &str) -> Outcome {
    outcome(policy, "Bash", json!({ "command": command }))
}

fn write(policy: &Policy, path: &str) -> Outcome {
    outcome(policy, "Write", json!({ "file_path": path, "content": "x" }))
}

fn read(policy: &Policy) -> Outcome {
    outcome(policy, "Read", json!({ "file_path": "/w/src/a.rs" }))
}

#[test]
fn engine_can_read_the_compiled_task() {
    let compiled = compiled_as(&World::good(), None).unwrap();
    let bound = embedded_kit::bound(&compiled.task);
    let task = bound.task;
    assert_eq!(task.task.role.get_ref().as_str(), "developer");
    assert_eq!(task.agent.cli.unwrap().as_str(), "claude-code");
    assert_eq!(task.agent.mcp_servers, ["docs"]);
    assert_eq!(task.agent.allowed_subagents, ["reviewer"]);
    assert!(task.agent.sub_agents.is_empty(), "each is a run of its own");
    let child = &compiled.subagents[0];
    assert_eq!(child.spec.role_prompt, "You look over changes.");
    assert!(child.limits.0[0].read_only && child.mcp_servers.is_empty());
    assert_eq!((task.budget.tokens, task.budget.usd), (Some(1000), Some(2.5)));
    assert_eq!(task.body.text, "Mend it.");
    assert_eq!(task.scope.files_whitelist.get(), ["src/**"]);
    assert!(task.agent.hosts.is_empty() && task.agent.secrets.is_empty());
}

#[test]
fn every_limit_of_the_tool_profile_takes_effect() {
    let world = World::good();
    let policy = policy_as(&world, None);
    assert_eq!(shell(&policy, "cargo test --all"), Outcome::Allow);
    assert_eq!(shell(&policy, "cargo testing"), Outcome::Deny);
    assert_eq!(shell(&policy, "cargo test && curl x"), Outcome::Deny);
    assert_eq!(read(&policy), Outcome::Allow);
    assert_eq!(write(&policy, "/w/src/a.rs"), Outcome::Allow);
    assert_eq!(write(&policy, "/w/docs/a.md"), Outcome::Deny, "outside of the stack's scope");
    let fetch = json!({ "url": "http://localhost", "prompt": "x" });
    assert_eq!(outcome(&policy, "WebFetch", fetch), Outcome::Deny, "the network is off");
}

#[test]
fn every_layer_can_narrow_the_commands_and_none_can_widen_them() {
    let allowed = |world: &World| shell(&policy_as(world, None), "cargo test");
    let good = World::good();
    assert_eq!(allowed(&good), Outcome::Allow);
    let mut world = good.clone();
    world.set_stack("/deniedCommands", json!(["cargo *"]));
    assert_eq!(allowed(&world), Outcome::Deny);
    let mut world = good.clone();
    world.set_stack("/allowedCommands", json!(["ls"]));
    assert_eq!(allowed(&world), Outcome::Deny);
    let mut world = good.clone();
    world.set(Kind::AgentToolProfile, "tools", "/deniedCommands", json!(["cargo test"]));
    assert_eq!(allowed(&world), Outcome::Deny);
    let mut world = good.clone();
    world.set(Kind::Repository, "web", "/policy/deniedCommands", json!(["cargo"]));
    assert_eq!(allowed(&world), Outcome::Deny);
    let mut world = good.clone();
    world.set(Kind::AgentToolProfile, "tools", "/nativeTools/shell", json!(false));
    assert_eq!(allowed(&world), Outcome::Deny);
    let mut world = good.clone();
    world.set(Kind::AgentToolProfile, "tools", "/allowedCommands", json!([]));
    assert_eq!(allowed(&world), Outcome::Deny, "an empty list allows nothing");
    // A denial of the role stays, even if the tool profile allows the command.
    let mut world = good;
    world.set(
        Kind::AgentToolProfile,
        "tools",
        "/allowedCommands",
        json!(["git push", "cargo test"]),
    );
    assert_eq!(allowed(&world), Outcome::Allow);
    assert_eq!(shell(&policy_as(&world, None), "git push"), Outcome::Deny);
}

#[test]
fn filesystem_policies_take_effect_on_tools_and_shell() {
    let with = |policy: &str| {
        let mut world = World::good();
        world.set(Kind::AgentToolProfile, "tools", "/filesystemPolicy", json!(policy));
        policy_as(&world, None)
    };
    let read_only = with("read-only");
    assert_eq!(
        (read(&read_only), write(&read_only, "/w/src/a.rs")),
        (Outcome::Allow, Outcome::Deny)
    );
    assert_eq!(shell(&read_only, "cargo test > src/out"), Outcome::Deny);
    let none = with("no-fs");
    assert_eq!((read(&none), write(&none, "/w/src/a.rs")), (Outcome::Deny, Outcome::Deny));
    assert_eq!(shell(&none, "ls"), Outcome::Deny, "a shell can read files");
    let mut world = World::good();
    world.set_stack("/scope/filesWhitelist", json!(["**"]));
    let free = policy_as(&world, None);
    assert_eq!(write(&free, "/w/target/x"), Outcome::Allow);
    world.set(Kind::AgentToolProfile, "tools", "/filesystemPolicy", json!("repo-write"));
    let tracked = policy_as(&world, None);
    assert_eq!(write(&tracked, "/w/target/x"), Outcome::Deny, "the path is ignored by git");
    assert_eq!(write(&tracked, "/w/src/a.rs"), Outcome::Allow);
}

#[test]
fn approvals_by_tool_class_and_approval_mode_decide_the_outcome() {
    let with = |approval: &str, mode: &str| {
        let mut world = World::good();
        world.set(Kind::AgentToolProfile, "tools", "/approvalPolicyByTool/shell", json!(approval));
        world.set(Kind::AgentToolProfile, "tools", "/allowedCommands", json!(["*"]));
        world.set_stack("/approvalMode", json!(mode));
        policy_as(&world, None)
    };
    for (approval, mode, plain, privileged) in [
        ("allow", "policy-derived", Outcome::Allow, Outcome::Allow),
        ("prompt", "policy-derived", Outcome::Ask, Outcome::Ask),
        ("prompt", "prompt", Outcome::Ask, Outcome::Ask),
        ("prompt", "deny", Outcome::Deny, Outcome::Deny),
        ("prompt", "yolo", Outcome::Allow, Outcome::Allow),
        ("prompt-on-denied-or-privileged", "policy-derived", Outcome::Allow, Outcome::Ask),
        ("prompt-on-denied-or-privileged", "deny", Outcome::Allow, Outcome::Deny),
        ("deny", "yolo", Outcome::Deny, Outcome::Deny),
    ] {
        let policy = with(approval, mode);
        assert_eq!(shell(&policy, "cargo test"), plain, "{approval} {mode}");
        assert_eq!(shell(&policy, "docker ps"), privileged, "{approval} {mode}");
        assert_eq!(read(&policy), Outcome::Allow, "{approval} {mode}");
    }
}

#[test]
fn rule_can_require_approval_for_every_call() {
    let mut world = World::good();
    world.approval_policy =
        ApprovalPolicy { require_for: vec![ApprovalReason::ToolCall], expires_after: None };
    let policy = policy_as(&world, None);
    assert_eq!((read(&policy), shell(&policy, "cargo test")), (Outcome::Ask, Outcome::Ask));
    assert_eq!(outcome(&policy, "TodoWrite", json!({ "todos": [] })), Outcome::Allow);
    // A rule's approval does not bypass a stack that denies instead of asking.
    world.set_stack("/approvalMode", json!("deny"));
    let policy = policy_as(&world, None);
    assert_eq!((read(&policy), shell(&policy, "cargo test")), (Outcome::Deny, Outcome::Deny));
    assert_eq!(outcome(&policy, "TodoWrite", json!({ "todos": [] })), Outcome::Allow);
}

#[test]
fn child_has_fewer_rights_than_its_parent() {
    let mut world = World::good();
    let parent = policy_as(&world, None);
    let child = policy_as(&world, Some("reviewer"));
    assert_eq!(
        (write(&parent, "/w/src/a.rs"), write(&child, "/w/src/a.rs")),
        (Outcome::Allow, Outcome::Deny)
    );
    assert_eq!(shell(&child, "cargo test"), Outcome::Allow);
    let compiled = compiled_as(&world, Some("reviewer")).unwrap();
    assert!(compiled.mcp_servers.is_empty() && !compiled.task.contains("subagents"));
    assert!(compiled.subagents.is_empty(), "a sub-agent has no sub-agents");
    assert!(compiled.task.contains("You look over changes."));
    world.set(Kind::AgentSubagent, "reviewer", "/toolRefs", json!(["Read"]));
    let child = policy_as(&world, Some("reviewer"));
    assert_eq!((read(&child), shell(&child, "cargo test")), (Outcome::Allow, Outcome::Deny));
    world.set(Kind::AgentSubagent, "reviewer", "/workspaceScope", json!("no-workspace"));
    assert_eq!(read(&policy_as(&world, Some("reviewer"))), Outcome::Deny);
}

#[test]
fn server_with_read_only_tools_allows_reads_and_asks_for_the_rest() {
    let world = World::good();
    let compiled = compiled_as(&world, None).unwrap();
    let allowed_and_asked = |tool: &str| {
        let asked = compiled.limits.0.iter().any(|limit| limit.ask_tools.iter().any(|t| t == tool));
        let listed = compiled.limits.0.iter().filter_map(|limit| limit.allow_tools.as_ref());
        let allowed = listed.flatten().any(|t| t == tool);
        (allowed, asked)
    };
    assert_eq!(allowed_and_asked("mcp__docs__search"), (true, false));
    assert_eq!(allowed_and_asked("mcp__docs__post"), (true, true));
    assert_eq!(
        allowed_and_asked("mcp__docs__new"),
        (false, false),
        "a tool that was not discovered is denied"
    );
    let mut undiscovered = world;
    undiscovered.facts.mcp.clear();
    let compiled = compiled_as(&undiscovered, None).unwrap();
    let asks =
        |limit: &bailiwick_policy::Limit| limit.ask_tools.iter().any(|t| t == "mcp__docs__*");
    assert!(compiled.limits.0.iter().any(asks));
}

/// The limits alone: the role allows every tool.
fn policy_of_limits(world: &World) -> Policy {
    let compiled = compiled_as(world, None).unwrap_or_else(|faults| panic!("{faults:?}"));
    let mut policy = embedded_kit::policy(&compiled.task);
    policy.tools = Some(vec!["*".to_owned()]);
    compiled.limits.apply_to(policy).unwrap()
}

#[test]
fn tool_lists_of_a_server_apply_only_to_its_own_tools() {
    let tool = |policy: &Policy, name: &str| outcome(policy, name, json!({}));
    let mut world = World::good();
    world.set(Kind::AgentMcpServer, "docs", "/approvalPolicy", json!("allow"));
    let free = policy_of_limits(&world);
    assert_eq!(tool(&free, "mcp__docs__search"), Outcome::Allow);
    assert_eq!(tool(&free, "mcp__docs__post"), Outcome::Allow);
    for (field, list) in [("/allowedTools", json!(["se*"])), ("/deniedTools", json!(["post"]))] {
        let mut world = world.clone();
        world.set(Kind::AgentMcpServer, "docs", field, list);
        let limited = policy_of_limits(&world);
        assert_eq!(tool(&limited, "mcp__docs__search"), Outcome::Allow, "{field}");
        assert_eq!(tool(&limited, "mcp__docs__post"), Outcome::Deny, "{field}");
        assert_eq!(tool(&limited, "mcp__bailiwick__spawn_agent"), Outcome::Allow, "{field}");
        assert_eq!(read(&limited), Outcome::Allow, "{field}");
        assert_eq!(shell(&limited, "cargo test"), Outcome::Allow, "{field}");
    }
    world.set(Kind::AgentMcpServer, "docs", "/allowedTools", json!([]));
    assert_eq!(tool(&policy_of_limits(&world), "mcp__docs__search"), Outcome::Deny);
}

#[test]
fn stack_with_subagents_denies_the_native_agent_tool() {
    let mut world = World::good();
    let own = json!({ "agent_type": "reviewer", "message": "x" });
    let native = json!({ "description": "x", "prompt": "x", "subagent_type": "general" });
    let declared = policy_of_limits(&world);
    assert_eq!(outcome(&declared, "mcp__bailiwick__spawn_agent", own), Outcome::Allow);
    assert_eq!(outcome(&declared, "Task", native.clone()), Outcome::Deny);
    world.set_stack("/subagentRefs", json!([]));
    assert_eq!(outcome(&policy_of_limits(&world), "Task", native), Outcome::Allow);
}

#[test]
fn server_with_a_reserved_name_or_without_network_access_is_a_fault() {
    let fault = |change: &dyn Fn(&mut World)| {
        let mut world = World::good();
        change(&mut world);
        let faults = compiled_as(&world, None).unwrap_err();
        assert!(faults.iter().all(|one| one.reason == Reason::McpServerNotAllowed), "{faults:?}");
    };
    for name in ["bailiwick", "a b", "a__b", "docs*"] {
        fault(&|world| world.set(Kind::AgentMcpServer, "docs", "/name", json!(name)));
    }
    let remote = |world: &mut World| {
        for (field, value) in [
            ("/transport", json!("streamable-http")),
            ("/url", json!("https://docs.example/mcp")),
            ("/command", json!(null)),
        ] {
            world.set(Kind::AgentMcpServer, "docs", field, value);
        }
    };
    fault(&remote);
    let mut world = World::good();
    remote(&mut world);
    let open = json!({ "mode": "allowlist", "allowHosts": ["docs.example"] });
    world.set(Kind::AgentToolProfile, "tools", "/networkPolicy", open);
    let compiled = compiled_as(&world, None).unwrap();
    assert!(compiled.task.contains("docs.example:443"), "{}", compiled.task);
}

#[test]
fn allowed_hosts_come_from_the_tool_profile() {
    let hosts = |policy: Value, clone_url: Option<&str>| {
        let mut world = World::good();
        world.set(Kind::AgentToolProfile, "tools", "/networkPolicy", policy);
        world.set(Kind::Repository, "web", "/cloneUrl", json!(clone_url));
        compiled_as(&world, None).map(|compiled| {
            let task = embedded_kit::bound(&compiled.task).task;
            task.agent.hosts.iter().map(ToString::to_string).collect::<Vec<_>>()
        })
    };
    let list = json!({ "mode": "allowlist", "allowHosts": ["crates.example", "Example.org:8443"] });
    assert_eq!(hosts(list, None).unwrap(), ["crates.example:443", "example.org:8443"]);
    let only = json!({ "mode": "repository-host-only" });
    assert_eq!(
        hosts(only.clone(), Some("https://me:x@git.acme.dev/acme/web")).unwrap(),
        ["git.acme.dev:443"]
    );
    let reasons = |result: Result<_, Vec<CompileFault>>| {
        result.map(|_: Vec<String>| ()).unwrap_err()[0].reason
    };
    assert_eq!(reasons(hosts(only, None)), Reason::NetworkPolicyMissing);
    let any = json!({ "mode": "unrestricted-with-approval" });
    assert_eq!(reasons(hosts(any, None)), Reason::NetworkPolicyMissing);
    let odd = json!({ "mode": "allowlist", "allowHosts": ["*"] });
    assert_eq!(reasons(hosts(odd, None)), Reason::NetworkPolicyMissing);
}

#[test]
fn limit_that_no_rule_can_enforce_is_refused() {
    let fault = |change: fn(&mut World)| {
        let mut world = World::good();
        change(&mut world);
        compiled_as(&world, None).unwrap_err()[0].reason
    };
    assert_eq!(
        fault(|world| world.set_stack("/allowedCommands", json!(["  "]))),
        Reason::DeniedShellCommand
    );
    assert_eq!(
        fault(|world| world.set(Kind::AgentToolProfile, "tools", "/nativeTools/mcp", json!(false))),
        Reason::McpServerNotAllowed
    );
    assert_eq!(
        fault(|world| {
            world.set(Kind::AgentToolProfile, "tools", "/nativeTools/subagents", json!(false));
        }),
        Reason::SubagentDispatchUnsupported
    );
    assert_eq!(
        fault(|world| world.set_stack("/login", json!("magic"))),
        Reason::UnsupportedProvider
    );
    assert_eq!(
        fault(|world| world.set_stack("/scope/filesWhitelist", json!(["../x"]))),
        Reason::FilesystemScopeTooBroad
    );
    assert_eq!(
        fault(|world| world.set_stack("/budget/tokens", json!(0))),
        Reason::PermissionRequirementsBlocked
    );
}

#[test]
fn script_stack_compiles_into_its_steps() {
    let mut world = World::good();
    let script = |world: &World, child: Option<&str>| {
        let task = compiled_as(world, child).unwrap().task.parse::<toml::Table>().unwrap();
        task["agent"].get("script").cloned()
    };
    assert_eq!(script(&world, None), None);
    world.set_stack("/baseAgent", json!("script"));
    world.set_stack(
        "/script",
        json!([{ "do": "shell", "command": "ls" }, { "do": "exit", "code": 3 }]),
    );
    let steps = script(&world, None).unwrap();
    assert_eq!(steps[0]["command"].as_str(), Some("ls"));
    assert_eq!((steps[1]["do"].as_str(), steps[1]["code"].as_integer()), (Some("exit"), Some(3)));
    assert_eq!(script(&world, Some("reviewer")), None, "the script belongs to the stack only");
    // No other program can run a script.
    let faults = |world: &mut World| {
        let object = world.objects[&(Kind::AgentStack, "fixer".to_owned())].clone();
        let stack: Object<bailiwick_resources::AgentStack> = object.typed().unwrap();
        bailiwick_resources::Resource::faults(&stack.spec).len()
    };
    assert_eq!(faults(&mut world), 0);
    world.set_stack("/baseAgent", json!("claude-code"));
    assert_eq!(faults(&mut world), 1);
}

#[test]
fn files_are_launched_only_for_directory_and_package_skills() {
    let mut world = World::good();
    assert_eq!(compiled_as(&world, None).unwrap().skills, []);
    let skill = (Kind::AgentSkill, "runbook");
    world.set(skill.0, skill.1, "/format", json!("directory"));
    world.set(skill.0, skill.1, "/sourceRef", json!({ "path": "skills/runbook" }));
    let compiled = compiled_as(&world, None).unwrap();
    let (name, path) = ("runbook".to_owned(), "skills/runbook".to_owned());
    assert_eq!(compiled.skills, [SkillFiles { name, path, package: None }]);
    assert_eq!(compiled.launch_limits().skills[0].path, "skills/runbook");
    world.set(skill.0, skill.1, "/format", json!("file"));
    assert_eq!(compiled_as(&world, None).unwrap().skills, []);
    let package = format!("runbook@sha256:{}", "a".repeat(64));
    world.set(skill.0, skill.1, "/format", json!("package"));
    world.set(skill.0, skill.1, "/sourceRef", json!({ "package": package }));
    let compiled = compiled_as(&world, None).unwrap();
    assert_eq!(compiled.skills[0].package.as_deref(), Some(package.as_str()));
}

#[test]
fn denial_names_the_owner_of_the_limit() {
    let mut world = World::good();
    world.set(Kind::Repository, "web", "/policy/deniedCommands", json!(["cargo"]));
    let policy = policy_as(&world, None);
    let payload = json!({
        "tool_name": "Bash", "tool_input": { "command": "cargo test" }, "cwd": "/w",
    });
    let call = Dialect::Claude.read(payload.to_string().as_bytes(), &[]).unwrap();
    let facts = Facts { root: "/w".into(), directory: Some("/w".into()), ..Facts::default() };
    let because = decide(&policy, &call, &facts).because.unwrap();
    assert_eq!(because.rule, "limit::denied-commands");
    assert!(
        because.reason.starts_with("the repository acme/web does not allow it: "),
        "{}",
        because.reason
    );
}
