//! The `Capability` trait of the kei tools decides like the programs.

use std::collections::HashMap;

use bailiwick_cli::kei::facade::{self, GateContext, GateDecision, TaskSpec};
use bailiwick_testkit::Scratch;
use serde_json::json;

#[test]
fn capability_is_found_by_name_and_decides_a_call() {
    let scratch = Scratch::repository();
    let text = "[task]\nrole = \"edit-local\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n";
    let task = TaskSpec::parse("task.toml", text).unwrap();
    let root = scratch.root().to_str().unwrap().to_owned();
    let env = HashMap::from([("WORKTREE_PATH".to_owned(), root.clone())]);
    let check = |name: &str, tool: &str, input: serde_json::Value| {
        let capability = facade::find(name, None).unwrap();
        assert_eq!(capability.name(), name);
        capability.check(&GateContext {
            tool_name: tool,
            tool_input: &input,
            task: &task,
            env: &env,
        })
    };
    let git = check("policy::no-git-ops", "Bash", json!({ "command": "g''it status" }));
    assert!(matches!(&git, GateDecision::Deny { reason } if reason.contains("git")), "{git:?}");
    let list = check("policy::no-git-ops", "Bash", json!({ "command": "ls" }));
    assert_eq!(list, GateDecision::Allow);
    let not_applicable = check("policy::no-git-ops", "Grep", json!({ "pattern": "x" }));
    assert_eq!(not_applicable, GateDecision::NotApplicable);
    let outside = json!({ "file_path": format!("{root}/other.rs"), "content": "x" });
    let outside = check("scope::files-whitelist", "Write", outside);
    assert!(matches!(outside, GateDecision::Deny { .. }), "{outside:?}");
    let inside = json!({ "file_path": format!("{root}/src/a.rs"), "content": "x" });
    assert_eq!(check("scope::files-whitelist", "Write", inside), GateDecision::Allow);
    let without_gate = check("quality::tests-green", "Bash", json!({ "command": "ls" }));
    assert_eq!(without_gate, GateDecision::NotApplicable);
    assert!(facade::find("policy::nothing", None).is_err());
}
