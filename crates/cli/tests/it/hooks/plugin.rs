//! OpenCode's plugin, loaded and called by Node.js.

use bailiwick_testkit::scratch::Ran;
use serde_json::{Value, json};

use super::{Fixture, SETTINGS};

/// Loads the plugin as OpenCode does, makes one call, and prints the result.
const CALLER: &str = r#"
import { pathToFileURL } from "node:url";
const [, , file, directory] = process.argv;
const { BailiwickGate } = await import(pathToFileURL(file));
const hooks = await BailiwickGate({ directory });
try {
  const call = { tool: "bash", sessionID: "ses_1", callID: "call_1" };
  await hooks["tool.execute.before"](call, { args: { command: "git push" } });
  console.log("runs");
} catch (error) {
  console.log("denied: " + error.message);
}
"#;

fn call(fixture: &Fixture) -> Ran {
    let caller = fixture.bin().join("caller.mjs");
    std::fs::write(&caller, CALLER).unwrap();
    // Node recognizes a module by its file name.
    let plugin = fixture.bin().join("plugin.mjs");
    std::fs::copy(fixture.scratch.root().join(SETTINGS[3].1), &plugin).unwrap();
    let mut command = fixture.scratch.command("node");
    command.arg(&caller).arg(&plugin).arg(fixture.scratch.root());
    let output = command.output();
    assert!(output.is_ok(), "node is needed: install the package nodejs");
    Ran::from(output.unwrap())
}

#[test]
fn call_runs_only_if_the_gate_allows_it() {
    let fixture = Fixture::new();
    fixture.install("opencode", &[]).expect_code(0);
    let could_not = "denied: bailiwick: the gate could not run, so the call is denied\n";
    for (script, expected) in [
        ("exit 0", "runs\n"),
        ("echo 'not that' >&2; exit 2", "denied: not that\n"),
        ("exit 2", could_not),
        ("echo oops >&2; exit 1", could_not),
        ("kill -KILL $$", could_not),
    ] {
        fixture.set_gate_script(script);
        let ran = call(&fixture).expect_code(0);
        assert_eq!(ran.out, expected, "{script}: {}", ran.err);
    }
    let input = std::fs::read_to_string(fixture.bin().join("input")).unwrap();
    let expected_input = json!({
        "tool": "bash",
        "sessionID": "ses_1",
        "callID": "call_1",
        "args": {"command": "git push"},
        "cwd": fixture.scratch.root(),
    });
    assert_eq!(serde_json::from_str::<Value>(&input).unwrap(), expected_input);
    std::fs::remove_file(fixture.bin().join("bailiwick-gate")).unwrap();
    assert_eq!(call(&fixture).expect_code(0).out, could_not);
}

#[test]
fn plugin_is_unproven_until_it_was_loaded() {
    let fixture = Fixture::new();
    fixture.install("opencode", &[]).expect_code(0);
    let unproven = ("unproven".to_owned(), vec!["not-announced".to_owned()]);
    assert_eq!(fixture.status("opencode"), unproven);
    call(&fixture).expect_code(0);
    assert_eq!(fixture.status("opencode"), ("intact".to_owned(), vec![]));
    fixture.run(&["install", "opencode", "--role", "explorer"]).expect_code(0);
    assert_eq!(fixture.status("opencode"), unproven, "only the older plugin was loaded");
}

#[test]
fn plugin_that_cannot_announce_itself_still_enforces() {
    let fixture = Fixture::new();
    fixture.install("opencode", &[]).expect_code(0);
    fixture.set_gate_script("echo 'not that' >&2; exit 2");
    std::fs::remove_dir_all(fixture.hook_directory("opencode")).unwrap();
    assert_eq!(call(&fixture).expect_code(0).out, "denied: not that\n");
}
