//! docs/guides/ledger.md: what is recorded of an agent that was spawned.

use super::guide::Guide;
use super::place::Place;

const TASK: &str = r#"[task]
role = "edit-local"
agent-id = "fix-42"
[scope]
files-whitelist = ["src/**"]
[body]
text = "Mend it."
"#;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    place.scratch.write("task.toml", TASK);
    place.scratch.commit("Add a task");
    let mut shell = place.shell();
    shell.run("bailiwick spawn task.toml").expect_code(0);
    let shown = guide.run(&mut shell);
    for listed in ["list", "tree", "show", "find"] {
        let ran = shown.of(&format!("bailiwick ledger {listed}"));
        assert!(ran.out.contains("fix-42"), "{listed}: {}", ran.out);
    }
    assert_eq!(shown.of("bailiwick ledger spec").out, TASK);
    assert!(shown.of("bailiwick ledger validate").out.starts_with("OK: all 6"));
}
