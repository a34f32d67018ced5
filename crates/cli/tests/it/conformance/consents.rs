//! A person's approval of a call of a delegation tool is valid for that call, once. Programs in the sandbox cannot use
//! it.

use std::os::unix::fs::PermissionsExt as _;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::{Value, json};

use super::delegation::{child, tool_name};
use super::stage::Stage;

const HELPER: &str = "---\ndescription: Helps with one thing.\n---\nYou help.\n";
/// A program of the repository that calls the supervisor itself until it is stopped, for an agent that no person has
/// approved.
const KNOCK: &str = r#"#!/usr/bin/perl
use IO::Socket::UNIX;
sub knock {
    my $s = IO::Socket::UNIX->new(Peer => "/run/bailiwick/gate/delegate.sock") or die "no socket: $!";
    print $s '{"tool":"spawn_agent","arguments":' . $_[0] . "}\n";
    $s->flush();
    print <$s>;
}
$| = 1;
if (@ARGV) {
    knock($ARGV[0]);
} else {
    for (1..1000) {
        last if -e "src/stop.txt";
        knock('{"agent_type":"helper","message":"OTHER-WORK"}');
        select(undef, undef, undef, 0.1);
    }
    print "END\n";
}
"#;

fn stage(cli: Cli) -> Stage {
    let stage = Stage::new(cli);
    let role = stage.scratch.read(".bailiwick/roles/worker.toml");
    let role = format!("{}ask = [\"mcp__bailiwick__spawn_agent\"]\n", role.trim_start());
    stage.scratch.write(".bailiwick/roles/worker.toml", &role);
    stage.scratch.write(".bailiwick/settings.toml", "[run]\napproval-seconds = 120\n");
    stage.scratch.write(".bailiwick/agents/helper.md", HELPER);
    stage.scratch.write("src/knock", KNOCK);
    let knock = stage.scratch.root().join("src/knock");
    std::fs::set_permissions(knock, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.scratch.commit("Ask for helpers");
    stage
}

fn call(cli: Cli, tool: &str, input: Value) -> Turn {
    Turn::Calls(vec![Call::raw(&tool_name(cli, tool), input)])
}

fn shell(command: &str) -> Turn {
    Turn::Calls(vec![Call::shell(command)])
}

/// Runs an agent with these turns around a call that needs an approval, and approves it.
fn run_and_approve(stage: &Stage, before: Vec<Turn>, after: Vec<Turn>) -> super::attempt::Ended {
    let cli = stage.cli;
    let arguments =
        json!({"agent_type": "helper", "message": "HELPER-WORK", "thread_note": "a note"});
    let turns = [
        before,
        vec![call(cli, "spawn_agent", arguments)],
        after,
        vec![
            call(cli, "wait", json!({"ids": ["{{agent_id}}"], "timeout_ms": 170_000})),
            Turn::say("finished"),
        ],
    ];
    let script = Script::new(turns.concat()).when("HELPER-WORK", vec![Turn::say("I have helped")]);
    let agent = stage.agent("parent").task("allowed-subagents = [\"helper\"]");
    let mut working = agent.start(script);
    let approvals = || stage.bailiwick(&["approvals", "list"]).out;
    working.wait_until("an approval is requested", || approvals().contains("parent 1"));
    let listed = approvals();
    for expected in ["spawn_agent", "helper", "HELPER-WORK", "a note"] {
        assert!(listed.contains(expected), "{expected}: {listed}");
    }
    stage.bailiwick(&["approvals", "approve", "parent", "1"]).expect_code(0);
    let ended = working.end();
    ended.expect("completed", 0);
    ended
}

fn agent_is_spawned_after_approval(cli: Cli) {
    let stage = stage(cli);
    let ended = run_and_approve(&stage, Vec::new(), Vec::new());
    let result = ended.model.result("call_0_0_0");
    assert!(result.contains("agent_id"), "{result}");
    let result = ended.model.result("call_0_1_0");
    assert!(result.contains("I have helped"), "{result}");
    child(&stage, "parent");
}

#[test]
fn codex_spawns_an_agent_after_approval() {
    agent_is_spawned_after_approval(Cli::Codex);
}

#[test]
fn gemini_spawns_an_agent_after_approval() {
    agent_is_spawned_after_approval(Cli::Gemini);
}

#[test]
fn opencode_spawns_an_agent_after_approval() {
    agent_is_spawned_after_approval(Cli::OpenCode);
}

#[test]
fn approval_is_valid_for_one_call_only() {
    let stage = stage(Cli::Claude);
    let before = vec![
        shell("nohup ./src/knock > src/other.txt 2>&1 &"),
        shell("until grep -q Err src/other.txt; do sleep 0.1; done"),
    ];
    let repeat_call =
        r#"./src/knock '{"agent_type":"helper","message":"HELPER-WORK","thread_note":"a note"}'"#;
    let after = vec![
        shell(&format!("{repeat_call} > src/again.txt 2>&1; sleep 1")),
        shell("touch src/stop.txt; until grep -q END src/other.txt; do sleep 0.1; done"),
    ];
    let ended = run_and_approve(&stage, before, after);
    let result = ended.model.result("call_0_2_0");
    assert!(result.contains("agent_id"), "{result}");
    let agent = stage.agent("parent");
    let (other, repeated) =
        (agent.text("src/other.txt").unwrap(), agent.text("src/again.txt").unwrap());
    let is_refused = |response: &str| response.contains("a person has to approve each use");
    let responses: Vec<&str> = other.lines().filter(|line| *line != "END").collect();
    assert!(
        responses.len() > 5 && responses.iter().all(|response| is_refused(response)),
        "{other}"
    );
    assert!(is_refused(&repeated), "{repeated}");
    // Only the approved child exists.
    child(&stage, "parent");
}
