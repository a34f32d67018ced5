//! docs/guides/gate.md: the decisions of the gate about commands, also under other limits.

use super::guide::Guide;
use super::place::Place;
use super::shell::Shell;
use serde_json::{Value, json};

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    place.add_script_task("task.toml", "fix-42", "");
    place.scratch.write("payload.json", &payload(&place).to_string());
    let mut shell = place.shell();
    let results = guide.run(&mut shell);
    assert!(results.of("bailiwick explain -- 'cargo").out.contains("✗ policy::git-read-only"));
    assert!(results.of("bailiwick explain --role edit-local").out.contains("✗ scope::files-whitelist"));
    let explained: Value = serde_json::from_str(&results.of("bailiwick explain --task").out).unwrap();
    assert_eq!(explained["decision"]["because"]["rule"], "scope::files-whitelist", "{explained:#}");
    assert!(results.of("bailiwick explain --payload").out.contains("✗ policy::git-read-only"));

    shell.run("bailiwick spawn task.toml").expect_code(0);
    guide.fill("~/.local/state/bailiwick", place.scratch.state().display().to_string());
    guide.exits("bailiwick gate", 2);
    let gate_results = guide.run(&mut shell);
    assert!(gate_results.of("bailiwick gate").err.contains("policy::git-read-only"));

    let install = "bailiwick hooks install claude --role developer --files 'src/**'";
    shell.run(install).expect_code(0);
    run_hook(&place, &mut shell);
    let copy_log = "cp \"$BAILIWICK_STATE\"/hooks/*/decisions.jsonl decisions.jsonl";
    shell.run(copy_log).expect_code(0);
    let results = guide.run(&mut shell);
    assert!(results.of("bailiwick replay --role").out.contains('1'));
    assert!(results.of("bailiwick replay decisions.jsonl").out.contains('1'));
}

/// The payload that a program sends to its hook.
fn payload(place: &Place) -> Value {
    json!({
        "hook_event_name": "PreToolUse", "session_id": "s", "cwd": place.scratch.root(),
        "tool_name": "Bash", "tool_input": { "command": "git push" },
    })
}

/// Runs the command of the hook, as an agent program does before a call. It must deny.
pub(crate) fn run_hook(place: &Place, shell: &mut Shell) {
    let settings = place.scratch.read(".claude/settings.local.json");
    let settings: Value = serde_json::from_str(&settings).unwrap();
    let hook = settings.pointer("/hooks/PreToolUse/0/hooks/0/args/1").and_then(Value::as_str);
    let path_of = |name: &str| place.scratch.place().join(name);
    std::fs::write(path_of("hook.sh"), hook.unwrap()).unwrap();
    std::fs::write(path_of("call.json"), payload(place).to_string()).unwrap();
    let denied = shell.run("sh ../hook.sh < ../call.json").expect_code(2);
    assert!(denied.err.contains("policy::git-read-only"), "{}", denied.err);
}
