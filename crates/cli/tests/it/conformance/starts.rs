//! Failures while an agent starts, and the callers that wait for it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use super::client::Client;
use super::outside;
use super::stage::Stage;
use crate::BAILIWICK;

const HELPER: &str = "---\ndescription: Helps.\nrole: worker\ncli: claude-code\n---\nYou help.\n";
const SETTINGS: &str = "[run]\napproval-seconds = 1\n";
/// A program of the repository that calls the supervisor itself: it starts an agent, sends many `wait` calls without
/// reading the answers, and then lists the agents.
const CROWD: &str = r#"#!/usr/bin/perl
use IO::Socket::UNIX;
sub ask {
    my $s = IO::Socket::UNIX->new(Peer => "/run/bailiwick/gate/delegate.sock") or die "no socket: $!";
    print $s $_[0] . "\n";
    $s->flush();
    return $s;
}
my $s = ask('{"tool":"spawn_agent","arguments":{"message":"LEAF-WORK","agent_type":"helper"}}');
my $answer = <$s>;
my ($id) = $answer =~ /"agent_id":"([^"]+)"/ or die $answer;
for (1..40) {
    my $w = ask("{\"tool\":\"wait\",\"arguments\":{\"ids\":[\"$id\"]}}");
    select(undef, undef, undef, 0.05);
    close $w;
}
my $l = ask('{"tool":"list_active_agents","arguments":{}}');
print "LISTED ", <$l>;
my $c = ask("{\"tool\":\"close_agent\",\"arguments\":{\"id\":\"$id\"}}");
print "CLOSED ", <$c>;
"#;

fn stage(more: &str) -> Stage {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/agents/helper.md", HELPER);
    stage.scratch.write(".bailiwick/settings.toml", &format!("{SETTINGS}{more}"));
    stage.scratch.write("src/crowd", CROWD);
    let crowd = stage.scratch.root().join("src/crowd");
    std::fs::set_permissions(crowd, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.scratch.commit("Templates");
    stage
}

fn asked(message: &str) -> Value {
    json!({"message": message, "agent_type": "helper", "files": ["src/**"]})
}

fn works() -> ScriptedModel {
    let sleeps = Turn::Calls(vec![Call::shell("echo leaf > src/leaf.txt; sleep 1000")]);
    let script =
        Script::new(vec![Turn::say("done")]).when("LEAF-WORK", vec![sleeps, Turn::say("no")]);
    ScriptedModel::start(script)
}

fn id(spawned: &Value) -> String {
    spawned["agent_id"].as_str().unwrap_or_else(|| panic!("{spawned:#}")).to_owned()
}

fn statuses(stage: &Stage) -> Vec<String> {
    let told = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    let nodes: Vec<Value> = serde_json::from_str(&told.out).unwrap();
    nodes.iter().map(|node| node["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_a_killed_starter_left_is_found_and_settled() {
    let stage = stage("[delegation]\nmost-at-once = 1\n[claims]\non-overlap = \"wait\"\n");
    let task = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[body]\ntext = \
                \"x\"\n";
    let file = stage.scratch.place().join("holder.toml");
    std::fs::write(&file, task).unwrap();
    let file = file.display().to_string();
    stage.bailiwick(&["spawn", &file, "--agent-id", "holder"]).expect_code(0);
    let model = works();
    let mut client = Client::start(&stage, &model);
    // It waits for its claim, so it is pending.
    client.begin("tools/call", json!({"name": "spawn_agent", "arguments": asked("help")}));
    outside::wait("it waits for its claim", || {
        let queue = std::fs::read_dir(stage.scratch.state().join("bailiwick.db.waiting"));
        queue.is_ok_and(|queue| queue.flatten().any(|one| one.file_name() == "1"))
    });
    assert_eq!(statuses(&stage), ["pending_init"], "it is being started");
    // Other callers do not wait for that: they are told at once that the limit is reached.
    let mut other = Client::start(&stage, &model);
    let refused = other.refused("spawn_agent", asked("help"));
    assert!(refused.contains("agent thread limit reached (max 1)"), "{refused}");
    other.end();
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    assert_eq!(statuses(&stage), ["shutdown"]);
    // The killed start counts neither as a running agent nor as a waiting claim.
    stage.bailiwick(&["reject", "holder"]).expect_code(0);
    let mut client = Client::start(&stage, &model);
    let next = id(&client.call("spawn_agent", asked("help")).unwrap());
    let waited = client.call("wait", json!({"ids": [next], "timeout_ms": 170_000})).unwrap();
    assert_eq!(waited["status"][&next], json!({"completed": "done"}), "{waited:#}");
    client.end();
    assert_eq!(statuses(&stage), ["shutdown", "completed"]);
}

/// A copy of `bailiwick` that can be replaced, and a command that starts it.
fn own_program(stage: &Stage, model: &ScriptedModel) -> (PathBuf, Command) {
    let place = stage.scratch.place().join("programs");
    std::fs::create_dir(&place).unwrap();
    let program = place.join("bailiwick");
    if std::fs::hard_link(BAILIWICK, &program).is_err() {
        std::fs::copy(BAILIWICK, &program).unwrap();
    }
    let like = stage.command(Some(model), None);
    let mut command = Command::new(&program);
    command.env_clear().current_dir(like.get_current_dir().unwrap());
    for (name, value) in like.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    (program, command)
}

/// Replaces the program while it runs, so that it starts another program as its supervisor. That one never locks the
/// run, and writes its process id to the returned file.
fn never_begins(program: &Path) -> PathBuf {
    std::fs::remove_file(program).unwrap();
    let never = PathBuf::from(format!("{} (deleted)", program.display()));
    let mark = program.with_file_name("began");
    let text = format!("#!/bin/sh\necho $$ > '{}'\nexec sleep 1000\n", mark.display());
    std::fs::write(&never, text).unwrap();
    std::fs::set_permissions(&never, std::fs::Permissions::from_mode(0o755)).unwrap();
    mark
}

#[test]
fn a_start_that_takes_too_long_is_killed() {
    let stage = stage("");
    let model = works();
    let (program, command) = own_program(&stage, &model);
    let mut client = Client::of(command);
    let mark = never_begins(&program);
    let refused = client.refused("spawn_agent", asked("help"));
    assert!(refused.contains("it did not begin in time"), "{refused}");
    let process = std::fs::read_to_string(&mark).unwrap();
    assert!(!PathBuf::from("/proc").join(process.trim()).exists(), "{process} is alive");
    assert_eq!(client.call("list_active_agents", json!({})).unwrap(), json!({"agents": []}));
    client.end();
    assert_eq!(statuses(&stage), ["shutdown"]);
}

/// The child has its claim and is in the ledger, but has not started.
#[test]
fn a_child_whose_start_was_killed_with_its_parent_keeps_nothing() {
    let stage = stage("[claims]\n");
    let model = works();
    let (program, mut command) = own_program(&stage, &model);
    let task = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[agent]\ncli = \
                \"script\"\nallowed-subagents = [\"helper\"]\n[[agent.script]]\ndo = \"shell\"\ncommand \
                = \"touch src/ready; until [ -e src/go ]; do sleep 0.1; done; ./src/crowd\"\n[body]\n\
                text = \"x\"\n";
    let file = stage.scratch.place().join("parent.toml");
    std::fs::write(&file, task).unwrap();
    let mut parent = command.arg("run").arg(&file).args(["--agent-id", "parent"]).spawn().unwrap();
    let agent = stage.agent("parent");
    outside::wait("it is at work", || agent.text("src/ready").is_some());
    let mark = never_begins(&program);
    std::fs::write(agent.path("src/go"), "").unwrap();
    let process = || std::fs::read_to_string(&mark).ok()?.trim().parse::<u32>().ok();
    outside::wait("it starts another", || process().is_some());
    parent.kill().unwrap();
    parent.wait().unwrap();
    let started = process().unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &started]).status().unwrap().success());
    // A zombie has an empty command line.
    let command = PathBuf::from("/proc").join(&started).join("cmdline");
    outside::wait("the other is gone", || std::fs::read(&command).unwrap_or_default().is_empty());
    let looked = stage.bailiwick(&["ps"]).expect_code(0);
    assert!(looked.err.contains("the run `parent` was cut off"), "{}", looked.err);
    assert_eq!(statuses(&stage), ["errored", "shutdown"]);
    let listed = stage.bailiwick(&["claims", "list", "-o", "json"]).expect_code(0);
    let claims: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    let held: Vec<_> = claims.iter().map(|claim| claim["run"].as_str().unwrap()).collect();
    assert_eq!(held, ["parent"], "{claims:#?}");
    let listed = stage.bailiwick(&["ledger", "list", "-o", "json"]).expect_code(0);
    let runs: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    let below = runs.iter().find(|run| run["parent_branch"] == "parent").unwrap();
    assert_eq!(below["status"], "failed", "{below:#}");
}

