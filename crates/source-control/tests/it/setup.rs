//! Setup commands of a worktree.

use std::fs;

use bailiwick_lifecycle::ports::{Preparation, Workspaces as _};

use crate::workspaces::{id, workspaces};

fn preparation(setup: &[&str]) -> Preparation {
    let setup = setup.iter().map(|command| (*command).to_owned()).collect();
    Preparation { copy: vec!["data".to_owned()], setup, prefetch: Vec::new(), hosts: Vec::new() }
}

#[test]
fn commands_run_in_the_worktree_in_order_after_the_copies() {
    let (scratch, workspaces) = workspaces();
    let agent = id("ag-1");
    let _lock = workspaces.lock(&agent).unwrap();
    scratch.write("data", "copied\n");
    workspaces.add_worktree(&agent, "HEAD").unwrap();
    let commands = preparation(&[
        "cat data > order.txt && pwd >> order.txt",
        "echo second >> order.txt; ls > 'with space' # a comment",
        "cat >> order.txt", // the standard input is empty
    ]);
    workspaces.make_ready(&agent, &commands).unwrap();
    let worktree = workspaces.worktree_path(&agent);
    let place = worktree.canonicalize().unwrap();
    let text = fs::read_to_string(worktree.join("order.txt")).unwrap();
    assert_eq!(text, format!("copied\n{}\nsecond\n", place.display()));
    assert!(!scratch.root().join("order.txt").exists());
    assert!(workspaces.observe(&agent).unwrap().ready);
}

#[test]
fn failed_setup_command_is_named_and_can_be_repeated() {
    let (scratch, workspaces) = workspaces();
    let agent = id("ag-1");
    let _lock = workspaces.lock(&agent).unwrap();
    scratch.write("data", "copied\n");
    workspaces.add_worktree(&agent, "HEAD").unwrap();
    let worktree = workspaces.worktree_path(&agent);
    for (command, why) in
        [("exit 7", "7"), ("kill -9 $$", "signal"), ("no-such-program-at-all", "127")]
    {
        let commands = preparation(&["touch before", command, "touch after"]);
        let error = workspaces.make_ready(&agent, &commands).unwrap_err().to_string();
        assert!(error.contains(&format!("`{command}`")) && error.contains(why), "{error}");
        assert!(worktree.join("before").exists() && !worktree.join("after").exists());
        assert!(!workspaces.observe(&agent).unwrap().ready);
    }
    workspaces.make_ready(&agent, &preparation(&["touch before", "true", "touch after"])).unwrap();
    assert!(worktree.join("after").exists());
    assert!(workspaces.observe(&agent).unwrap().ready);
}
