//! Trees of agents: what they spend, and how they end.

use std::net::TcpListener;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{
    Call, INPUT_TOKENS, OUTPUT_TOKENS, Script, ScriptedModel, Turn,
};
use serde_json::{Value, json};

use super::delegation::{UNLIMITED_ROLE, child, tool_name};
use super::outside;
use super::stage::Stage;

const HELPER: &str = "---\ndescription: Helps with one thing.\n---\nYou help.\n";

/// A repository whose agents may start `helper`, and `reader`, which may write nothing.
fn stage(role: &str) -> Stage {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/roles/free.toml", UNLIMITED_ROLE);
    let helper = HELPER.replace("\n---\nYou", &format!("\n{role}---\nYou"));
    stage.scratch.write(".bailiwick/agents/helper.md", &helper);
    let reader = HELPER.replace("\n---\nYou", "\nread_only: true\n---\nYou");
    stage.scratch.write(".bailiwick/agents/reader.md", &reader);
    stage.scratch.commit("Add helpers");
    stage
}

fn call(tool: &str, input: Value) -> Turn {
    Turn::Calls(vec![Call::raw(&tool_name(Cli::Claude, tool), input)])
}

fn shell(command: &str) -> Turn {
    Turn::Calls(vec![Call::shell(command)])
}

fn spawn(agent_type: &str, message: &str) -> Turn {
    call("spawn_agent", json!({"agent_type": agent_type, "message": message}))
}

fn wait() -> Turn {
    call("wait", json!({"ids": ["{{agent_id}}"], "timeout_ms": 170_000}))
}

const ALLOWED_SUBAGENTS: &str = "allowed-subagents = [\"helper\", \"reader\"]\n";

fn tree(stage: &Stage) -> Vec<Value> {
    let output = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    serde_json::from_str(&output.out).unwrap()
}

fn node(tree: &[Value], agent: &str) -> Value {
    let found = tree.iter().find(|node| node["agent"] == agent);
    found.unwrap_or_else(|| panic!("{agent}: {tree:#?}")).clone()
}

fn tokens(node: &Value, of: &str) -> u64 {
    node[of]["tokens"].as_u64().unwrap_or_else(|| panic!("{of}: {node:#}"))
}

/// The tokens that the responses of a model report.
fn tokens_of_responses(model: &ScriptedModel) -> u64 {
    let responses = model.requests().iter().filter(|request| request.status == 200).count();
    u64::try_from(responses).unwrap() * (INPUT_TOKENS + OUTPUT_TOKENS)
}

