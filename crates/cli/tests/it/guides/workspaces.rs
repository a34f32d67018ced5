//! docs/guides/workspaces.md: a workspace from its creation to a rebase with a conflict, and a linked one.

use super::fleet::Fleet;
use super::guide::Guide;

pub(crate) fn follow(guide: &mut Guide) {
    let fleet = Fleet::declare();
    let scratch = &fleet.place.scratch;
    let path = scratch.state().join("worktrees/mend");
    let mut shell = fleet.place.shell();
    let results = guide.run_before("bailiwick workspaces archive", &mut shell);
    assert!(results.of("bailiwick workspaces show").out.contains("joined with issue 42"));
    std::fs::write(path.join("src/kept.txt"), "mine\n").unwrap();
    guide.run_before("bailiwick workspaces recover", &mut shell);
    assert!(!path.exists());
    guide.run_before("bailiwick workspaces rebase", &mut shell);
    // Uncommitted changes are restored.
    assert_eq!(std::fs::read_to_string(path.join("src/kept.txt")).unwrap(), "mine\n");
    let commit = format!("git -C {} commit --quiet --all -m Mine", path.display());
    shell.run(&commit).expect_code(0);
    scratch.write("src/kept.txt", "theirs\n");
    scratch.commit("Change the same line");
    fleet.forge.take(&scratch.root(), "main");
    scratch.git(&["worktree", "add", "--quiet", "-b", "theirs", "../app-mend"]);
    let results = guide.run(&mut shell);
    let files = &results.of("bailiwick workspaces rebase mend --files").out;
    assert!(files.trim().ends_with("worktrees/mend/src/kept.txt"), "{files}");
    let listed = shell.run("bailiwick workspaces list").expect_code(0).out;
    assert!(listed.contains("app-mend"), "{listed}");
}