#[test]
fn a_resumed_agent_counts_for_the_limit() {
    let stage = stage("[delegation]\nmost-at-once = 1\n");
    let model = works();
    let mut client = Client::start(&stage, &model);
    let first = id(&client.call("spawn_agent", asked("help")).unwrap());
    client.call("wait", json!({"ids": [first], "timeout_ms": 170_000})).unwrap();
    let second = id(&client.call("spawn_agent", asked("LEAF-WORK")).unwrap());
    outside::wait("it is at work", || stage.agent(&second).text("src/leaf.txt").is_some());
    let more = json!({"id": first, "message": "once more"});
    let refused = client.refused("send_input", more.clone());
    assert!(refused.contains("agent thread limit reached (max 1)"), "{refused}");
    client.call("close_agent", json!({"id": second})).unwrap();
    client.call("send_input", more).unwrap();
    let waited = client.call("wait", json!({"ids": [first], "timeout_ms": 170_000})).unwrap();
    assert_eq!(waited["results"][&first]["attempts"], 2, "{waited:#}");
    client.end();
}

#[test]
fn callers_that_are_gone_block_no_other_call() {
    let stage = stage("");
    let task = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[agent]\ncli = \
                \"script\"\nallowed-subagents = [\"helper\"]\n[[agent.script]]\ndo = \"shell\"\ncommand \
                = \"./src/crowd > src/crowd.txt 2>&1; true\"\n[body]\ntext = \"x\"\n";
    let file = stage.scratch.place().join("crowd.toml");
    std::fs::write(&file, task).unwrap();
    let model = works();
    let mut command = stage.command(Some(&model), None);
    let ran = command.arg("run").arg(&file).args(["--agent-id", "crowd"]).output().unwrap();
    let said = stage.agent("crowd").text("src/crowd.txt").unwrap_or_default();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    // The calls were answered while the agent was running.
    for words in ["LISTED ", "\"status\":\"running\"", "CLOSED "] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
