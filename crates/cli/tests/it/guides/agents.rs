//! docs/guides/agents.md: a program that a manifest describes, and one that plays a script.

use super::guide::Guide;
use super::place::Place;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    place.scratch.write(".bailiwick/adapters/babysitter.toml", &guide.text("toml"));
    place.add_program("babysit", "echo babysit 1.0");
    let task = "[task]\nrole = \"developer\"\nagent-id = \"noted\"\n[scope]\n\
                files-whitelist = [\"notes.md\"]\n[verification]\ncommands = [\"test -f notes.md\"]\n\
                [body]\ntext = \"Do it.\"\n";
    place.scratch.write("task.toml", &format!("{task}{}", guide.text("toml")));
    place.scratch.commit("Add a task");
    let mut shell = place.shell();
    let said = shell.run("bailiwick doctor").out;
    let line = said.lines().find(|line| line.contains("babysitter"));
    assert!(line.is_some_and(|line| line.starts_with("good")), "{said}");
    shell.run("bailiwick run task.toml").expect_code(0);
    let worktree = place.scratch.state().join("worktrees/noted");
    assert_eq!(std::fs::read_to_string(worktree.join("notes.md")).unwrap(), "done\n");
}