#[test]
fn changed_budget_is_the_limit_for_all_agents_of_the_tree() {
    let stage = stage("");
    let spawn_costly =
        json!({"agent_type": "helper", "message": "HELPER-WORK", "estimated_tokens": 40_000});
    let spawn_costly = call("spawn_agent", spawn_costly);
    let script = Script::new(vec![spawn_costly, wait(), Turn::say("finished")])
        .when("HELPER-WORK", vec![Turn::say("said")]);
    let parent =
        stage.agent("parent").task(&format!("{ALLOWED_SUBAGENTS}[budget]\ntokens = 100000\n"));
    let first = parent.run(script);
    first.expect("completed", 0);
    let helper = child(&stage, "parent");
    let script = Script::continuing("more", vec![Turn::say("again")]);
    let second = parent.resume("There is less now.", &["--tokens", "60000"], script).end();
    second.expect("completed", 0);
    let nodes = tree(&stage);
    let (parent_node, child_node) = (node(&nodes, "parent"), node(&nodes, &helper));
    // The new budget is for all agents of the tree; the usage of each is that of all its attempts.
    assert_eq!(tokens(&parent_node, "given"), tokens(&child_node, "used"), "{nodes:#?}");
    assert_eq!(
        tokens(&parent_node, "budget") + tokens(&parent_node, "given"),
        60_000,
        "{nodes:#?}"
    );
    let spent = tokens_of_responses(&first.model) + tokens_of_responses(&second.model);
    assert_eq!(tokens(&parent_node, "used") + tokens(&child_node, "used"), spent, "{nodes:#?}");
    // A child's budget is taken from its parent, which does not have so much left.
    let again = || Script::new(vec![Turn::say("once more")]);
    let agent = stage.agent(&helper);
    let refused = agent.resume("Take all.", &["--tokens", "59999"], again()).end();
    assert_eq!(refused.code, 2, "{}", refused.errors);
    assert!(refused.errors.contains("`parent` has only"), "{}", refused.errors);
    assert_eq!(refused.model.requests().len(), 0);
    let raised = agent.resume("Take some.", &["--tokens", "50000"], again()).end();
    raised.expect("completed", 0);
    let nodes = tree(&stage);
    let child_node = node(&nodes, &helper);
    assert_eq!(tokens(&child_node, "budget"), 50_000, "{nodes:#?}");
    let spent = spent + tokens_of_responses(&raised.model);
    assert_eq!(tokens(&node(&nodes, "parent"), "used") + tokens(&child_node, "used"), spent);
    // A respawned child keeps its place in the tree and its budget.
    let again = stage.bailiwick(&["respawn", &helper, "--reason", "say it better", "-o", "json"]);
    let again: Value = serde_json::from_str(&again.expect_code(0).out).unwrap();
    let next = again["agent_id"].as_str().unwrap();
    let nodes = tree(&stage);
    for key in ["parent", "depth", "agent_type"] {
        assert_eq!(node(&nodes, next)[key], node(&nodes, &helper)[key], "{key}: {nodes:#?}");
    }
    let ended = stage.agent(next).start_spawned(Script::new(vec![Turn::say("better")])).end();
    ended.expect("completed", 0);
    assert_eq!(node(&tree(&stage), next)["status"], "completed");
}

#[test]
fn budget_in_turns_is_reserved_in_turns() {
    let stage = stage("estimated_turns: 5\n");
    let script = Script::new(vec![spawn("helper", "HELPER-WORK"), wait(), Turn::say("finished")])
        .when("HELPER-WORK", vec![Turn::say("said")]);
    let parent = stage
        .agent("parent")
        .task(&format!("{ALLOWED_SUBAGENTS}[budget]\nturns = 40\nminutes = 60\n"));
    parent.run(script).expect("completed", 0);
    let nodes = tree(&stage);
    let (parent_node, child_node) =
        (node(&nodes, "parent"), node(&nodes, &child(&stage, "parent")));
    assert_eq!(child_node["budget"]["turns"], 5, "{nodes:#?}");
    // Time runs for all at once: the child gets the time that is left, and the parent keeps its own.
    assert!(child_node["budget"]["milliseconds"].as_u64().unwrap() < 3_600_000, "{nodes:#?}");
    assert_eq!(parent_node["budget"]["milliseconds"], 3_600_000, "{nodes:#?}");
    // The child used one turn, which the parent no longer has.
    assert_eq!(
        (&parent_node["given"]["turns"], &parent_node["budget"]["turns"]),
        (&json!(1), &json!(39))
    );
}

