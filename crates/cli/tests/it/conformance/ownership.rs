//! An agent reaches only its descendants, and the depth of its tree is limited.
//!
//! The calls come through the sockets of the runs, as those of an agent program do.

use std::sync::atomic::AtomicBool;

use bailiwick_runner::supervisor::{RunDirectory, forward};
use bailiwick_testkit::Depth;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::{Value, json};

use super::delegation::{child, tool_name};
use super::stage::Stage;

const HELPER: &str = "---\ndescription: Helps with one thing.\n---\nYou help.\n";
pub(super) const ALLOWED_SUBAGENTS: &str = "allowed-subagents = [\"helper\"]\n";
pub(super) const WAIT_FOR_GO: &str =
    "echo begun > src/begun.txt; until [ -e src/go.txt ]; do sleep 0.1; done";
const DEPTH_LIMIT_REACHED: &str = "Agent depth limit reached. Solve the task yourself.";

pub(super) fn stage(extra: &str, settings: &str) -> Stage {
    let stage = Stage::new(Cli::Claude);
    let helper = HELPER.replace("\n---\nYou", &format!("\n{extra}---\nYou"));
    stage.scratch.write(".bailiwick/agents/helper.md", &helper);
    let settings = format!("[run]\napproval-seconds = 1\n{settings}");
    stage.scratch.write(".bailiwick/settings.toml", &settings);
    stage.scratch.commit("Add a helper");
    stage
}

fn call(tool: &str, input: Value) -> Turn {
    Turn::Calls(vec![Call::raw(&tool_name(Cli::Claude, tool), input)])
}

pub(super) fn spawn(message: &str) -> Turn {
    call("spawn_agent", json!({"agent_type": "helper", "message": message}))
}

pub(super) fn wait() -> Turn {
    call("wait", json!({"ids": ["{{agent_id}}"], "timeout_ms": 170_000}))
}

/// Calls a tool as this agent.
pub(super) fn call_tool(
    stage: &Stage,
    agent: &str,
    tool: &str,
    arguments: Value,
) -> Result<Value, String> {
    let directory = RunDirectory::new(&stage.scratch.state().canonicalize().unwrap(), agent);
    let cancelled = AtomicBool::new(false);
    forward(&directory.delegation_socket(), tool, arguments, &cancelled).unwrap()
}

/// All agents that this agent can list.
fn visible_agents(stage: &Stage, agent: &str) -> Vec<String> {
    let arguments = json!({"scope": "all", "include_closed": true});
    let agents = call_tool(stage, agent, "list_active_agents", arguments).unwrap();
    let ids = agents["agents"].as_array().unwrap().iter();
    ids.map(|one| one["thread_id"].as_str().unwrap().to_owned()).collect()
}

pub(super) fn tree(stage: &Stage) -> Vec<Value> {
    let output = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    serde_json::from_str(&output.out).unwrap()
}

