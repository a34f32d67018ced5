//! docs/guides/ledger.md: the record of a spawned agent.

use super::guide::Guide;
use super::place::Place;
use super::shell::Shell;

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
    for verb in ["list", "tree", "show", "find"] {
        let ran = shown.of(&format!("bailiwick ledger {verb}"));
        assert!(ran.out.contains("fix-42"), "{verb}: {}", ran.out);
    }
    assert_eq!(shown.of("bailiwick ledger spec").out, TASK);
    assert!(shown.of("bailiwick ledger validate").out.starts_with("OK: all 6"));
    in_another_repository(guide, &place, &mut shell);
}

/// The same name in another repository gets another id.
fn in_another_repository(guide: &mut Guide, place: &Place, shell: &mut Shell) {
    let other = place.scratch.place().join("other");
    shell.run(&format!("git init --quiet -b main {0} && cd {0}", other.display())).expect_code(0);
    std::fs::write(other.join("task.toml"), TASK).unwrap();
    shell.run("git add . && git commit --quiet -m 'Add a task'").expect_code(0);
    let results = guide.run(shell);
    let spawned = &results.of("bailiwick spawn").out;
    let id = spawned.lines().find_map(|line| line.strip_prefix("id        fix-42-"));
    let is_qualified = id.is_some_and(|id| id.ends_with("(another repository has an agent `fix-42`)"));
    assert!(is_qualified && spawned.contains("agent     fix-42\n"), "{spawned}");
}