#[test]
fn next_command_stops_all_descendants_of_a_killed_agent() {
    let stage = stage("");
    // On a busy machine one wait may be too short for three agents to start.
    let wait_three_times = |spawn: Turn| vec![spawn, wait(), wait(), wait(), Turn::say("no")];
    let script = Script::new(wait_three_times(spawn("helper", "MIDDLE-WORK")))
        .when("MIDDLE-WORK", wait_three_times(spawn("helper", "LEAF-WORK")))
        .when("LEAF-WORK", vec![shell("echo leaf > src/leaf.txt; sleep 1000"), Turn::say("no")]);
    let parent = stage.agent("parent").task(ALLOWED_SUBAGENTS);
    let mut working = parent.start(script);
    let child_of = |parent: &str| {
        let all = tree(&stage);
        let found = all.iter().find(|one| one["parent"] == parent);
        found.map(|one| one["agent"].as_str().unwrap().to_owned())
    };
    let both = || {
        let middle = child_of("parent")?;
        let leaf = child_of(&middle)?;
        stage.agent(&leaf).text("src/leaf.txt")?;
        Some([middle, leaf])
    };
    working.wait_until("the last agent is running", || both().is_some());
    let both = both().unwrap();
    working.kill();
    parent.expect_no_processes();
    // The descendants run until the next command.
    for agent in &both {
        assert!(!stage.agent(agent).processes().is_empty(), "{agent} has ended by itself");
    }
    let listed = stage.bailiwick(&["ps"]).expect_code(0);
    assert!(listed.err.contains("the run `parent` was cut off"), "{}", listed.err);
    for agent in &both {
        stage.agent(agent).expect_no_processes();
    }
    let nodes = tree(&stage);
    assert!(nodes.len() == 3 && nodes.iter().all(|one| one["status"] == "errored"), "{nodes:#?}");
}

#[test]
fn child_inherits_fail_fast() {
    let stage = stage("role: free\n");
    let role = stage.scratch.read(".bailiwick/roles/worker.toml");
    let role = format!("{role}[escalation]\npolicy = \"fail-fast\"\n");
    stage.scratch.write(".bailiwick/roles/worker.toml", &role);
    stage.scratch.commit("Fail fast");
    let script = Script::new(vec![spawn("helper", "HELPER-WORK"), wait(), Turn::say("finished")])
        .when(
            "HELPER-WORK",
            vec![
                shell("echo early > src/early.txt"),
                shell("echo out > outside.txt"),
                shell("echo late > src/late.txt"),
                Turn::say("no"),
            ],
        );
    let ended = stage.agent("parent").task(ALLOWED_SUBAGENTS).run(script);
    ended.expect("completed", 0);
    let helper = child(&stage, "parent");
    let agent = stage.agent(&helper);
    assert_eq!(agent.text("src/early.txt").as_deref(), Some("early\n"));
    assert_eq!((agent.text("outside.txt"), agent.text("src/late.txt")), (None, None));
    assert_eq!(agent.state(), "denied");
    let result = ended.model.result("call_0_1_0").replace('\\', "");
    assert!(result.contains("\"errored\":\"denied: "), "{result}");
}

/// Its own role has no limits, so it has the limits of its parent.
#[test]
fn child_work_that_fails_a_check_of_its_parent_does_not_land() {
    let stage = stage("role: free\n");
    let role = stage.scratch.read(".bailiwick/roles/worker.toml");
    let role = role.replace("required = [", "required = [\"quality::commands-green\", ");
    stage.scratch.write(".bailiwick/roles/worker.toml", &role);
    stage.scratch.commit("Check");
    for (agent, file, lands) in [("first", "bad", false), ("second", "good", true)] {
        let command = format!("echo {file} > src/{file}.txt");
        let script =
            Script::new(vec![spawn("helper", "HELPER-WORK"), wait(), Turn::say("finished")])
                .when("HELPER-WORK", vec![shell(&command), Turn::say("helped")]);
        let task =
            format!("{ALLOWED_SUBAGENTS}[verification]\ncommands = [\"test ! -e src/bad.txt\"]\n");
        stage.agent(agent).task(&task).run(script).expect("completed", 0);
        let helper = child(&stage, agent);
        assert_eq!(
            stage.agent(&helper).text(&format!("src/{file}.txt")),
            Some(format!("{file}\n"))
        );
        let before = stage.scratch.git(&["rev-parse", "main"]);
        let landed = stage.agent(&helper).land();
        let moved = stage.scratch.git(&["rev-parse", "main"]) != before;
        assert_eq!((landed.code == 0, moved), (lands, lands), "{}{}", landed.out, landed.err);
        let output = format!("{}{}", landed.out, landed.err);
        assert!(lands || output.contains("quality::commands-green"), "{output}");
    }
    assert_eq!(stage.scratch.read("src/good.txt"), "good\n");
}

