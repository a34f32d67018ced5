//! The answer of a model breaks off behind a call that is whole: what the program makes of it is no loss
//! of the gate, whether it runs the call, drops it or gives up; and what it runs was decided.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};

use super::stage::{GIT, PUSH, Stage};
use super::turn;

const ONCE: &str = "echo once >> src/ran.txt";

fn breaks_off(cli: Cli) {
    let _turn = turn();
    let stage = Stage::new(cli);
    let agent = stage.agent("broken");
    let turns = || {
        vec![
            Turn::Calls(vec![Call::shell("echo begun > src/begun.txt")]),
            Turn::Calls(vec![Call::shell(ONCE)]),
            Turn::Calls(vec![Call::shell(PUSH)]),
            Turn::say("finished"),
        ]
    };
    let ended = agent.run(Script::new(turns()).breaking_off(1));
    let ran = || agent.text("src/ran.txt").unwrap_or_default().lines().count();
    match cli {
        // It gives up without having run anything, and can be taken up again.
        Cli::Gemini => {
            ended.expect("failed", 1);
            assert_eq!(ran(), 0);
            let script = Script::continuing("again", turns());
            agent.take_up("Go on.", &[], script).end().expect("completed", 0);
            assert_eq!(ran(), 1);
        }
        // They run it, and tell the model when they ask again.
        Cli::Claude | Cli::Codex => {
            ended.expect("completed", 0);
            assert_eq!(ran(), 1);
        }
        // It asks again for all; what it had begun by then has run.
        Cli::OpenCode => {
            ended.expect("completed", 0);
            assert!((1..=2).contains(&ran()), "{}", ran());
        }
    }
    let broken = |event: &&serde_json::Value| {
        let by_proxy = event["kind"] == "tool-call" && event["seen_by"] == "proxy";
        by_proxy && event["id"].as_str().unwrap().starts_with("broken")
    };
    assert_eq!(agent.events().iter().filter(broken).count(), 1, "no answer broke off");
    let decided = |event: &&serde_json::Value| {
        event["kind"] == "decision" && event["about"].as_str().unwrap().contains(ONCE)
    };
    assert_eq!(agent.events().iter().filter(decided).count(), ran());
    agent.denied(PUSH, GIT);
    assert_eq!(agent.pushed(), [""; 0]);
    agent.could_push();
}

#[test]
fn an_answer_to_claude_breaks_off() {
    breaks_off(Cli::Claude);
}

#[test]
fn an_answer_to_codex_breaks_off() {
    breaks_off(Cli::Codex);
}

#[test]
fn an_answer_to_gemini_breaks_off() {
    breaks_off(Cli::Gemini);
}

#[test]
fn an_answer_to_opencode_breaks_off() {
    breaks_off(Cli::OpenCode);
}
