//! Whom an agent reaches: what is below it and nobody else; and how far down agents go.
//!
//! The calls come through the sockets of the runs, as those of an agent's own program do.

use std::sync::atomic::AtomicBool;

use bailiwick_runner::supervisor::{RunDirectory, forward};
use bailiwick_testkit::Depth;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::{Value, json};

use super::delegation::{child, name};
use super::stage::Stage;

const HELPER: &str = "---\ndescription: Helps with one thing.\n---\nYou help.\n";
pub(super) const MAY: &str = "allowed-subagents = [\"helper\"]\n";
pub(super) const HOLDS: &str =
    "echo begun > src/begun.txt; until [ -e src/go.txt ]; do sleep 0.1; done";
const REACHED: &str = "Agent depth limit reached. Solve the task yourself.";

pub(super) fn stage(more: &str, settings: &str) -> Stage {
    let stage = Stage::new(Cli::Claude);
    let helper = HELPER.replace("\n---\nYou", &format!("\n{more}---\nYou"));
    stage.scratch.write(".bailiwick/agents/helper.md", &helper);
    let settings = format!("[run]\napproval-seconds = 1\n{settings}");
    stage.scratch.write(".bailiwick/settings.toml", &settings);
    stage.scratch.commit("Add a helper");
    stage
}

fn call(tool: &str, input: Value) -> Turn {
    Turn::Calls(vec![Call::raw(&name(Cli::Claude, tool), input)])
}

pub(super) fn spawn(message: &str) -> Turn {
    call("spawn_agent", json!({"agent_type": "helper", "message": message}))
}

pub(super) fn wait() -> Turn {
    call("wait", json!({"ids": ["{{agent_id}}"], "timeout_ms": 170_000}))
}

/// What an agent is answered that calls a tool.
pub(super) fn asked(
    stage: &Stage,
    agent: &str,
    tool: &str,
    arguments: Value,
) -> Result<Value, String> {
    let directory = RunDirectory::new(&stage.scratch.state().canonicalize().unwrap(), agent);
    let gone = AtomicBool::new(false);
    forward(&directory.delegation_socket(), tool, arguments, &gone).unwrap()
}

/// Whom an agent sees, as far as it can look.
fn seen(stage: &Stage, agent: &str) -> Vec<String> {
    let all = json!({"scope": "all", "include_closed": true});
    let seen = asked(stage, agent, "list_active_agents", all).unwrap();
    let ids = seen["agents"].as_array().unwrap().iter();
    ids.map(|one| one["thread_id"].as_str().unwrap().to_owned()).collect()
}

pub(super) fn tree(stage: &Stage) -> Vec<Value> {
    let told = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    serde_json::from_str(&told.out).unwrap()
}

