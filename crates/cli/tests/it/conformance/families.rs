//! Agents that start agents that start agents: what a family spends, and what becomes of it.

use std::net::TcpListener;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{
    Call, INPUT_TOKENS, OUTPUT_TOKENS, Script, ScriptedModel, Turn,
};
use serde_json::{Value, json};

use super::delegation::{FREE, child, name};
use super::outside;
use super::stage::Stage;

const HELPER: &str = "---\ndescription: Helps with one thing.\n---\nYou help.\n";

/// A repository whose agents may start `helper`, and `reader`, which may write nothing.
fn stage(role: &str) -> Stage {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/roles/free.toml", FREE);
    let helper = HELPER.replace("\n---\nYou", &format!("\n{role}---\nYou"));
    stage.scratch.write(".bailiwick/agents/helper.md", &helper);
    let reader = HELPER.replace("\n---\nYou", "\nread_only: true\n---\nYou");
    stage.scratch.write(".bailiwick/agents/reader.md", &reader);
    stage.scratch.commit("Add helpers");
    stage
}

fn call(tool: &str, input: Value) -> Turn {
    Turn::Calls(vec![Call::raw(&name(Cli::Claude, tool), input)])
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

const MAY: &str = "allowed-subagents = [\"helper\", \"reader\"]\n";

fn tree(stage: &Stage) -> Vec<Value> {
    let told = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    serde_json::from_str(&told.out).unwrap()
}

fn node(tree: &[Value], agent: &str) -> Value {
    let found = tree.iter().find(|one| one["agent"] == agent);
    found.unwrap_or_else(|| panic!("{agent}: {tree:#?}")).clone()
}

fn tokens(node: &Value, of: &str) -> u64 {
    node[of]["tokens"].as_u64().unwrap_or_else(|| panic!("{of}: {node:#}"))
}

/// What the answers of a model say that they took.
fn answered(model: &ScriptedModel) -> u64 {
    let answers = model.requests().iter().filter(|request| request.status == 200).count();
    u64::try_from(answers).unwrap() * (INPUT_TOKENS + OUTPUT_TOKENS)
}

#[test]
fn a_family_that_is_raised_keeps_to_what_was_said() {
    let stage = stage("");
    let costly =
        json!({"agent_type": "helper", "message": "HELPER-WORK", "estimated_tokens": 40_000});
    let costly = call("spawn_agent", costly);
    let script = Script::new(vec![costly, wait(), Turn::say("finished")])
        .when("HELPER-WORK", vec![Turn::say("said")]);
    let parent = stage.agent("parent").task(&format!("{MAY}[budget]\ntokens = 100000\n"));
    let first = parent.run(script);
    first.expect("completed", 0);
    let helper = child(&stage, "parent");
    let more = Script::continuing("more", vec![Turn::say("again")]);
    let second = parent.take_up("There is less now.", &["--tokens", "60000"], more).end();
    second.expect("completed", 0);
    let seen = tree(&stage);
    let (above, below) = (node(&seen, "parent"), node(&seen, &helper));
    // What was said is for all of them; and what each has used is what all its attempts have.
    assert_eq!(tokens(&above, "given"), tokens(&below, "used"), "{seen:#?}");
    assert_eq!(tokens(&above, "budget") + tokens(&above, "given"), 60_000, "{seen:#?}");
    let spent = answered(&first.model) + answered(&second.model);
    assert_eq!(tokens(&above, "used") + tokens(&below, "used"), spent, "{seen:#?}");
    // What one below gets comes from the one above, which has not that much left.
    let again = || Script::new(vec![Turn::say("once more")]);
    let agent = stage.agent(&helper);
    let refused = agent.take_up("Take all.", &["--tokens", "59999"], again()).end();
    assert_eq!(refused.code, 2, "{}", refused.errors);
    assert!(refused.errors.contains("`parent` has only"), "{}", refused.errors);
    assert_eq!(refused.model.requests().len(), 0);
    let raised = agent.take_up("Take some.", &["--tokens", "50000"], again()).end();
    raised.expect("completed", 0);
    let seen = tree(&stage);
    let below = node(&seen, &helper);
    assert_eq!(tokens(&below, "budget"), 50_000, "{seen:#?}");
    let spent = spent + answered(&raised.model);
    assert_eq!(tokens(&node(&seen, "parent"), "used") + tokens(&below, "used"), spent);
    // Another attempt at its task stays where it was, and has the same to spend.
    let again = stage.bailiwick(&["respawn", &helper, "--reason", "say it better", "-o", "json"]);
    let again: Value = serde_json::from_str(&again.expect_code(0).out).unwrap();
    let next = again["agent_id"].as_str().unwrap();
    let seen = tree(&stage);
    for key in ["parent", "depth", "agent_type"] {
        assert_eq!(node(&seen, next)[key], node(&seen, &helper)[key], "{key}: {seen:#?}");
    }
    let ended = stage.agent(next).go(Script::new(vec![Turn::say("better")])).end();
    ended.expect("completed", 0);
    assert_eq!(node(&tree(&stage), next)["status"], "completed");
}

#[test]
fn a_budget_in_turns_is_given_in_turns() {
    let stage = stage("estimated_turns: 5\n");
    let script = Script::new(vec![spawn("helper", "HELPER-WORK"), wait(), Turn::say("finished")])
        .when("HELPER-WORK", vec![Turn::say("said")]);
    let parent = stage.agent("parent").task(&format!("{MAY}[budget]\nturns = 40\nminutes = 60\n"));
    parent.run(script).expect("completed", 0);
    let seen = tree(&stage);
    let (above, below) = (node(&seen, "parent"), node(&seen, &child(&stage, "parent")));
    assert_eq!(below["budget"]["turns"], 5, "{seen:#?}");
    // All clocks run at once: it has the time that is left, and the one above keeps its own.
    assert!(below["budget"]["milliseconds"].as_u64().unwrap() < 3_600_000, "{seen:#?}");
    assert_eq!(above["budget"]["milliseconds"], 3_600_000, "{seen:#?}");
    // It took one, which is gone for the one above.
    assert_eq!((&above["given"]["turns"], &above["budget"]["turns"]), (&json!(1), &json!(39)));
}

#[test]
fn when_the_first_is_killed_the_next_command_ends_all_below_it() {
    let stage = stage("");
    // One wait may be too short for three agents to start on a busy machine.
    let patiently = |spawn: Turn| vec![spawn, wait(), wait(), wait(), Turn::say("no")];
    let script = Script::new(patiently(spawn("helper", "MIDDLE-WORK")))
        .when("MIDDLE-WORK", patiently(spawn("helper", "LEAF-WORK")))
        .when("LEAF-WORK", vec![shell("echo leaf > src/leaf.txt; sleep 1000"), Turn::say("no")]);
    let parent = stage.agent("parent").task(MAY);
    let mut working = parent.start(script);
    let below = |parent: &str| {
        let all = tree(&stage);
        let found = all.iter().find(|one| one["parent"] == parent);
        found.map(|one| one["agent"].as_str().unwrap().to_owned())
    };
    let both = || {
        let middle = below("parent")?;
        let leaf = below(&middle)?;
        stage.agent(&leaf).text("src/leaf.txt")?;
        Some([middle, leaf])
    };
    working.until("the last of them is at work", || both().is_some());
    let both = both().unwrap();
    working.kill();
    parent.nothing_runs();
    // They go on by themselves, until anybody looks.
    for agent in &both {
        assert!(!stage.agent(agent).processes().is_empty(), "{agent} has ended by itself");
    }
    let looked = stage.bailiwick(&["ps"]).expect_code(0);
    assert!(looked.err.contains("the run `parent` was cut off"), "{}", looked.err);
    for agent in &both {
        stage.agent(agent).nothing_runs();
    }
    let seen = tree(&stage);
    assert!(seen.len() == 3 && seen.iter().all(|one| one["status"] == "errored"), "{seen:#?}");
}

#[test]
fn a_child_of_one_that_fails_fast_fails_fast() {
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
    let ended = stage.agent("parent").task(MAY).run(script);
    ended.expect("completed", 0);
    let helper = child(&stage, "parent");
    let agent = stage.agent(&helper);
    assert_eq!(agent.text("src/early.txt").as_deref(), Some("early\n"));
    assert_eq!((agent.text("outside.txt"), agent.text("src/late.txt")), (None, None));
    assert_eq!(agent.state(), "denied");
    let told = ended.model.result("call_0_1_0").replace('\\', "");
    assert!(told.contains("\"errored\":\"denied: "), "{told}");
}

/// Its own role lets it do anything, so what binds it is what binds the one above.
#[test]
fn what_breaks_a_check_of_the_role_above_does_not_land() {
    let stage = stage("role: free\n");
    let role = stage.scratch.read(".bailiwick/roles/worker.toml");
    let role = role.replace("required = [", "required = [\"quality::commands-green\", ");
    stage.scratch.write(".bailiwick/roles/worker.toml", &role);
    stage.scratch.commit("Check");
    for (agent, file, lands) in [("first", "bad", false), ("second", "good", true)] {
        let helped = format!("echo {file} > src/{file}.txt");
        let script =
            Script::new(vec![spawn("helper", "HELPER-WORK"), wait(), Turn::say("finished")])
                .when("HELPER-WORK", vec![shell(&helped), Turn::say("helped")]);
        let task = format!("{MAY}[verification]\ncommands = [\"test ! -e src/bad.txt\"]\n");
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
        let all = format!("{}{}", landed.out, landed.err);
        assert!(lands || all.contains("quality::commands-green"), "{all}");
    }
    assert_eq!(stage.scratch.read("src/good.txt"), "good\n");
}

#[test]
fn a_child_of_a_reader_reads_whatever_its_template_says() {
    let stage = stage("role: free\n");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let knock = format!("true < /dev/tcp/{}", listener.local_addr().unwrap()).replace(':', "/");
    let search = || Turn::Calls(vec![Call::raw("WebSearch", json!({"query": "what is new"}))]);
    let tries = || vec![shell("echo no > src/no.txt"), shell(&knock), search(), Turn::say("tried")];
    let reads = {
        let rest = [spawn("helper", "LEAF-WORK"), wait(), Turn::say("read")];
        tries().into_iter().take(3).chain(rest).collect()
    };
    let script = Script::new(vec![spawn("reader", "READER-WORK"), wait(), Turn::say("finished")])
        .when("READER-WORK", reads)
        .when("LEAF-WORK", tries());
    let ended = stage.agent("parent").task(MAY).run(script);
    ended.expect("completed", 0);
    let reader = child(&stage, "parent");
    let leaf = child(&stage, &reader);
    for agent in [&reader, &leaf] {
        assert_eq!(stage.agent(agent).text("src/no.txt"), None, "{agent} has written");
        assert_eq!(
            searched(&stage, agent),
            [("deny".to_owned(), "template::read-only".to_owned())]
        );
    }
    assert!(listener.accept().is_err(), "somebody has reached the network");
    let knocked = std::process::Command::new("bash").args(["-c", &knock]).status().unwrap();
    assert!(knocked.success() && listener.accept().is_ok(), "a process with a network reaches it");
    // The same template writes if no ancestor is read-only.
    let script = Script::new(vec![spawn("helper", "WRITER-WORK"), wait(), Turn::say("finished")])
        .when("WRITER-WORK", tries())
        .when("Perform a web search", vec![Turn::say("nothing")]);
    stage.agent("other").task(MAY).run(script).expect("completed", 0);
    let writer = child(&stage, "other");
    assert!(stage.agent(&writer).text("src/no.txt").is_some());
    assert_eq!(searched(&stage, &writer), [("allow".to_owned(), String::new())]);
}

/// What was decided about searches of the web, and by which rule.
fn searched(stage: &Stage, agent: &str) -> Vec<(String, String)> {
    let events = stage.agent(agent).events().into_iter();
    let about = events.filter(|one| one["kind"] == "decision" && one["tool"] == "WebSearch");
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    about.map(|one| (text(&one, "answer"), text(&one, "rule"))).collect()
}

/// As when it is asked for: `my-role` finds `my_role.md`.
#[test]
fn a_list_of_agents_means_dashes_and_underscores_alike() {
    let stage = stage("");
    let middle = HELPER.replace("\n---\nYou", "\nallowed_subagents: [last-one]\n---\nYou");
    stage.scratch.write(".bailiwick/agents/middle_one.md", &middle);
    stage.scratch.write(".bailiwick/agents/last_one.md", HELPER);
    stage.scratch.commit("Add more of them");
    let script =
        Script::new(vec![spawn("middle_one", "MIDDLE-WORK"), wait(), Turn::say("finished")])
            .when("MIDDLE-WORK", vec![spawn("last_one", "LEAF-WORK"), wait(), Turn::say("said")])
            .when("LEAF-WORK", vec![Turn::say("said")]);
    let may = "allowed-subagents = [\"middle-one\", \"last_one\"]\n";
    let ended = stage.agent("parent").task(may).run(script);
    ended.expect("completed", 0);
    let middle = child(&stage, "parent");
    assert_eq!(node(&tree(&stage), &child(&stage, &middle))["agent_type"], "last_one");
    // Its model is told of those that it may start.
    let asked = ended.model.requests();
    let told = |text: &str| asked.iter().any(|one| one.body.to_string().contains(text));
    assert!(told("- middle_one: Helps with one thing.") && !told("- helper: "));
}

#[test]
fn what_nobody_sets_for_a_child_is_that_of_the_one_above() {
    let stage = stage("");
    let own = HELPER.replace("\n---\nYou", "\nmodel: haiku\n---\nYou");
    stage.scratch.write(".bailiwick/agents/other.md", &own);
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
    let told = ended.model.result("call_0_4_0").replace('\\', "");
    for (words, times) in [
        ("\"model\":\"claude-opus-4-8\"", 1),
        ("\"model\":\"claude-haiku", 1),
        ("\"reasoning_effort\":\"high\"", 2),
    ] {
        assert_eq!(told.matches(words).count(), times, "{words}: {told}");
    }
    for (marker, named) in [("HELPER-WORK", "claude-opus-4-8"), ("OTHER-WORK", "haiku")] {
        let requests = ended.model.requests();
        let of_child = requests.iter().find(|one| {
            let first = one.body["messages"][0].to_string();
            first.contains(marker) && one.body["tools"].is_array()
        });
        let asked = of_child.unwrap().body["model"].as_str().unwrap().to_owned();
        assert!(asked.contains(named), "{marker}: {asked}");
    }
}

/// Less of a sandbox than there can be is what a person agreed to, for this run: its children get the same.
#[test]
fn a_child_has_the_sandbox_that_was_agreed_to_for_the_one_above() {
    let stage = stage("");
    for level in ["partial", "off"] {
        let options = ["--sandbox", level];
        let agent = stage.agent(level).task(MAY).options(&options);
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
fn nothing_of_a_family_is_left_when_all_have_ended() {
    let stage = stage("");
    let script = Script::new(vec![spawn("helper", "HELPER-WORK"), wait(), Turn::say("finished")])
        .when("HELPER-WORK", vec![Turn::say("said")]);
    stage.agent("parent").task(MAY).run(script).expect("completed", 0);
    let helper = child(&stage, "parent");
    outside::wait("its processes are gone", || stage.agent(&helper).processes().is_empty());
    let starting = stage.scratch.state().join("starting");
    assert_eq!(std::fs::read_dir(starting).unwrap().count(), 0);
}
