//! docs/guides/task.md: every key that a task can have is accepted.

use super::guide::Guide;
use super::place::Place;

/// A role that accepts every parameter: all shipped capabilities with parameters, and a custom one.
const ROLE: &str = r#"[role]
name = "edit-local"
description = "Works on everything."
[capabilities]
required = [
  "scope::files-whitelist", "scope::files-denylist", "quality::commands-green",
  "quality::cargo-check-green", "quality::tests-green", "quality::constructor-pattern",
  "quality::tests-kept",
  "safety::no-dep-bump", "safety::no-mass-delete", "output::report-format", "policy::house-style",
]
[tools]
allowed = ["*"]
"#;
const CAPABILITY: &str = r#"[capability]
name = "policy::house-style"
category = "policy"
version = "1.0"
description = "The house style."
rationale = "So that all of it looks alike."
[restricts]
tool-patterns = ['^reformat( |$)']
tools-denied = []
[parameterized]
accepts = ["house-style"]
[text]
path = "text.md"
[gate]
rust-module = ""
event = "PreToolUse:Bash"
severity = "block"
[verify]
rust-module = ""
run-mode = "worktree"
when = "on-return"
"#;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    // A user copies it unchanged.
    place.scratch.write("copied.toml", &guide.text("toml"));
    place.shell().run("bailiwick prepare copied.toml").expect_code(0);
    let directory = ".bailiwick/capabilities/policy/house-style";
    place.scratch.write(".bailiwick/roles/edit-local.toml", ROLE);
    place.scratch.write(&format!("{directory}/capability.toml"), CAPABILITY);
    place.scratch.write(&format!("{directory}/text.md"), "You MUST NOT reformat code.\n");
    place.scratch.write("docs/api.md", "The API.\n");
    place.scratch.write(".mcp.json", r#"{"mcpServers":{"docs":{"command":"docs-mcp"}}}"#);
    let kit = place.scratch.commit("Add a kit");
    guide.fill("3f2c1de0a4b5968778695a4b3c2d1e0f00112233", kit);
    place.scratch.write("task.toml", &guide.text("toml"));
    let mut shell = place.shell();
    let prepared = shell.run("bailiwick prepare task.toml").expect_code(0);
    assert!(prepared.out.contains("What to do."), "{}", prepared.out);
    // A part of a task: the setup of its worktree.
    let small = "[task]\nrole = \"developer\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[body]\n\
                 text = \"Do it.\"\n";
    place.scratch.write("small.toml", &format!("{small}{}", guide.text("toml")));
    shell.run("bailiwick lint small.toml").expect_code(0);
}
