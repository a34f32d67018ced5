//! OpenCode's plugin, loaded and called by a real JavaScript program.

use bailiwick_testkit::scratch::Ran;
use serde_json::{Value, json};

use super::{Bench, SETTINGS};

/// Loads the plugin as OpenCode does, puts one call to it, and prints what came of it.
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

fn call(bench: &Bench) -> Ran {
    let caller = bench.bin().join("caller.mjs");
    std::fs::write(&caller, CALLER).unwrap();
    // Node takes a file for a module by its name.
    let plugin = bench.bin().join("plugin.mjs");
    std::fs::copy(bench.scratch.root().join(SETTINGS[3].1), &plugin).unwrap();
    let mut command = bench.scratch.command("node");
    command.arg(&caller).arg(&plugin).arg(bench.scratch.root());
    let output = command.output();
    assert!(output.is_ok(), "node is needed: install the package nodejs");
    Ran::from(output.unwrap())
}

#[test]
fn only_a_gate_that_says_yes_lets_a_call_run() {
    let bench = Bench::new();
    bench.install("opencode", &[]).expect_code(0);
    let could_not = "denied: bailiwick: the gate could not run, so the call is denied\n";
    for (end, said) in [
        ("exit 0", "runs\n"),
        ("echo 'not that' >&2; exit 2", "denied: not that\n"),
        ("exit 2", could_not),
        ("echo oops >&2; exit 1", could_not),
        ("kill -KILL $$", could_not),
    ] {
        bench.end(end);
        let ran = call(&bench).expect_code(0);
        assert_eq!(ran.out, said, "{end}: {}", ran.err);
    }
    let input = std::fs::read_to_string(bench.bin().join("input")).unwrap();
    let wanted = json!({
        "tool": "bash",
        "sessionID": "ses_1",
        "callID": "call_1",
        "args": {"command": "git push"},
        "cwd": bench.scratch.root(),
    });
    assert_eq!(serde_json::from_str::<Value>(&input).unwrap(), wanted);
    std::fs::remove_file(bench.bin().join("bailiwick-gate")).unwrap();
    assert_eq!(call(&bench).expect_code(0).out, could_not);
}

#[test]
fn it_is_unproven_until_it_has_said_that_it_was_loaded() {
    let bench = Bench::new();
    bench.install("opencode", &[]).expect_code(0);
    let unproven = ("unproven".to_owned(), vec!["not-announced".to_owned()]);
    assert_eq!(bench.status("opencode"), unproven);
    call(&bench).expect_code(0);
    assert_eq!(bench.status("opencode"), ("intact".to_owned(), vec![]));
    bench.run(&["install", "opencode", "--role", "explorer"]).expect_code(0);
    assert_eq!(bench.status("opencode"), unproven, "an older one was loaded");
}

#[test]
fn a_plugin_that_cannot_say_so_still_holds() {
    let bench = Bench::new();
    bench.install("opencode", &[]).expect_code(0);
    bench.end("echo 'not that' >&2; exit 2");
    std::fs::remove_dir_all(bench.kept("opencode")).unwrap();
    assert_eq!(call(&bench).expect_code(0).out, "denied: not that\n");
}
