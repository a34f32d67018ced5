//! A person's approval of a call of a delegation tool is valid for that call, once. Programs in the sandbox cannot use
//! it.

use std::os::unix::fs::PermissionsExt as _;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::{Value, json};

use super::delegation::{child, name};
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
    Turn::Calls(vec![Call::raw(&name(cli, tool), input)])
}

fn shell(command: &str) -> Turn {
    Turn::Calls(vec![Call::shell(command)])
}

/// Runs an agent with these turns around a call that needs an approval, and approves it.
fn approved(stage: &Stage, before: Vec<Turn>, after: Vec<Turn>) -> super::attempt::Ended {
    let cli = stage.cli;
    let asked = json!({"agent_type": "helper", "message": "HELPER-WORK", "thread_note": "a note"});
    let turns = [
        before,
        vec![call(cli, "spawn_agent", asked)],
        after,
        vec![
            call(cli, "wait", json!({"ids": ["{{agent_id}}"], "timeout_ms": 170_000})),
            Turn::say("finished"),
        ],
    ];
    let script = Script::new(turns.concat()).when("HELPER-WORK", vec![Turn::say("I have helped")]);
    let agent = stage.agent("parent").task("allowed-subagents = [\"helper\"]");
    let mut working = agent.start(script);
    let listed = || stage.bailiwick(&["approvals", "list"]).out;
    working.until("a person is asked", || listed().contains("parent 1"));
    let asked = listed();
    for words in ["spawn_agent", "helper", "HELPER-WORK", "a note"] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
    stage.bailiwick(&["approvals", "approve", "parent", "1"]).expect_code(0);
    let ended = working.end();
    ended.expect("completed", 0);
    ended
}

fn is_started_when_a_person_says_yes(cli: Cli) {
    let stage = stage(cli);
    let ended = approved(&stage, Vec::new(), Vec::new());
    let told = ended.model.result("call_0_0_0");
    assert!(told.contains("agent_id"), "{told}");
    let told = ended.model.result("call_0_1_0");
    assert!(told.contains("I have helped"), "{told}");
    child(&stage, "parent");
}

#[test]
fn codex_starts_an_agent_when_a_person_says_yes() {
    is_started_when_a_person_says_yes(Cli::Codex);
}

#[test]
fn gemini_starts_an_agent_when_a_person_says_yes() {
    is_started_when_a_person_says_yes(Cli::Gemini);
}

#[test]
fn opencode_starts_an_agent_when_a_person_says_yes() {
    is_started_when_a_person_says_yes(Cli::OpenCode);
}

#[test]
fn a_yes_is_for_one_call_and_for_no_other() {
    let stage = stage(Cli::Claude);
    let before = vec![
        shell("nohup ./src/knock > src/other.txt 2>&1 &"),
        shell("until grep -q Err src/other.txt; do sleep 0.1; done"),
    ];
    let again =
        r#"./src/knock '{"agent_type":"helper","message":"HELPER-WORK","thread_note":"a note"}'"#;
    let after = vec![
        shell(&format!("{again} > src/again.txt 2>&1; sleep 1")),
        shell("touch src/stop.txt; until grep -q END src/other.txt; do sleep 0.1; done"),
    ];
    let ended = approved(&stage, before, after);
    let told = ended.model.result("call_0_2_0");
    assert!(told.contains("agent_id"), "{told}");
    let agent = stage.agent("parent");
    let (other, again) =
        (agent.text("src/other.txt").unwrap(), agent.text("src/again.txt").unwrap());
    let refused = |answer: &str| answer.contains("a person has to approve each use");
    let knocks: Vec<&str> = other.lines().filter(|line| *line != "END").collect();
    assert!(knocks.len() > 5 && knocks.iter().all(|answer| refused(answer)), "{other}");
    assert!(refused(&again), "{again}");
    // Only the approved child exists.
    child(&stage, "parent");
}
