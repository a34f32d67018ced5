//! Each real CLI starts an agent through `bailiwick mcp`: a run of its own, gated, that may do no more
//! than the one that started it, whatever its template says.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bailiwick_testkit::Depth;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::{Value, json};

use super::stage::Stage;

/// It limits nothing by itself.
pub(super) const FREE: &str =
    "[role]\nname = \"free\"\ndescription = \"Anything.\"\n[tools]\nallowed = [\"*\"]\n";
const HELPER: &str = "---\ndescription: Helps with one thing.\nrole: free\ndeny_list:\n  - \
                      spawn_agent\n---\nYou help.\n";
/// A program of the repository that asks the supervisor itself, past the agent program.
const KNOCK: &str = r#"#!/usr/bin/perl
use IO::Socket::UNIX;
my $s = IO::Socket::UNIX->new(Peer => "/run/bailiwick/gate/delegate.sock") or die "no socket: $!";
print $s '{"tool":"spawn_agent","arguments":{"message":"x","agent_type":"helper"}}' . "\n";
$s->flush();
print <$s>;
"#;
const MARKER: &str = "HELPER-WORK";

pub(super) fn name(cli: Cli, tool: &str) -> String {
    match cli {
        Cli::Claude => format!("mcp__bailiwick__{tool}"),
        Cli::Codex => format!("mcp__bailiwick.{tool}"),
        Cli::Gemini => format!("mcp_bailiwick_{tool}"),
        Cli::OpenCode => format!("bailiwick_{tool}"),
    }
}

fn delegates(cli: Cli) {
    let stage = Stage::new(cli);
    stage.scratch.write(".bailiwick/roles/free.toml", FREE);
    stage.scratch.write(".bailiwick/agents/helper.md", HELPER);
    stage.scratch.write("src/knock", KNOCK);
    let knock = stage.scratch.root().join("src/knock");
    std::fs::set_permissions(knock, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.scratch.commit("Add a helper");
    let call = |tool: &str, input: Value| Turn::Calls(vec![Call::raw(&name(cli, tool), input)]);
    let spawn =
        || json!({"agent_type": "helper", "message": format!("{MARKER}: write two files.")});
    // At full depth it takes longer than programs wait for a tool by themselves.
    let slow = match Depth::from_env() {
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
        let works = [
            Turn::Calls(vec![Call::shell("echo in > src/helped.txt")]),
            Turn::Calls(vec![Call::shell("echo out > outside.txt")]),
            call("spawn_agent", spawn()),
            Turn::Calls(vec![Call::shell("./src/knock > src/knocked.txt 2>&1; true")]),
            Turn::say("I have helped"),
        ];
        // Each call differs, because some programs end an agent that repeats the same call.
        let sleep = |n: usize| Turn::Calls(vec![Call::shell(format!("sleep 9; echo {n}"))]);
        (0..slow).map(sleep).chain(works).collect()
    });
    let agent = stage.agent("parent").task("allowed-subagents = [\"helper\"]");
    let ended = agent.run(script);
    // Its model is told which types it may start; Codex shows it tools only when it searches for some.
    if cli != Cli::Codex {
        let asked = ended.model.requests();
        let told = |text: &str| asked.iter().any(|one| one.body.to_string().contains(text));
        assert!(told("- helper: Helps with one thing.") && !told("- worker: "));
    }
    waits_long_enough(cli, &agent.directory().join("home"));
    let results = ended.model.results();
    let told = |call: &str| {
        let found = results.iter().find(|result| result.call == call);
        found
            .map(|result| result.text.replace('\\', ""))
            .unwrap_or_else(|| panic!("{call}: {results:#?}\n{:#}", ended.said))
    };
    ended.expect("completed", 0);
    let listed = told("call_0_0_0");
    assert!(listed.contains("helper") && listed.contains("Helps with one thing."), "{listed}");
    assert!(told("call_0_1_0").contains("agent_id"), "{}", told("call_0_1_0"));
    let waited = told("call_0_2_0");
    assert!(waited.contains("I have helped") && waited.contains("completed"), "{waited}");
    // What it may do has happened, what the one above may not has not.
    let child = child(&stage, "parent");
    let worktree = stage.scratch.state().join("worktrees").join(&child);
    assert_eq!(std::fs::read_to_string(worktree.join("src/helped.txt")).unwrap(), "in\n");
    assert!(!worktree.join("outside.txt").exists());
    let denied = told(&format!("call_1_{}_0", slow + 1));
    assert!(denied.contains("scope::files-whitelist"), "{denied}");
    let spawned = told(&format!("call_1_{}_0", slow + 2));
    assert!(spawned.contains("template::tools"), "{spawned}");
    let knocked = std::fs::read_to_string(worktree.join("src/knocked.txt")).unwrap();
    assert!(knocked.contains("template::tools"), "{knocked}");
    let held = stage.bailiwick(&["logs", &child, "-o", "json"]);
    assert!(held.out.contains("\"answer\":\"deny\""), "{}", held.out);
    let tree = stage.bailiwick(&["agents", "tree", "--all"]);
    assert!(tree.out.contains(&child) && tree.out.contains("helper"), "{}{}", tree.out, tree.err);
}

/// What the program was told: how long its tools may take, which is longer than one may wait.
fn waits_long_enough(cli: Cli, home: &Path) {
    const MAX_LENGTH: u64 = 1_800;
    let json = |file: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(home.join(file)).unwrap()).unwrap()
    };
    let seconds = match cli {
        // It has no limit of its own to speak of.
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

/// What is reserved goes off the budget of the one above, and comes back but for what was used.
#[test]
fn a_budget_is_reserved_and_given_back() {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/agents/helper.md", HELPER.replace("role: free\n", "").as_str());
    stage.scratch.commit("Add a helper");
    let call =
        |tool: &str, input: Value| Turn::Calls(vec![Call::raw(&name(Cli::Claude, tool), input)]);
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
    let told = |call: &str| ended.model.result(call).replace('\\', "");
    assert!(told("call_0_0_0").contains("nobody knows what"), "{}", told("call_0_0_0"));
    assert!(told("call_0_1_0").contains("60000"), "{}", told("call_0_1_0"));
    assert!(told("call_0_2_0").contains("agent_id"), "{}", told("call_0_2_0"));
    // Of what is left, 40000 is more than half as long as the first has its own.
    assert!(!told("call_0_3_0").contains("agent_id"), "{}", told("call_0_3_0"));
    assert!(told("call_0_4_0").contains("said"), "{}", told("call_0_4_0"));
    assert!(told("call_0_5_0").contains("agent_id"), "{}", told("call_0_5_0"));
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

/// The one run that another one started.
pub(super) fn child(stage: &Stage, parent: &str) -> String {
    let listed = stage.bailiwick(&["ledger", "list", "-o", "json"]);
    let runs: Value = serde_json::from_str(&listed.out).unwrap_or_else(|_| panic!("{listed:?}"));
    let runs = runs.as_array().cloned().unwrap_or_default();
    let below: Vec<_> = runs.iter().filter(|run| run["parent_branch"] == parent).collect();
    assert_eq!(below.len(), 1, "{runs:#?}");
    below[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn claude_starts_a_gated_agent() {
    delegates(Cli::Claude);
}

#[test]
fn codex_starts_a_gated_agent() {
    delegates(Cli::Codex);
}

#[test]
fn gemini_starts_a_gated_agent() {
    delegates(Cli::Gemini);
}

#[test]
fn opencode_starts_a_gated_agent() {
    delegates(Cli::OpenCode);
}