#[test]
fn child_of_a_read_only_agent_is_read_only() {
    let stage = stage("role: free\n");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let connect = format!("true < /dev/tcp/{}", listener.local_addr().unwrap()).replace(':', "/");
    let search = || Turn::Calls(vec![Call::raw("WebSearch", json!({"query": "what is new"}))]);
    let attempts =
        || vec![shell("echo no > src/no.txt"), shell(&connect), search(), Turn::say("tried")];
    let reader_turns = {
        let rest = [spawn("helper", "LEAF-WORK"), wait(), Turn::say("read")];
        attempts().into_iter().take(3).chain(rest).collect()
    };
    let script = Script::new(vec![spawn("reader", "READER-WORK"), wait(), Turn::say("finished")])
        .when("READER-WORK", reader_turns)
        .when("LEAF-WORK", attempts());
    let ended = stage.agent("parent").task(ALLOWED_SUBAGENTS).run(script);
    ended.expect("completed", 0);
    let reader = child(&stage, "parent");
    let leaf = child(&stage, &reader);
    for agent in [&reader, &leaf] {
        assert_eq!(stage.agent(agent).text("src/no.txt"), None, "{agent} has written");
        assert_eq!(
            search_decisions(&stage, agent),
            [("deny".to_owned(), "template::read-only".to_owned())]
        );
    }
    assert!(listener.accept().is_err(), "an agent has reached the network");
    let connected = std::process::Command::new("bash").args(["-c", &connect]).status().unwrap();
    assert!(
        connected.success() && listener.accept().is_ok(),
        "positive control: the listener can be reached"
    );
    // The same template writes if no ancestor is read-only.
    let script = Script::new(vec![spawn("helper", "WRITER-WORK"), wait(), Turn::say("finished")])
        .when("WRITER-WORK", attempts())
        .when("Perform a web search", vec![Turn::say("nothing")]);
    stage.agent("other").task(ALLOWED_SUBAGENTS).run(script).expect("completed", 0);
    let writer = child(&stage, "other");
    assert!(stage.agent(&writer).text("src/no.txt").is_some());
    assert_eq!(search_decisions(&stage, &writer), [("allow".to_owned(), String::new())]);
}

/// The decisions about web searches, and their rules.
fn search_decisions(stage: &Stage, agent: &str) -> Vec<(String, String)> {
    let events = stage.agent(agent).events().into_iter();
    let decisions = events.filter(|one| one["kind"] == "decision" && one["tool"] == "WebSearch");
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    decisions.map(|one| (text(&one, "answer"), text(&one, "rule"))).collect()
}

/// As in a spawn call: `my-role` finds `my_role.md`.
#[test]
fn agent_list_treats_dashes_and_underscores_alike() {
    let stage = stage("");
    let middle = HELPER.replace("\n---\nYou", "\nallowed_subagents: [last-one]\n---\nYou");
    stage.scratch.write(".bailiwick/agents/middle_one.md", &middle);
    stage.scratch.write(".bailiwick/agents/last_one.md", HELPER);
    stage.scratch.commit("Add more of them");
    let script =
        Script::new(vec![spawn("middle_one", "MIDDLE-WORK"), wait(), Turn::say("finished")])
            .when("MIDDLE-WORK", vec![spawn("last_one", "LEAF-WORK"), wait(), Turn::say("said")])
            .when("LEAF-WORK", vec![Turn::say("said")]);
    let task = "allowed-subagents = [\"middle-one\", \"last_one\"]\n";
    let ended = stage.agent("parent").task(task).run(script);
    ended.expect("completed", 0);
    let middle = child(&stage, "parent");
    assert_eq!(node(&tree(&stage), &child(&stage, &middle))["agent_type"], "last_one");
    // The tool description lists the types that it may spawn.
    let requests = ended.model.requests();
    let has = |text: &str| requests.iter().any(|one| one.body.to_string().contains(text));
    assert!(has("- middle_one: Helps with one thing.") && !has("- helper: "));
}

