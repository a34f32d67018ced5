//! Each real CLI spawns an agent through `bailiwick mcp`: a gated run of its own with no more permissions
//! than its parent, whatever its template says.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bailiwick_testkit::Depth;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::{Value, json};

use super::stage::Stage;

/// A role without limits.
pub(super) const UNLIMITED_ROLE: &str =
    "[role]\nname = \"free\"\ndescription = \"Anything.\"\n[tools]\nallowed = [\"*\"]\n";
const HELPER: &str = "---\ndescription: Helps with one thing.\nrole: free\ndeny_list:\n  - \
                      spawn_agent\n---\nYou help.\n";
/// A program of the repository that calls the supervisor directly, not through the agent program.
const KNOCK: &str = r#"#!/usr/bin/perl
use IO::Socket::UNIX;
my $s = IO::Socket::UNIX->new(Peer => "/run/bailiwick/gate/delegate.sock") or die "no socket: $!";
print $s '{"tool":"spawn_agent","arguments":{"message":"x","agent_type":"helper"}}' . "\n";
$s->flush();
print <$s>;
"#;
const MARKER: &str = "HELPER-WORK";

pub(super) fn tool_name(cli: Cli, tool: &str) -> String {
    match cli {
        Cli::Claude => format!("mcp__bailiwick__{tool}"),
        Cli::Codex => format!("mcp__bailiwick.{tool}"),
        Cli::Gemini => format!("mcp_bailiwick_{tool}"),
        Cli::OpenCode => format!("bailiwick_{tool}"),
    }
}

fn spawns_gated_agent(cli: Cli) {
    let stage = Stage::new(cli);
    stage.scratch.write(".bailiwick/roles/free.toml", UNLIMITED_ROLE);
    stage.scratch.write(".bailiwick/agents/helper.md", HELPER);
    stage.scratch.write("src/knock", KNOCK);
    let knock = stage.scratch.root().join("src/knock");
    std::fs::set_permissions(knock, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.scratch.commit("Add a helper");
    let call =
        |tool: &str, input: Value| Turn::Calls(vec![Call::raw(&tool_name(cli, tool), input)]);
    let spawn =
        || json!({"agent_type": "helper", "message": format!("{MARKER}: write two files.")});
    // At full depth it takes longer than the default tool timeout of the programs.
    let slow_turns = match Depth::from_env() {
        Depth::Ci => 0,
        Depth::Full => 8,
    };
    let script = Script::new(vec![
        call("list_agents", json!({})),
        call("spawn_agent", spawn()),
        call("wait", json!({"ids": ["{{agent_id}}"], "timeout_ms": 170_000})),
        call("close_agent", json!({"id": "{{agent_id}}"})),
        Turn::say("finished"),
    ])
    .when(MARKER, {
        let work_turns = [
            Turn::Calls(vec![Call::shell("echo in > src/helped.txt")]),
            Turn::Calls(vec![Call::shell("echo out > outside.txt")]),
            call("spawn_agent", spawn()),
            Turn::Calls(vec![Call::shell("./src/knock > src/knocked.txt 2>&1; true")]),
            Turn::say("I have helped"),
        ];
        // Each call differs, because some programs end an agent that repeats the same call.
        let sleep = |n: usize| Turn::Calls(vec![Call::shell(format!("sleep 9; echo {n}"))]);
        (0..slow_turns).map(sleep).chain(work_turns).collect()
    });
    let agent = stage.agent("parent").task("allowed-subagents = [\"helper\"]");
    let ended = agent.run(script);
    // The tool description lists the types that it may spawn; Codex shows tools only after a search.
    if cli != Cli::Codex {
        let requests = ended.model.requests();
        let has = |text: &str| requests.iter().any(|one| one.body.to_string().contains(text));
        assert!(has("- helper: Helps with one thing.") && !has("- worker: "));
    }
    tool_timeout_is_long_enough(cli, &agent.directory().join("home"));
    let results = ended.model.results();
    let result = |call: &str| {
        let found = results.iter().find(|result| result.call == call);
        found
            .map(|result| result.text.replace('\\', ""))
            .unwrap_or_else(|| panic!("{call}: {results:#?}\n{:#}", ended.report))
    };
    ended.expect("completed", 0);
    let listed = result("call_0_0_0");
    assert!(listed.contains("helper") && listed.contains("Helps with one thing."), "{listed}");
    assert!(result("call_0_1_0").contains("agent_id"), "{}", result("call_0_1_0"));
    let wait_result = result("call_0_2_0");
    assert!(
        wait_result.contains("I have helped") && wait_result.contains("completed"),
        "{wait_result}"
    );
    // Its allowed call had an effect; the call that its parent may not make had none.
    let child = child(&stage, "parent");
    let worktree = stage.scratch.state().join("worktrees").join(&child);
    assert_eq!(std::fs::read_to_string(worktree.join("src/helped.txt")).unwrap(), "in\n");
    assert!(!worktree.join("outside.txt").exists());
    let denied_result = result(&format!("call_1_{}_0", slow_turns + 1));
    assert!(denied_result.contains("scope::files-whitelist"), "{denied_result}");
    let spawn_result = result(&format!("call_1_{}_0", slow_turns + 2));
    assert!(spawn_result.contains("template::tools"), "{spawn_result}");
    let direct_result = std::fs::read_to_string(worktree.join("src/knocked.txt")).unwrap();
    assert!(direct_result.contains("template::tools"), "{direct_result}");
    let logs = stage.bailiwick(&["logs", &child, "-o", "json"]);
    assert!(logs.out.contains("\"answer\":\"deny\""), "{}", logs.out);
    let tree = stage.bailiwick(&["agents", "tree", "--all"]);
    assert!(tree.out.contains(&child) && tree.out.contains("helper"), "{}{}", tree.out, tree.err);
}

/// Asserts that the tool timeout of the program is longer than the maximum wait.
fn tool_timeout_is_long_enough(cli: Cli, home: &Path) {
    const MAX_LENGTH: u64 = 1_800;
    let json = |file: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(home.join(file)).unwrap()).unwrap()
    };
    let seconds = match cli {
        // Its own limit is practically infinite.
        Cli::Claude => return,
        Cli::Codex => {
            let text = std::fs::read_to_string(home.join(".codex/config.toml")).unwrap();
            let settings: toml::Table = text.parse().unwrap();
            let seconds = &settings["mcp_servers"]["bailiwick"]["tool_timeout_sec"];
            u64::try_from(seconds.as_integer().unwrap()).unwrap()
        }
        Cli::Gemini => {
            let settings = json(".gemini/settings.json");
            settings["mcpServers"]["bailiwick"]["timeout"].as_u64().unwrap() / 1_000
        }
        Cli::OpenCode => {
            let settings = json(".config/opencode/opencode.json");
            settings["mcp"]["bailiwick"]["timeout"].as_u64().unwrap() / 1_000
        }
    };
    assert!(seconds > MAX_LENGTH, "{seconds}");
}

