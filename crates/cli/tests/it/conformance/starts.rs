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

fn stage(settings: &str) -> Stage {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/agents/helper.md", HELPER);
    stage.scratch.write(".bailiwick/settings.toml", &format!("{SETTINGS}{settings}"));
    stage.scratch.write("src/crowd", CROWD);
    let crowd = stage.scratch.root().join("src/crowd");
    std::fs::set_permissions(crowd, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.scratch.commit("Templates");
    stage
}

fn spawn_arguments(message: &str) -> Value {
    json!({"message": message, "agent_type": "helper", "files": ["src/**"]})
}

fn sleeping_model() -> ScriptedModel {
    let sleeps = Turn::Calls(vec![Call::shell("echo leaf > src/leaf.txt; sleep 1000")]);
    let script =
        Script::new(vec![Turn::say("done")]).when("LEAF-WORK", vec![sleeps, Turn::say("no")]);
    ScriptedModel::start(script)
}

fn agent_id(spawned: &Value) -> String {
    spawned["agent_id"].as_str().unwrap_or_else(|| panic!("{spawned:#}")).to_owned()
}

fn statuses(stage: &Stage) -> Vec<String> {
    let output = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    let nodes: Vec<Value> = serde_json::from_str(&output.out).unwrap();
    nodes.iter().map(|node| node["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn agent_of_a_killed_starter_is_cleaned_up() {
    let stage = stage("[delegation]\nmost-at-once = 1\n[claims]\non-overlap = \"wait\"\n");
    let task = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[body]\ntext = \
                \"x\"\n";
    let file = stage.scratch.place().join("holder.toml");
    std::fs::write(&file, task).unwrap();
    let file = file.display().to_string();
    stage.bailiwick(&["spawn", &file, "--agent-id", "holder"]).expect_code(0);
    let model = sleeping_model();
    let mut client = Client::start(&stage, &model);
    // It waits for its claim, so its status is pending.
    client.send_request(
        "tools/call",
        json!({"name": "spawn_agent", "arguments": spawn_arguments("help")}),
    );
    outside::wait_until("the agent waits for its claim", || {
        let queue = std::fs::read_dir(stage.scratch.state().join("bailiwick.db.waiting"));
        queue.is_ok_and(|queue| queue.flatten().any(|one| one.file_name() == "1"))
    });
    assert_eq!(statuses(&stage), ["pending_init"], "the agent is starting");
    // Other callers do not wait: they are refused at once because the limit is reached.
    let mut other = Client::start(&stage, &model);
    let refused = other.call_error("spawn_agent", spawn_arguments("help"));
    assert!(refused.contains("agent thread limit reached (max 1)"), "{refused}");
    other.end();
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    assert_eq!(statuses(&stage), ["shutdown"]);
    // The killed start counts neither as a running agent nor as a waiting claim.
    stage.bailiwick(&["reject", "holder"]).expect_code(0);
    let mut client = Client::start(&stage, &model);
    let next = agent_id(&client.call("spawn_agent", spawn_arguments("help")).unwrap());
    let wait_result = client.call("wait", json!({"ids": [next], "timeout_ms": 170_000})).unwrap();
    assert_eq!(wait_result["status"][&next], json!({"completed": "done"}), "{wait_result:#}");
    client.end();
    assert_eq!(statuses(&stage), ["shutdown", "completed"]);
}

/// A copy of `bailiwick` that can be replaced, and a command that starts it.
fn replaceable_program(stage: &Stage, model: &ScriptedModel) -> (PathBuf, Command) {
    let directory = stage.scratch.place().join("programs");
    std::fs::create_dir(&directory).unwrap();
    let program = directory.join("bailiwick");
    if std::fs::hard_link(BAILIWICK, &program).is_err() {
        std::fs::copy(BAILIWICK, &program).unwrap();
    }
    let template = stage.command(Some(model), None);
    let mut command = Command::new(&program);
    command.env_clear().current_dir(template.get_current_dir().unwrap());
    for (name, value) in template.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    (program, command)
}

/// Replaces the program while it runs, so that it starts another program as its supervisor. That one never locks the
/// run, and writes its process id to the returned file.
fn replace_by_hanging_program(program: &Path) -> PathBuf {
    std::fs::remove_file(program).unwrap();
    let deleted = PathBuf::from(format!("{} (deleted)", program.display()));
    let mark = program.with_file_name("began");
    let text = format!("#!/bin/sh\necho $$ > '{}'\nexec sleep 1000\n", mark.display());
    std::fs::write(&deleted, text).unwrap();
    std::fs::set_permissions(&deleted, std::fs::Permissions::from_mode(0o755)).unwrap();
    mark
}

#[test]
fn start_that_takes_too_long_is_killed() {
    let stage = stage("");
    let model = sleeping_model();
    let (program, command) = replaceable_program(&stage, &model);
    let mut client = Client::from_command(command);
    let mark = replace_by_hanging_program(&program);
    let refused = client.call_error("spawn_agent", spawn_arguments("help"));
    assert!(refused.contains("it did not begin in time"), "{refused}");
    let process = std::fs::read_to_string(&mark).unwrap();
    assert!(!PathBuf::from("/proc").join(process.trim()).exists(), "{process} is alive");
    assert_eq!(client.call("list_active_agents", json!({})).unwrap(), json!({"agents": []}));
    client.end();
    assert_eq!(statuses(&stage), ["shutdown"]);
}

/// The child has its claim and is in the ledger, but has not started.
#[test]
fn child_whose_start_was_killed_with_its_parent_has_no_claim() {
    let stage = stage("[claims]\n");
    let model = sleeping_model();
    let (program, mut command) = replaceable_program(&stage, &model);
    let task = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[agent]\ncli = \
                \"script\"\nallowed-subagents = [\"helper\"]\n[[agent.script]]\ndo = \"shell\"\ncommand \
                = \"touch src/ready; until [ -e src/go ]; do sleep 0.1; done; ./src/crowd\"\n[body]\n\
                text = \"x\"\n";
    let file = stage.scratch.place().join("parent.toml");
    std::fs::write(&file, task).unwrap();
    let mut parent = command.arg("run").arg(&file).args(["--agent-id", "parent"]).spawn().unwrap();
    let agent = stage.agent("parent");
    outside::wait_until("the agent is running", || agent.text("src/ready").is_some());
    let mark = replace_by_hanging_program(&program);
    std::fs::write(agent.path("src/go"), "").unwrap();
    let process_id = || std::fs::read_to_string(&mark).ok()?.trim().parse::<u32>().ok();
    outside::wait_until("it starts a child", || process_id().is_some());
    parent.kill().unwrap();
    parent.wait().unwrap();
    let supervisor = process_id().unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &supervisor]).status().unwrap().success());
    // A zombie has an empty command line.
    let command = PathBuf::from("/proc").join(&supervisor).join("cmdline");
    outside::wait_until("the child has ended", || {
        std::fs::read(&command).unwrap_or_default().is_empty()
    });
    let listed_runs = stage.bailiwick(&["ps"]).expect_code(0);
    assert!(listed_runs.err.contains("the run `parent` was cut off"), "{}", listed_runs.err);
    assert_eq!(statuses(&stage), ["errored", "shutdown"]);
    let listed = stage.bailiwick(&["claims", "list", "-o", "json"]).expect_code(0);
    let claims: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    let claiming_runs: Vec<_> = claims.iter().map(|claim| claim["run"].as_str().unwrap()).collect();
    assert_eq!(claiming_runs, ["parent"], "{claims:#?}");
    let listed = stage.bailiwick(&["ledger", "list", "-o", "json"]).expect_code(0);
    let runs: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    let child = runs.iter().find(|run| run["parent_branch"] == "parent").unwrap();
    assert_eq!(child["status"], "failed", "{child:#}");
}

