//! The response of a model is truncated after a complete tool call. The agent program may run the call,
//! drop it or give up: the gate is not lost, and every call that runs was decided.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};

use super::stage::{GIT, PUSH, Stage};
use super::wait_for_slot;

const ONCE: &str = "echo once >> src/ran.txt";

fn check_truncated_response(cli: Cli) {
    let _slot = wait_for_slot();
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
    let run_count = || agent.text("src/ran.txt").unwrap_or_default().lines().count();
    match cli {
        // It gives up without running anything, and can be resumed.
        Cli::Gemini => {
            ended.expect("failed", 1);
            assert_eq!(run_count(), 0);
            let script = Script::continuing("again", turns());
            agent.resume("Go on.", &[], script).end().expect("completed", 0);
            assert_eq!(run_count(), 1);
        }
        // They run the call, and send the result with the next request.
        Cli::Claude | Cli::Codex => {
            ended.expect("completed", 0);
            assert_eq!(run_count(), 1);
        }
        // It repeats the request; a call that it had started has run.
        Cli::OpenCode => {
            ended.expect("completed", 0);
            assert!((1..=2).contains(&run_count()), "{}", run_count());
        }
    }
    let is_truncated = |event: &&serde_json::Value| {
        let by_proxy = event["kind"] == "tool-call" && event["seen_by"] == "proxy";
        by_proxy && event["id"].as_str().unwrap().starts_with("broken")
    };
    assert_eq!(agent.events().iter().filter(is_truncated).count(), 1, "no response was truncated");
    let is_decision = |event: &&serde_json::Value| {
        event["kind"] == "decision" && event["about"].as_str().unwrap().contains(ONCE)
    };
    assert_eq!(agent.events().iter().filter(is_decision).count(), run_count());
    agent.expect_denied(PUSH, GIT);
    assert_eq!(agent.pushed(), [""; 0]);
    agent.expect_push_possible();
}

#[test]
fn truncated_response_to_claude_is_not_a_lost_gate() {
    check_truncated_response(Cli::Claude);
}

#[test]
fn truncated_response_to_codex_is_not_a_lost_gate() {
    check_truncated_response(Cli::Codex);
}

#[test]
fn truncated_response_to_gemini_is_not_a_lost_gate() {
    check_truncated_response(Cli::Gemini);
}

#[test]
fn truncated_response_to_opencode_is_not_a_lost_gate() {
    check_truncated_response(Cli::OpenCode);
}