#[test]
fn an_agent_reaches_neither_another_tree_nor_the_one_above_it() {
    let stage = stage("", "");
    let script = || {
        let holds = vec![Turn::Calls(vec![Call::shell(HOLDS)]), Turn::say("held")];
        Script::new(vec![spawn("HELPER-WORK"), wait(), Turn::say("finished")])
            .when("HELPER-WORK", holds)
    };
    let trees = ["first", "second"].map(|agent| {
        let mut working = stage.agent(agent).task(MAY).start(script());
        working.until("its helper is at work", || {
            let below = tree(&stage).into_iter().find(|one| one["parent"] == agent);
            below.is_some_and(|below| {
                stage.agent(below["agent"].as_str().unwrap()).text("src/begun.txt").is_some()
            })
        });
        (working, child(&stage, agent))
    });
    let [(_, left), (_, right)] = &trees;
    let (left, right) = (left.clone(), right.clone());
    let stand = || -> Vec<Value> {
        let one = |one: &Value| json!([one["agent"], one["status"], one["note"]]);
        tree(&stage).iter().map(one).collect()
    };
    let before = stand();
    for (caller, foreign) in [
        ("first", vec!["second", right.as_str(), "first"]),
        (left.as_str(), vec!["first", "second", right.as_str(), left.as_str()]),
    ] {
        for agent in foreign {
            for (tool, arguments, words) in [
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
                let refused = asked(&stage, caller, tool, arguments).unwrap_err();
                assert!(refused.contains(words), "{caller} {tool} {agent}: {refused}");
            }
            // Nor together with one that it reaches.
            let both = asked(&stage, caller, "wait", json!({"ids": [left, agent]})).unwrap_err();
            assert!(both.contains("is not one of the agents below you"), "{caller}: {both}");
        }
    }
    assert_eq!((seen(&stage, "first"), seen(&stage, &left)), (vec![left.clone()], Vec::new()));
    // Nothing has happened to any of them.
    assert_eq!(stand(), before);
    // The same verbs reach what is below.
    let noted = json!({"id": left, "note": "mine"});
    let noted = asked(&stage, "first", "set_thread_note", noted).unwrap();
    assert_eq!(noted["thread_note"], "mine");
    asked(&stage, "first", "send_input", json!({"id": left, "message": "go on"})).unwrap();
    asked(&stage, "first", "close_agent", json!({"id": left})).unwrap();
    stage.agent(&left).nothing_runs();
    assert!(!stage.agent(&right).processes().is_empty(), "the other one goes on");
    std::fs::write(stage.agent(&right).path("src/go.txt"), "").unwrap();
    for (working, _) in trees {
        working.end().expect("completed", 0);
    }
}

const MARKS: [&str; 4] = ["ONE-WORK", "TWO-WORK", "THREE-WORK", "FOUR-WORK"];

/// That agents go exactly so far down from an agent, and the last of them is told why.
fn goes_down(stage: &Stage, agent: &str, first: Value, deepest: usize) {
    let turns = |spawn: Turn| vec![spawn, wait(), Turn::say("finished")];
    let mut arguments = json!({"agent_type": "helper", "message": MARKS[0]});
    arguments.as_object_mut().unwrap().extend(first.as_object().unwrap().clone());
    let mut script = Script::new(turns(call("spawn_agent", arguments)));
    for pair in MARKS.windows(2) {
        script = script.when(pair[0], turns(spawn(pair[1])));
    }
    let ended = stage.agent(agent).task(MAY).run(script);
    ended.expect("completed", 0);
    for level in 0..=deepest {
        let told = ended.model.result(&format!("call_{level}_0_0"));
        let words = if level < deepest { "agent_id" } else { REACHED };
        assert!(told.contains(words), "{agent} at {level} of {deepest}: {told}");
    }
    let mut line = vec![agent.to_owned()];
    let all = tree(stage);
    while let Some(below) = all.iter().find(|one| one["parent"] == line[line.len() - 1]) {
        line.push(below["agent"].as_str().unwrap().to_owned());
    }
    assert_eq!(line.len(), deepest + 1, "{all:#?}");
}

/// The most levels that are tried.
fn levels() -> usize {
    match Depth::from_env() {
        Depth::Ci => 1,
        Depth::Full => 2,
    }
}

#[test]
fn agents_go_as_deep_as_the_settings_say() {
    for most in 0..=2 {
        let stage = stage("", &format!("[delegation]\nmax-depth = {most}\n"));
        goes_down(&stage, "parent", json!({}), most);
    }
    // A call gives no more than there is.
    let stage = stage("max_depth: 9\n", "[delegation]\nmax-depth = 1\n");
    goes_down(&stage, "parent", json!({"max_depth": 9}), 1);
}

#[test]
fn agents_go_as_deep_as_their_template_says() {
    for most in 0..=levels() {
        let stage = stage(&format!("max_depth: {most}\n"), "[delegation]\nmax-depth = 9\n");
        goes_down(&stage, "parent", json!({}), most + 1);
    }
}

#[test]
fn agents_go_as_deep_as_the_call_says() {
    let stage = stage("", "[delegation]\nmax-depth = 9\n");
    for most in 0..=levels() {
        goes_down(&stage, &format!("parent-{most}"), json!({"max_depth": most}), most + 1);
    }
}