#[test]
fn resumed_agent_counts_for_the_limit() {
    let stage = stage("[delegation]\nmost-at-once = 1\n");
    let model = sleeping_model();
    let mut client = Client::start(&stage, &model);
    let first = agent_id(&client.call("spawn_agent", spawn_arguments("help")).unwrap());
    client.call("wait", json!({"ids": [first], "timeout_ms": 170_000})).unwrap();
    let second = agent_id(&client.call("spawn_agent", spawn_arguments("LEAF-WORK")).unwrap());
    outside::wait_until("the agent is running", || {
        stage.agent(&second).text("src/leaf.txt").is_some()
    });
    let message = json!({"id": first, "message": "once more"});
    let refused = client.call_error("send_input", message.clone());
    assert!(refused.contains("agent thread limit reached (max 1)"), "{refused}");
    client.call("close_agent", json!({"id": second})).unwrap();
    client.call("send_input", message).unwrap();
    let wait_result = client.call("wait", json!({"ids": [first], "timeout_ms": 170_000})).unwrap();
    assert_eq!(wait_result["results"][&first]["attempts"], 2, "{wait_result:#}");
    client.end();
}

#[test]
fn closed_connections_block_no_other_call() {
    let stage = stage("");
    let task = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[agent]\ncli = \
                \"script\"\nallowed-subagents = [\"helper\"]\n[[agent.script]]\ndo = \"shell\"\ncommand \
                = \"./src/crowd > src/crowd.txt 2>&1; true\"\n[body]\ntext = \"x\"\n";
    let file = stage.scratch.place().join("crowd.toml");
    std::fs::write(&file, task).unwrap();
    let model = sleeping_model();
    let mut command = stage.command(Some(&model), None);
    let ran = command.arg("run").arg(&file).args(["--agent-id", "crowd"]).output().unwrap();
    let output = stage.agent("crowd").text("src/crowd.txt").unwrap_or_default();
    assert!(ran.status.success(), "{output}{}", String::from_utf8_lossy(&ran.stderr));
    // The calls were answered while the agent was running.
    for expected in ["LISTED ", "\"status\":\"running\"", "CLOSED "] {
        assert!(output.contains(expected), "{expected}: {output}");
    }
}
