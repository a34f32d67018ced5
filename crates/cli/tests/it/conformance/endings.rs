//! Agents that are stopped before they complete, and resumed.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};

use super::agent::Agent;
use super::attempt::RunningAttempt;
use super::stage::{GIT, PUSH, Stage};
use super::{Outcome, Scenario};

pub(super) const KILL: Scenario = Scenario {
    name: "kill in the middle of a tool",
    how: "A tool sleeps, and so does a process that it started in a session of its own. After \
          `bailiwick stop` no process of the agent runs, and the run is stopped. It is resumed, \
          sleeps, and its supervisor is killed: no process of the agent runs, and the run was \
          cut off. It is resumed again, with the same limits, and completes.",
    run_scenario: kill,
};

/// Starts one process in another session, and one that the tool waits for.
fn sleeps(mark: &str) -> Turn {
    let command = format!("setsid sleep 1000 & echo {mark} > src/{mark}.txt; sleep 1001");
    Turn::Calls(vec![Call::shell(command)])
}

fn kill(stage: &Stage) -> Outcome {
    let agent = stage.agent("killed");
    let mut working = agent.start(Script::new(vec![sleeps("one"), sleeps("one"), Turn::say("no")]));
    wait_for_tool(&agent, &mut working, "src/one.txt");
    agent.stop();
    agent.expect_no_processes();
    working.end().expect("stopped", 1);
    assert_eq!(agent.state(), "stopped");
    let turns = vec![sleeps("two"), sleeps("two"), Turn::say("no")];
    let mut working = agent.resume("Go on after the stop.", &[], Script::continuing("two", turns));
    wait_for_tool(&agent, &mut working, "src/two.txt");
    working.kill();
    agent.expect_no_processes();
    assert_eq!(agent.state(), "cut-off");
    let turns = vec![
        Turn::Calls(vec![Call::shell(PUSH)]),
        Turn::Calls(vec![Call::shell("echo three > src/three.txt")]),
        Turn::say("finished"),
    ];
    let script = Script::continuing("three", turns);
    let ended = agent.resume("Go on after the kill.", &[], script).end();
    ended.expect("completed", 0);
    assert_eq!(agent.pushed(), [""; 0]);
    assert_eq!(agent.text("src/three.txt").as_deref(), Some("three\n"));
    agent.expect_denied(PUSH, GIT);
    let last = ended.model.requests().pop().unwrap().body.to_string();
    for expected in ["Do the work of killed.", "Go on after the kill."] {
        assert!(last.contains(expected), "the model does not see {expected:?}: {last}");
    }
    agent.expect_no_processes();
    agent.expect_push_possible();
    Outcome::Enforced
}

fn wait_for_tool(agent: &Agent<'_>, working: &mut RunningAttempt, mark: &str) {
    working.wait_until("the tool runs", || {
        let processes = agent.processes();
        let sleeps = |name: &str| processes.iter().any(|process| process.command.trim() == name);
        agent.text(mark).is_some() && sleeps("sleep 1000") && sleeps("sleep 1001")
    });
}

pub(super) const BUDGET: Scenario = Scenario {
    name: "budget reached",
    how: "The task has two turns. No request reaches the model after the second, and the run \
          ends; its work until then is kept. With more turns it is resumed, with the same \
          limits, and completes.",
    run_scenario: budget,
};

fn budget(stage: &Stage) -> Outcome {
    let agent = stage.agent("spent").task("[budget]\nturns = 2\n");
    let write =
        |name: &str| Turn::Calls(vec![Call::shell(format!("echo {name} > src/{name}.txt"))]);
    let turns = ["first", "second", "third", "fourth"].map(write).into_iter();
    let ended = agent.run(Script::new(turns.chain([Turn::say("no")]).collect()));
    ended.expect("budget-exhausted", 1);
    assert_eq!(agent.text("src/first.txt").as_deref(), Some("first\n"));
    assert_eq!(agent.text("src/third.txt"), None);
    assert_eq!(ended.report["turns"], 2, "{:#}", ended.report);
    ended.expect_tokens_of_all_responses();
    assert_eq!(agent.state(), "budget-exhausted");
    agent.expect_no_processes();
    let turns = vec![Turn::Calls(vec![Call::shell(PUSH)]), write("more"), Turn::say("finished")];
    let script = Script::continuing("more", turns);
    let ended = agent.resume("There is more now.", &["--turns", "20"], script).end();
    ended.expect("completed", 0);
    assert_eq!(agent.pushed(), [""; 0]);
    assert_eq!(agent.text("src/more.txt").as_deref(), Some("more\n"));
    agent.expect_denied(PUSH, GIT);
    let last = ended.model.requests().pop().unwrap().body.to_string();
    for expected in ["Do the work of spent.", "src/first.txt", "There is more now."] {
        assert!(last.contains(expected), "the model does not see {expected:?}: {last}");
    }
    agent.expect_push_possible();
    Outcome::Enforced
}

/// Claude Code has its own copy of the budget, and stops if that is not increased.
#[test]
fn increased_dollar_budget_is_passed_to_the_program() {
    let stage = Stage::new(Cli::Claude);
    let settings = "[run]\napproval-seconds = 1\n[prices.\"*\"]\ninput = 5.0\noutput = 25.0\n";
    stage.scratch.write(".bailiwick/settings.toml", settings);
    stage.scratch.commit("Say what models cost");
    let agent = stage.agent("poor").task("[budget]\nusd = 0.001\n");
    let write =
        |name: &str| Turn::Calls(vec![Call::shell(format!("echo {name} > src/{name}.txt"))]);
    let turns = ["first", "second", "third"].map(write).into_iter().chain([Turn::say("no")]);
    let ended = agent.run(Script::new(turns.collect()));
    ended.expect("budget-exhausted", 1);
    let turns = ["fourth", "fifth", "sixth"].map(write).into_iter().chain([Turn::say("done")]);
    let script = Script::continuing("rich", turns.collect());
    let ended = agent.resume("There is more now.", &["--usd", "5"], script).end();
    ended.expect("completed", 0);
    assert_eq!(agent.text("src/sixth.txt").as_deref(), Some("sixth\n"));
}