#[test]
fn agent_cannot_reach_its_parent_or_another_tree() {
    let stage = stage("", "");
    let script = || {
        let wait_turns = vec![Turn::Calls(vec![Call::shell(WAIT_FOR_GO)]), Turn::say("held")];
        Script::new(vec![spawn("HELPER-WORK"), wait(), Turn::say("finished")])
            .when("HELPER-WORK", wait_turns)
    };
    let trees = ["first", "second"].map(|agent| {
        let mut working = stage.agent(agent).task(ALLOWED_SUBAGENTS).start(script());
        working.wait_until("its helper is running", || {
            let child = tree(&stage).into_iter().find(|one| one["parent"] == agent);
            child.is_some_and(|child| {
                stage.agent(child["agent"].as_str().unwrap()).text("src/begun.txt").is_some()
            })
        });
        (working, child(&stage, agent))
    });
    let [(_, left), (_, right)] = &trees;
    let (left, right) = (left.clone(), right.clone());
    let state = || -> Vec<Value> {
        let one = |one: &Value| json!([one["agent"], one["status"], one["note"]]);
        tree(&stage).iter().map(one).collect()
    };
    let before = state();
    for (caller, targets) in [
        ("first", vec!["second", right.as_str(), "first"]),
        (left.as_str(), vec!["first", "second", right.as_str(), left.as_str()]),
    ] {
        for agent in targets {
            for (tool, arguments, expected) in [
                ("wait", json!({"ids": [agent]}), "is not one of the agents below you"),
                (
                    "send_input",
                    json!({"id": agent, "message": "obey", "interrupt": true}),
                    "is not one of the agents below you",
                ),
                ("merge_agent", json!({"id": agent}), "is not one of the agents below you"),
                (
                    "set_thread_note",
                    json!({"id": agent, "note": "mine"}),
                    "is not one of the agents below you",
                ),
                (
                    "close_agent",
                    json!({"id": agent}),
                    "Not permitted to close agents outside your subtree.",
                ),
            ] {
                let refused = call_tool(&stage, caller, tool, arguments).unwrap_err();
                assert!(refused.contains(expected), "{caller} {tool} {agent}: {refused}");
            }
            // It is refused even together with an agent that it can reach.
            let refused_pair =
                call_tool(&stage, caller, "wait", json!({"ids": [left, agent]})).unwrap_err();
            assert!(
                refused_pair.contains("is not one of the agents below you"),
                "{caller}: {refused_pair}"
            );
        }
    }
    assert_eq!(
        (visible_agents(&stage, "first"), visible_agents(&stage, &left)),
        (vec![left.clone()], Vec::new())
    );
    // No agent was changed.
    assert_eq!(state(), before);
    // The same tools work for its own child.
    let note_result = json!({"id": left, "note": "mine"});
    let note_result = call_tool(&stage, "first", "set_thread_note", note_result).unwrap();
    assert_eq!(note_result["thread_note"], "mine");
    call_tool(&stage, "first", "send_input", json!({"id": left, "message": "go on"})).unwrap();
    call_tool(&stage, "first", "close_agent", json!({"id": left})).unwrap();
    stage.agent(&left).expect_no_processes();
    assert!(!stage.agent(&right).processes().is_empty(), "the other helper still runs");
    std::fs::write(stage.agent(&right).path("src/go.txt"), "").unwrap();
    for (working, _) in trees {
        working.end().expect("completed", 0);
    }
}

const TASKS: [&str; 4] = ["ONE-WORK", "TWO-WORK", "THREE-WORK", "FOUR-WORK"];

/// Asserts that agents can be spawned exactly to this depth, and that the last one is refused with the reason.
fn spawns_to_depth(stage: &Stage, agent: &str, first: Value, depth: usize) {
    let turns = |spawn: Turn| vec![spawn, wait(), Turn::say("finished")];
    let mut arguments = json!({"agent_type": "helper", "message": TASKS[0]});
    arguments.as_object_mut().unwrap().extend(first.as_object().unwrap().clone());
    let mut script = Script::new(turns(call("spawn_agent", arguments)));
    for pair in TASKS.windows(2) {
        script = script.when(pair[0], turns(spawn(pair[1])));
    }
    let ended = stage.agent(agent).task(ALLOWED_SUBAGENTS).run(script);
    ended.expect("completed", 0);
    for level in 0..=depth {
        let result = ended.model.result(&format!("call_{level}_0_0"));
        let expected = if level < depth { "agent_id" } else { DEPTH_LIMIT_REACHED };
        assert!(result.contains(expected), "{agent} at {level} of {depth}: {result}");
    }
    let mut chain = vec![agent.to_owned()];
    let nodes = tree(stage);
    while let Some(child) = nodes.iter().find(|one| one["parent"] == chain[chain.len() - 1]) {
        chain.push(child["agent"].as_str().unwrap().to_owned());
    }
    assert_eq!(chain.len(), depth + 1, "{nodes:#?}");
}

/// The highest limit that is tested.
fn max_levels() -> usize {
    match Depth::from_env() {
        Depth::Ci => 1,
        Depth::Full => 2,
    }
}

#[test]
fn settings_limit_the_depth_of_agents() {
    for limit in 0..=2 {
        let stage = stage("", &format!("[delegation]\nmax-depth = {limit}\n"));
        spawns_to_depth(&stage, "parent", json!({}), limit);
    }
    // A call cannot raise the limit.
    let stage = stage("max_depth: 9\n", "[delegation]\nmax-depth = 1\n");
    spawns_to_depth(&stage, "parent", json!({"max_depth": 9}), 1);
}

#[test]
fn template_limits_the_depth_of_agents() {
    for limit in 0..=max_levels() {
        let stage = stage(&format!("max_depth: {limit}\n"), "[delegation]\nmax-depth = 9\n");
        spawns_to_depth(&stage, "parent", json!({}), limit + 1);
    }
}

#[test]
fn spawn_call_limits_the_depth_of_agents() {
    let stage = stage("", "[delegation]\nmax-depth = 9\n");
    for limit in 0..=max_levels() {
        spawns_to_depth(&stage, &format!("parent-{limit}"), json!({"max_depth": limit}), limit + 1);
    }
}
