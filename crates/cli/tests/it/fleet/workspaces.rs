//! Workspaces on the command line, with real git.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::Place;

fn provision(place: &Place) -> PathBuf {
    let arguments = ["workspaces", "provision", "mend", "--repository", "app", "--issue", "42"];
    let output = place.run(&arguments).expect_code(0);
    assert!(output.out.starts_with("workspace/mend idle: created on the branch"), "{}", output.out);
    place.scratch.state().join("worktrees/mend")
}

#[test]
fn workspaces_provision_workspaces_list_and_workspaces_show() {
    let place = Place::new();
    assert_eq!(place.json(&["workspaces", "list"]), json!([]));
    let path = provision(&place);
    assert_eq!(fs::read_to_string(path.join("src/kept.txt")).unwrap(), "kept\n");
    provision_again(&place);
    let listed = place.run(&["workspaces", "list"]).expect_code(0).out;
    assert!(listed.contains("mend") && listed.contains("workspace/mend"), "{listed}");
    assert_eq!(place.json(&["workspaces", "list", "--state", "archived"]), json!([]));
    place.run(&["workspaces", "list", "--state", "lost"]).expect_code(2);
    let shown = place.json(&["workspaces", "show", "mend"]);
    assert_eq!(shown["workspace"]["spec"]["branch"], "workspace/mend");
    assert_eq!(shown["links"][0]["spec"]["workItemRef"]["id"], "42");
    let shown = place.run(&["workspaces", "show", "mend"]).expect_code(0).out;
    assert!(shown.contains("joined with issue 42 of acme/app"), "{shown}");
    place.run(&["workspaces", "show", "none"]).expect_code(2);
    place.run(&["workspaces", "provision", "x", "--repository", "none"]).expect_code(2);
    place.run(&["workspaces", "provision", "../x", "--repository", "app"]).expect_code(2);
}

fn provision_again(place: &Place) {
    let output =
        place.run(&["workspaces", "provision", "mend", "--repository", "app"]).expect_code(0);
    assert!(output.out.contains("it is there already"), "{}", output.out);
}

#[test]
fn workspaces_pin_workspaces_unpin_and_workspaces_note() {
    let place = Place::new();
    provision(&place);
    place.run(&["workspaces", "pin", "mend"]).expect_code(0);
    let refused = place.run(&["workspaces", "archive", "mend"]).expect_code(2);
    assert!(refused.err.contains("unpin it first"), "{}", refused.err);
    place.run(&["workspaces", "unpin", "mend"]).expect_code(0);
    place.run(&["workspaces", "note", "mend", "waits for the release"]).expect_code(0);
    let spec = place.json(&["workspaces", "show", "mend"])["workspace"]["spec"].clone();
    assert_eq!((&spec["pinned"], &spec["notes"]), (&json!(false), &json!("waits for the release")));
    let with_old_version = ["workspaces", "note", "mend", "later", "--expected-version", "1"];
    place.run(&with_old_version).expect_code(2);
}

#[test]
fn workspaces_archive_workspaces_recover_and_workspaces_cleanup_lose_nothing() {
    let place = Place::new();
    let path = provision(&place);
    fs::write(path.join("src/kept.txt"), "changed\n").unwrap();
    let refused = place.run(&["workspaces", "cleanup", "mend"]).expect_code(2);
    assert!(refused.err.contains("commit them, or archive it"), "{}", refused.err);
    let archived = place.json(&["workspaces", "archive", "mend", "--reason", "for now"]);
    assert_eq!(
        (&archived["state"], &archived["kept"]),
        (&json!("archived"), &json!("refs/bailiwick/rescue/mend"))
    );
    assert!(!path.exists());
    place.run(&["workspaces", "restore", "mend"]).expect_code(0);
    assert_eq!(fs::read_to_string(path.join("src/kept.txt")).unwrap(), "changed\n");
    let git = |arguments: &[&str]| {
        let mut command = place.scratch.command("git");
        assert!(command.current_dir(&path).args(arguments).status().unwrap().success());
    };
    git(&["commit", "--quiet", "--all", "-m", "changed"]);
    place.run(&["workspaces", "cleanup", "mend"]).expect_code(0);
    assert!(!path.exists());
    assert_eq!(place.json(&["workspaces", "list"]), json!([]));
    assert_eq!(place.scratch.git(&["show", "workspace/mend:src/kept.txt"]), "changed\n");
}

#[test]
fn workspaces_link_and_workspaces_unlink_do_not_change_files() {
    let place = Place::new();
    let path = place.scratch.place().join("theirs");
    let text = path.display().to_string();
    place.scratch.git(&["worktree", "add", "--quiet", "-b", "theirs", &text]);
    let link =
        ["workspaces", "link", &text, "--name", "theirs", "--repository", "app", "--pr", "7"];
    place.run(&link).expect_code(0);
    place.run(&link).expect_code(0);
    assert_eq!(place.json(&["get", "workspacelinks"]).as_array().unwrap().len(), 1);
    place.run(&["workspaces", "cleanup", "theirs"]).expect_code(2);
    place.run(&["workspaces", "unlink", "theirs", "--pr", "7"]).expect_code(0);
    assert_eq!(place.json(&["get", "workspacelinks"]), json!([]));
    place.run(&["workspaces", "unlink", "theirs"]).expect_code(0);
    assert_eq!(place.json(&["workspaces", "list"]), json!([]));
    assert!(path.join("src/kept.txt").exists());
    place.run(&["workspaces", "link", "/", "--repository", "app"]).expect_code(2);
}

#[test]
fn workspaces_rebase_can_abort_or_resolve_a_conflict() {
    let place = Place::new();
    let path = provision(&place);
    let git = |arguments: &[&str]| {
        let mut command = place.scratch.command("git");
        assert!(command.current_dir(&path).args(arguments).status().unwrap().success());
    };
    fs::write(path.join("src/kept.txt"), "mine\n").unwrap();
    git(&["commit", "--quiet", "--all", "-m", "mine"]);
    place.scratch.write("src/kept.txt", "theirs\n");
    place.scratch.commit("theirs");
    place.forge.take(&place.scratch.root(), "main");
    place.run(&["workspaces", "rebase", "mend", "--resolved"]).expect_code(2);
    let started = place.json(&["workspaces", "rebase", "mend", "--onto", "main"]);
    assert_eq!(started["rebase"], "rebase-conflicts");
    let files = place.run(&["workspaces", "rebase", "mend", "--files"]).expect_code(0).out;
    let file = fs::canonicalize(&path).unwrap().join("src/kept.txt");
    assert_eq!(files.trim(), file.display().to_string());
    place.run(&["workspaces", "rebase", "mend", "--abort"]).expect_code(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
    place.run(&["workspaces", "rebase", "mend"]).expect_code(0);
    place.run(&["workspaces", "rebase", "mend", "--auto-resolve"]).expect_code(0);
    fs::write(&file, "both\n").unwrap();
    let resolved = place.json(&["workspaces", "rebase", "mend", "--resolved"]);
    assert_eq!(resolved["rebase"], "ready-for-review");
    place.run(&["workspaces", "rebase", "mend", "--abort", "--resolved"]).expect_code(2);
}
