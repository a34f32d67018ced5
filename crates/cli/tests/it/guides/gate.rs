//! docs/guides/gate.md: what the gate says to commands, and what it would have said under other limits.

use super::guide::Guide;
use super::place::Place;
use super::shell::Shell;
use serde_json::{Value, json};

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    place.add_script_task("task.toml", "fix-42", "");
    place.scratch.write("payload.json", &payload(&place).to_string());
    let mut shell = place.shell();
    let said = guide.run(&mut shell);
    assert!(said.of("bailiwick explain -- 'cargo").out.contains("✗ policy::git-read-only"));
    assert!(said.of("bailiwick explain --role edit-local").out.contains("✗ scope::files-whitelist"));
    let judged: Value = serde_json::from_str(&said.of("bailiwick explain --task").out).unwrap();
    assert_eq!(judged["decision"]["because"]["rule"], "scope::files-whitelist", "{judged:#}");
    assert!(said.of("bailiwick explain --payload").out.contains("✗ policy::git-read-only"));

    shell.run("bailiwick spawn task.toml").expect_code(0);
    guide.fill("~/.local/state/bailiwick", place.scratch.state().display().to_string());
    guide.exits("bailiwick gate", 2);
    let asked = guide.run(&mut shell);
    assert!(asked.of("bailiwick gate").err.contains("policy::git-read-only"));

    let install = "bailiwick hooks install claude --role developer --files 'src/**'";
    shell.run(install).expect_code(0);
    calls_a_tool(&place, &mut shell);
    let kept = "cp \"$BAILIWICK_STATE\"/hooks/*/decisions.jsonl decisions.jsonl";
    shell.run(kept).expect_code(0);
    let said = guide.run(&mut shell);
    assert!(said.of("bailiwick replay --role").out.contains('1'));
    assert!(said.of("bailiwick replay decisions.jsonl").out.contains('1'));
}

/// What a program tells its hook about a call.
fn payload(place: &Place) -> Value {
    json!({
        "hook_event_name": "PreToolUse", "session_id": "s", "cwd": place.scratch.root(),
        "tool_name": "Bash", "tool_input": { "command": "git push" },
    })
}

/// What an agent does before a call: it runs the command of the hook, which says no.
pub(crate) fn calls_a_tool(place: &Place, shell: &mut Shell) {
    let settings = place.scratch.read(".claude/settings.local.json");
    let settings: Value = serde_json::from_str(&settings).unwrap();
    let hook = settings.pointer("/hooks/PreToolUse/0/hooks/0/args/1").and_then(Value::as_str);
    let file = |name: &str| place.scratch.place().join(name);
    std::fs::write(file("hook.sh"), hook.unwrap()).unwrap();
    std::fs::write(file("call.json"), payload(place).to_string()).unwrap();
    let denied = shell.run("sh ../hook.sh < ../call.json").expect_code(2);
    assert!(denied.err.contains("policy::git-read-only"), "{}", denied.err);
}
