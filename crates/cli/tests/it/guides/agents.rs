//! docs/guides/agents.md: a program that a manifest describes, and a scripted agent.

use super::guide::Guide;
use super::place::Place;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    place.scratch.write(".bailiwick/adapters/babysitter.toml", &guide.text("toml"));
    let task = "[task]\nrole = \"developer\"\nagent-id = \"noted\"\n[scope]\n\
                files-whitelist = [\"notes.md\"]\n[verification]\ncommands = [\"test -f notes.md\"]\n\
                [body]\ntext = \"Do it.\"\n";
    place.scratch.write("task.toml", &format!("{task}{}", guide.text("toml")));
    place.scratch.commit("Add a task");
    let mut shell = place.shell();
    // The manifest is valid: only the program is missing.
    let other_task = task.replace("noted", "babysat") + "[agent]\ncli = \"babysitter\"\n";
    place.scratch.write("babysat.toml", &other_task);
    place.scratch.commit("Add another task");
    let failed = shell.run("bailiwick run babysat.toml").expect_code(1);
    assert!(failed.err.contains("no `babysit` on PATH"), "{}", failed.err);
    shell.run("bailiwick run task.toml").expect_code(0);
    let worktree = place.scratch.state().join("worktrees/noted");
    assert_eq!(std::fs::read_to_string(worktree.join("notes.md")).unwrap(), "done\n");
}
