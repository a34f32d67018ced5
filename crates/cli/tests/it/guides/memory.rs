//! docs/guides/memory.md: an issue in git that a run is bound to, and its transfer to another clone.

use super::guide::Guide;
use super::place::Place;

const STEPS: &str = r#"
[[agent.script]]
do = "write"
path = "src/hello.txt"
text = "hello\n"
"#;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    place.add_script_task("task.toml", "fix-42", STEPS);
    let origin = place.scratch.place().join("origin.git").display().to_string();
    place.scratch.git(&["init", "--quiet", "--bare", &origin]);
    place.scratch.git(&["remote", "add", "origin", &origin]);
    let mut shell = place.shell();
    let shown = guide.run(&mut shell);
    let log = &shown.of("bailiwick memory log").out;
    assert!(log.contains("subagent_result") && log.contains("`fix-42` ended: completed"), "{log}");
    let state = place.json(&["memory", "show", "#1"]);
    let last = state["checkpoint"]["last_invocation"].as_str().unwrap();
    assert!(last.starts_with("fix-42/1-"), "{state}");
    assert_eq!(state["checkpoint"]["budget"]["total"], 500_000, "{state}");
    assert_eq!(state["problems"], serde_json::json!([]), "{state}");
    // The text of the issue that the agent got is recorded.
    let loads = place.scratch.state().join("runs/fix-42/context.jsonl");
    assert!(std::fs::read_to_string(loads).unwrap().contains("checkpoint"));
    assert!(!place.scratch.state().join("runs/fix-42/issue-exit.json").exists());
    let recovered = guide.run(&mut shell);
    let recovered = &recovered.of("bailiwick recover").out;
    assert!(recovered.contains("run       fix-42 (developer) passed"), "{recovered}");
    guide.run(&mut shell);
    let remote_references = place.scratch.git(&["ls-remote", &origin]);
    assert!(remote_references.contains("refs/bailiwick/issues/1"), "{remote_references}");
    // A result that could not be recorded is recorded by the next run, once.
    let pending = serde_json::json!({
        "issue": "#1", "agent": "developer", "run": "fix-42", "root": place.scratch.root(),
        "invocation": "fix-42/2", "depth": 0, "attempts": 0,
    });
    let path = place.scratch.state().join("runs/fix-42/issue-exit.json");
    std::fs::write(&path, pending.to_string()).unwrap();
    place.add_script_task("next.toml", "fix-44", STEPS);
    shell.run("bailiwick run next.toml --issue '#1'").expect_code(0);
    assert!(!path.exists());
    let log = shell.run("bailiwick memory log '#1'").expect_code(0).out;
    for (invocation, count) in [("`fix-42` ended: completed", 2), ("`fix-44` ended", 1)] {
        assert_eq!(log.matches(invocation).count(), count, "{invocation}: {log}");
    }
    // A refused start records nothing.
    shell.run("bailiwick run fix-42").expect_code(2);
    assert_eq!(shell.run("bailiwick memory log '#1'").expect_code(0).out, log);
    // A run on a closed issue is refused.
    shell.run("bailiwick memory close '#1'").expect_code(0);
    place.add_script_task("other.toml", "fix-43", STEPS);
    let refused = shell.run("bailiwick run other.toml --issue '#1'").expect_code(2);
    assert!(refused.err.contains("the issue is closed"), "{}", refused.err);
}
