//! A check that is marked `per-tool-call`, with the real CLIs: a failure is reported at the next call, and
//! can be fixed.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::Value;

use super::stage::Stage;
use crate::checks_between_calls::{NAME, capability};

fn check_is_reported_and_fixed(cli: Cli) {
    let stage = Stage::new(cli);
    capability(
        &stage.scratch,
        "per-tool-call",
        "test ! -e src/broken || { echo seen-by-the-check; exit 3; }",
    );
    let role = stage.scratch.read(".bailiwick/roles/worker.toml");
    let role =
        role.replace("\"scope::files-whitelist\"", "\"scope::files-whitelist\", \"quality::own\"");
    stage.scratch.write(".bailiwick/roles/worker.toml", &role);
    stage.scratch.commit("A check");
    let agent = stage.agent("mends");
    let ended = agent.run(Script::new(vec![
        Turn::Calls(vec![Call::write(agent.path("src/broken"), "x\n")]),
        Turn::Calls(vec![Call::shell("echo early > src/early.txt")]),
        Turn::Calls(vec![Call::shell("rm src/broken && echo late > src/late.txt")]),
        Turn::Calls(vec![Call::shell("cat src/late.txt")]),
        Turn::say("finished"),
    ]));
    ended.expect("completed", 0);
    let results = ended.model.results();
    assert_eq!(agent.text("src/early.txt"), None, "{results:#?}");
    assert_eq!(agent.text("src/late.txt").as_deref(), Some("late\n"), "{results:#?}");
    assert_eq!(agent.text("src/broken"), None, "{results:#?}");
    agent.expect_denied("src/early.txt", NAME);
    agent.expect_allowed("rm src/broken");
    agent.expect_allowed("cat src/late.txt");
    let denial = ended.model.result("call_0_1_0");
    for expected in ["failed after your last change", "seen-by-the-check"] {
        assert!(denial.contains(expected), "{denial}");
    }
    let events = agent.events();
    let checks = events.iter().filter(|event| event["kind"] == "check");
    let check_results: Vec<&Value> = checks.map(|event| &event["ok"]).collect();
    assert_eq!(check_results, [false, true], "{events:#?}");
    assert_eq!(ended.report["denied"], 1);
    agent.expect_no_processes();
}

#[test]
fn failed_check_is_reported_to_claude_and_fixed() {
    check_is_reported_and_fixed(Cli::Claude);
}

#[test]
fn failed_check_is_reported_to_codex_and_fixed() {
    check_is_reported_and_fixed(Cli::Codex);
}

#[test]
fn failed_check_is_reported_to_gemini_and_fixed() {
    check_is_reported_and_fixed(Cli::Gemini);
}

#[test]
fn failed_check_is_reported_to_opencode_and_fixed() {
    check_is_reported_and_fixed(Cli::OpenCode);
}