/// A reservation is taken from the parent's budget; the unused part is returned.
#[test]
fn budget_is_reserved_and_the_rest_returned() {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/agents/helper.md", HELPER.replace("role: free\n", "").as_str());
    stage.scratch.commit("Add a helper");
    let call = |tool: &str, input: Value| {
        Turn::Calls(vec![Call::raw(&tool_name(Cli::Claude, tool), input)])
    };
    let spawn = |tokens: Value| {
        let message = format!("{MARKER}: say something.");
        json!({"agent_type": "helper", "message": message, "estimated_tokens": tokens})
    };
    let script = Script::new(vec![
        call("spawn_agent", spawn(json!(null))),
        call("spawn_agent", spawn(json!(60_000))),
        call("spawn_agent", spawn(json!(40_000))),
        call("spawn_agent", spawn(json!(40_000))),
        call("wait", json!({"ids": ["{{agent_id}}"], "timeout_ms": 170_000})),
        call("spawn_agent", spawn(json!(40_000))),
        call("wait", json!({"ids": ["{{agent_id}}"], "timeout_ms": 170_000})),
        Turn::say("finished"),
    ])
    .when(MARKER, vec![Turn::say("said")]);
    let task = "allowed-subagents = [\"helper\"]\n[budget]\ntokens = 100000\n";
    let agent = stage.agent("parent").task(task);
    let ended = agent.run(script);
    ended.expect("completed", 0);
    let result = |call: &str| ended.model.result(call).replace('\\', "");
    assert!(result("call_0_0_0").contains("nobody knows what"), "{}", result("call_0_0_0"));
    assert!(result("call_0_1_0").contains("60000"), "{}", result("call_0_1_0"));
    assert!(result("call_0_2_0").contains("agent_id"), "{}", result("call_0_2_0"));
    // 60000 are left while the first reservation lasts, and 40000 are more than half of that.
    assert!(!result("call_0_3_0").contains("agent_id"), "{}", result("call_0_3_0"));
    assert!(result("call_0_4_0").contains("said"), "{}", result("call_0_4_0"));
    assert!(result("call_0_5_0").contains("agent_id"), "{}", result("call_0_5_0"));
    let tree = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]);
    let nodes: Vec<Value> = serde_json::from_str(&tree.out).unwrap();
    assert_eq!(nodes.len(), 3, "{nodes:#?}");
    let (parent, children) = nodes.split_first().unwrap();
    let used: u64 = children.iter().map(|node| node["used"]["tokens"].as_u64().unwrap()).sum();
    assert!(used > 0, "{nodes:#?}");
    assert_eq!(parent["given"]["tokens"], used, "{nodes:#?}");
    assert_eq!(parent["budget"]["tokens"].as_u64().unwrap() + used, 100_000, "{nodes:#?}");
    assert!(children.iter().all(|node| node["budget"]["tokens"] == 40_000), "{nodes:#?}");
}

/// The only run that `parent` has spawned.
pub(super) fn child(stage: &Stage, parent: &str) -> String {
    let listed = stage.bailiwick(&["ledger", "list", "-o", "json"]);
    let runs: Value = serde_json::from_str(&listed.out).unwrap_or_else(|_| panic!("{listed:?}"));
    let runs = runs.as_array().cloned().unwrap_or_default();
    let children: Vec<_> = runs.iter().filter(|run| run["parent_branch"] == parent).collect();
    assert_eq!(children.len(), 1, "{runs:#?}");
    children[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn claude_spawns_a_gated_agent() {
    spawns_gated_agent(Cli::Claude);
}

#[test]
fn codex_spawns_a_gated_agent() {
    spawns_gated_agent(Cli::Codex);
}

#[test]
fn gemini_spawns_a_gated_agent() {
    spawns_gated_agent(Cli::Gemini);
}

#[test]
fn opencode_spawns_a_gated_agent() {
    spawns_gated_agent(Cli::OpenCode);
}
