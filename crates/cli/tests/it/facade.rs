//! The `Capability` trait of the kei tools answers like the programs.

use std::collections::HashMap;

use bailiwick_cli::kei::facade::{self, GateContext, GateDecision, TaskSpec};
use bailiwick_testkit::Scratch;
use serde_json::json;

#[test]
fn a_capability_is_found_by_name_and_judges_a_call() {
    let scratch = Scratch::repository();
    let text = "[task]\nrole = \"edit-local\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n";
    let task = TaskSpec::parse("task.toml", text).unwrap();
    let root = scratch.root().to_str().unwrap().to_owned();
    let env = HashMap::from([("WORKTREE_PATH".to_owned(), root.clone())]);
    let judge = |name: &str, tool: &str, input: serde_json::Value| {
        let capability = facade::find(name, None).unwrap();
        assert_eq!(capability.name(), name);
        capability.check(&GateContext {
            tool_name: tool,
            tool_input: &input,
            task: &task,
            env: &env,
        })
    };
    let git = judge("policy::no-git-ops", "Bash", json!({ "command": "g''it status" }));
    assert!(matches!(&git, GateDecision::Deny { reason } if reason.contains("git")), "{git:?}");
    let list = judge("policy::no-git-ops", "Bash", json!({ "command": "ls" }));
    assert_eq!(list, GateDecision::Allow);
    let edit = judge("policy::no-git-ops", "Grep", json!({ "pattern": "x" }));
    assert_eq!(edit, GateDecision::NotApplicable);
    let outside = json!({ "file_path": format!("{root}/other.rs"), "content": "x" });
    let outside = judge("scope::files-whitelist", "Write", outside);
    assert!(matches!(outside, GateDecision::Deny { .. }), "{outside:?}");
    let inside = json!({ "file_path": format!("{root}/src/a.rs"), "content": "x" });
    assert_eq!(judge("scope::files-whitelist", "Write", inside), GateDecision::Allow);
    let none = judge("quality::tests-green", "Bash", json!({ "command": "ls" }));
    assert_eq!(none, GateDecision::NotApplicable);
    assert!(facade::find("policy::nothing", None).is_err());
}
