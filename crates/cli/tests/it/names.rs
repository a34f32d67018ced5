//! Agent names are unique within their repository, and views show the current repository.

use std::path::{Path, PathBuf};

use bailiwick_testkit::scratch::Ran;
use serde_json::Value;

use crate::BAILIWICK;
use crate::verify::Place;

const TASK: &str = "[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\ncommands = [\"true\"]\n[body]\ntext = \"Add b\"\n";

fn place() -> Place {
    let capabilities = ["scope::files-whitelist", "quality::commands-green"];
    Place::new(&capabilities, TASK, &[("src/a.txt", "a\n"), (".gitignore", "tasks/\n")])
}

/// A second repository with the same kit and the same state.
fn second_repository(place: &Place) -> PathBuf {
    let other = place.scratch.place().join("other");
    place.scratch.git(&["clone", "--quiet", ".", other.to_str().unwrap()]);
    other
}

fn run_in(place: &Place, directory: &Path, arguments: &[&str]) -> Ran {
    let mut command = place.scratch.command(BAILIWICK);
    Ran::from(command.current_dir(directory).args(arguments).output().unwrap())
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
}

fn names(listed: &Value) -> Vec<String> {
    let runs = listed.as_array().unwrap().iter();
    runs.map(|run| run["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn two_repositories_can_use_the_same_agent_name() {
    let place = place().spawn("one");
    let other = second_repository(&place);
    let spawn = ["spawn", "task.toml", "--agent-id", "one", "-o", "json"];
    let spawned = json(&run_in(&place, &other, &spawn).expect_code(0));
    assert_eq!(spawned["name"], "one");
    assert_ne!(spawned["agent_id"], "one", "ids stay unique");
    let refused = run_in(&place, &other, &spawn).expect_code(2);
    assert!(refused.err.contains("already"), "the name is already used here: {}", refused.err);

    // `one` means the agent of the current repository.
    let worktree = PathBuf::from(spawned["worktree"].as_str().unwrap());
    std::fs::write(worktree.join("src/theirs.txt"), "theirs\n").unwrap();
    place.work("one", "src/ours.txt", "ours\n");
    run_in(&place, &other, &["land", "one"]).expect_code(0);
    assert!(other.join("src/theirs.txt").exists() && !other.join("src/ours.txt").exists());
    assert!(!place.scratch.root().join("src/theirs.txt").exists());
    place.bailiwick(&["land", "one"]).expect_code(0);
    assert!(place.scratch.root().join("src/ours.txt").exists());
    run_in(&place, &other, &["rollback", "one"]).expect_code(0);
    let again = json(&run_in(&place, &other, &["respawn", "one", "-o", "json"]).expect_code(0));
    assert_eq!(again["name"], "one-2");

    // Outside of both repositories, the name alone is ambiguous.
    let outside = place.scratch.place().to_owned();
    let ambiguous = run_in(&place, &outside, &["ledger", "show", "one"]).expect_code(2);
    let id = spawned["agent_id"].as_str().unwrap();
    for part in ["several repositories", "repo (id one)", &format!("other (id {id})")] {
        assert!(ambiguous.err.contains(part), "{part}: {}", ambiguous.err);
    }
    run_in(&place, &outside, &["ledger", "show", id]).expect_code(0);
    // An id of the other repository is found, but commands refuse to change it from here.
    let foreign = place.bailiwick(&["verify", id]).expect_code(2);
    assert!(foreign.err.contains("not of this repository"), "{}", foreign.err);
}

#[test]
fn lists_show_this_repository_unless_all_are_requested() {
    let place = place().spawn("one");
    let other = second_repository(&place);
    run_in(&place, &other, &["spawn", "task.toml", "--agent-id", "two"]).expect_code(0);
    let outside = place.scratch.place().to_owned();
    for list in [&["ledger", "list"][..], &["ps", "--all"]] {
        let listed = |directory: &Path, more: &[&str]| {
            let ran = run_in(&place, directory, &[list, &["-o", "json"], more].concat());
            names(&json(&ran.expect_code(0)))
        };
        let root = place.scratch.root();
        assert_eq!(listed(&root, &[]), ["one"], "{list:?}");
        assert_eq!(listed(&other, &[]), ["two"], "{list:?}");
        assert_eq!(listed(&root, &["--all-repos"]), ["one", "two"], "{list:?}");
        assert_eq!(listed(&outside, &[]), ["one", "two"], "{list:?}");
        let here = place.bailiwick(list).expect_code(0);
        assert!(!here.out.contains("REPOSITORY") && !here.out.contains("two"), "{}", here.out);
        let all = place.bailiwick(&[list, &["--all-repos"]].concat()).expect_code(0);
        assert!(all.out.contains("REPOSITORY") && all.out.contains("two"), "{}", all.out);
    }
}

#[test]
fn unknown_agent_error_suggests_a_name_or_how_to_list_all() {
    let place = place().spawn("fix-42").spawn("docs");
    let commands: [&[&str]; 20] = [
        &["stop"],
        &["attach"],
        &["logs"],
        &["diff"],
        &["verify"],
        &["land"],
        &["reject"],
        &["respawn"],
        &["rollback"],
        &["rm"],
        &["resume"],
        &["cost"],
        &["run"],
        &["prune", "--yes", "--force"],
        &["ledger", "show"],
        &["ledger", "tree"],
        &["ledger", "parents"],
        &["ledger", "descendants"],
        &["ledger", "spec"],
        &["ledger", "merged"],
    ];
    for command in commands {
        let similar = place.bailiwick(&[command, &["fix-43"]].concat()).expect_code(2);
        assert!(similar.err.contains("agent `fix-43`"), "{command:?}: {}", similar.err);
        assert!(similar.err.contains("did you mean `fix-42`?"), "{command:?}: {}", similar.err);
        let unrelated = place.bailiwick(&[command, &["zzzzzz"]].concat()).expect_code(2);
        assert!(unrelated.err.contains("bailiwick ps --all"), "{command:?}: {}", unrelated.err);
        assert!(!unrelated.err.contains("did you mean"), "{command:?}: {}", unrelated.err);
    }
    let state = place.bailiwick(&["ledger", "list", "--status", "foo"]).expect_code(2);
    for word in ["half-spawned", "ready", "working", "stopped", "cut-off", "done", "rolled-back"] {
        assert!(state.err.contains(word), "{word}: {}", state.err);
    }
}

#[test]
fn tree_shows_this_repository_unless_all_are_requested() {
    let place = place().spawn("one");
    let other = second_repository(&place);
    run_in(&place, &other, &["spawn", "task.toml", "--agent-id", "two"]).expect_code(0);
    let here = place.bailiwick(&["ledger", "tree"]).expect_code(0);
    assert!(here.out.contains("one [ready]") && !here.out.contains("two"), "{}", here.out);
    let there = run_in(&place, &other, &["ledger", "tree"]).expect_code(0);
    assert!(there.out.contains("two [ready]") && !there.out.contains("one"), "{}", there.out);
    let all = place.bailiwick(&["ledger", "tree", "--all-repos"]).expect_code(0);
    assert!(all.out.contains("one [ready]") && all.out.contains("two [ready]"), "{}", all.out);
    assert!(all.out.contains(other.to_str().unwrap()), "{}", all.out);
}

/// Ledgers of older versions do not store the repository of a run, but its worktree.
#[test]
fn run_without_a_repository_is_found_by_its_worktree() {
    let place = place();
    let other = second_repository(&place);
    let linked = place.scratch.place().join("linked");
    place.scratch.git(&["worktree", "add", "--quiet", "-b", "old", linked.to_str().unwrap()]);
    let fork = ["ledger", "fork", "old", "old", "--spec-sha", "abc", "--worktree"];
    place.bailiwick(&[&fork[..], &[linked.to_str().unwrap()]].concat()).expect_code(0);
    let unknown = ["ledger", "fork", "unknown", "unknown", "--spec-sha", "abc"];
    place.bailiwick(&unknown).expect_code(0);
    let list = ["ledger", "list", "-o", "json"];
    let here = place.bailiwick(&list).expect_code(0);
    assert_eq!(names(&json(&here)), ["old", "unknown"]);
    let there = run_in(&place, &other, &list).expect_code(0);
    assert_eq!(
        names(&json(&there)),
        ["unknown"],
        "a run with an unknown repository is listed in all of them"
    );
}
