//! A check that is marked `per-tool-call`, with the real CLIs: what breaks it is told at the next call, and
//! can be mended.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::Value;

use super::stage::Stage;
use crate::checks_between_calls::{NAME, capability};

fn is_told_and_mends(cli: Cli) {
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
    let told = ended.model.results();
    assert_eq!(agent.text("src/early.txt"), None, "{told:#?}");
    assert_eq!(agent.text("src/late.txt").as_deref(), Some("late\n"), "{told:#?}");
    assert_eq!(agent.text("src/broken"), None, "{told:#?}");
    agent.denied("src/early.txt", NAME);
    agent.allowed("rm src/broken");
    agent.allowed("cat src/late.txt");
    let denial = ended.model.result("call_0_1_0");
    for words in ["failed after your last change", "seen-by-the-check"] {
        assert!(denial.contains(words), "{denial}");
    }
    let events = agent.events();
    let of_checks = events.iter().filter(|event| event["kind"] == "check");
    let held: Vec<&Value> = of_checks.map(|event| &event["ok"]).collect();
    assert_eq!(held, [false, true], "{events:#?}");
    assert_eq!(ended.said["denied"], 1);
    agent.nothing_runs();
}

#[test]
fn claude_is_told_and_mends() {
    is_told_and_mends(Cli::Claude);
}

#[test]
fn codex_is_told_and_mends() {
    is_told_and_mends(Cli::Codex);
}

#[test]
fn gemini_is_told_and_mends() {
    is_told_and_mends(Cli::Gemini);
}

#[test]
fn opencode_is_told_and_mends() {
    is_told_and_mends(Cli::OpenCode);
}