#[test]
fn child_inherits_unset_settings_of_its_parent() {
    let stage = stage("");
    let template = HELPER.replace("\n---\nYou", "\nmodel: haiku\n---\nYou");
    stage.scratch.write(".bailiwick/agents/other.md", &template);
    stage.scratch.commit("One with a model of its own");
    let script = Script::new(vec![
        spawn("helper", "HELPER-WORK"),
        wait(),
        spawn("other", "OTHER-WORK"),
        wait(),
        call("list_active_agents", json!({})),
        Turn::say("finished"),
    ])
    .when("HELPER-WORK", vec![Turn::say("said")])
    .when("OTHER-WORK", vec![Turn::say("said")]);
    let task = "effort = \"high\"\nallowed-subagents = [\"helper\", \"other\"]\n";
    let ended = stage.agent("parent").task(task).run(script);
    ended.expect("completed", 0);
    let result = ended.model.result("call_0_4_0").replace('\\', "");
    for (expected, times) in [
        ("\"model\":\"claude-opus-4-8\"", 1),
        ("\"model\":\"claude-haiku", 1),
        ("\"reasoning_effort\":\"high\"", 2),
    ] {
        assert_eq!(result.matches(expected).count(), times, "{expected}: {result}");
    }
    for (marker, model_name) in [("HELPER-WORK", "claude-opus-4-8"), ("OTHER-WORK", "haiku")] {
        let requests = ended.model.requests();
        let of_child = requests.iter().find(|one| {
            let first = one.body["messages"][0].to_string();
            first.contains(marker) && one.body["tools"].is_array()
        });
        let requested_model = of_child.unwrap().body["model"].as_str().unwrap().to_owned();
        assert!(requested_model.contains(model_name), "{marker}: {requested_model}");
    }
}

/// A person agreed to a weaker sandbox for this run: its children get the same.
#[test]
fn child_has_the_sandbox_level_of_its_parent() {
    let stage = stage("");
    for level in ["partial", "off"] {
        let options = ["--sandbox", level];
        let agent = stage.agent(level).task(ALLOWED_SUBAGENTS).options(&options);
        let script = Script::new(vec![
            spawn("helper", "HELPER-WORK"),
            wait(),
            call("send_input", json!({"id": "{{agent_id}}", "message": "once more"})),
            wait(),
            Turn::say("finished"),
        ])
        .when("HELPER-WORK", vec![shell("echo in > src/in.txt"), Turn::say("helped")]);
        let ended = agent.run(script);
        ended.expect("completed", 0);
        let helper = child(&stage, level);
        assert_eq!(stage.agent(&helper).text("src/in.txt").as_deref(), Some("in\n"));
        for (run, attempts) in [(level, 1), (helper.as_str(), 2)] {
            let cost = stage.bailiwick(&["cost", run, "-o", "json"]).expect_code(0);
            let all: Vec<Value> = serde_json::from_str(&cost.out).unwrap();
            let levels: Vec<&str> =
                all.iter().map(|attempt| attempt["sandbox"].as_str().unwrap()).collect();
            assert_eq!(levels, vec![level; attempts], "{run}: {}", ended.errors);
        }
    }
}

#[test]
fn nothing_of_an_agent_tree_is_left_after_its_end() {
    let stage = stage("");
    let script = Script::new(vec![spawn("helper", "HELPER-WORK"), wait(), Turn::say("finished")])
        .when("HELPER-WORK", vec![Turn::say("said")]);
    stage.agent("parent").task(ALLOWED_SUBAGENTS).run(script).expect("completed", 0);
    let helper = child(&stage, "parent");
    outside::wait_until("its processes have ended", || stage.agent(&helper).processes().is_empty());
    let starting = stage.scratch.state().join("starting");
    assert_eq!(std::fs::read_dir(starting).unwrap().count(), 0);
}
