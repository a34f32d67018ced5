//! `rm` and `prune`: what agents leave on the disk is removed, and open work is not.

use serde_json::Value;

use crate::verify::Place;

const TASK: &str = "[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\ncommands = [\"true\"]\n[body]\ntext = \"Add b\"\n";

fn place() -> Place {
    let capabilities = ["scope::files-whitelist", "quality::commands-green"];
    Place::new(&capabilities, TASK, &[("src/a.txt", "a\n"), (".gitignore", "tasks/\n")])
}

fn run(place: &Place, id: &str) -> Value {
    let shown = place.bailiwick(&["ledger", "show", id, "-o", "json"]).expect_code(0);
    serde_json::from_str::<Value>(&shown.out).unwrap()["run"].clone()
}

#[test]
fn agent_that_never_started_is_ready_and_can_be_removed() {
    let place = place().spawn("one").spawn("two");
    let one = run(&place, "one");
    assert_eq!((one["status"].as_str(), one["state"].as_str()), (Some("running"), Some("ready")));
    let listed = place.bailiwick(&["ledger", "list", "--status", "ready"]).expect_code(0);
    assert!(listed.out.contains("one") && listed.out.contains("ready"), "{}", listed.out);
    place.bailiwick(&["rm", "one"]).expect_code(0);
    assert!(!place.worktree("one").exists());
    assert_eq!(run(&place, "one")["state"], "rejected");
    // A person's changes in the worktree count as work, even if the agent never started.
    place.work("two", "src/b.txt", "b\n");
    let refused = place.bailiwick(&["rm", "two"]).expect_code(2);
    assert!(refused.err.contains("its work would be lost"), "{}", refused.err);
    assert!(place.worktree("two").join("src/b.txt").exists());
    place.bailiwick(&["rm", "two", "--force"]).expect_code(0);
    assert!(!place.worktree("two").exists());
}

#[test]
fn prune_removes_finished_work_and_lists_what_it_keeps() {
    let place = place().spawn("landed").spawn("rejected").spawn("open").spawn("forced");
    for id in ["landed", "rejected", "open", "forced"] {
        place.work(id, &format!("src/{id}.txt"), "x\n");
    }
    place.bailiwick(&["land", "landed"]).expect_code(0);
    place.bailiwick(&["reject", "rejected"]).expect_code(0);
    let commit = place.scratch.git(&["rev-parse", "--short=12", "main"]);
    let task_exists = |id: &str| place.scratch.root().join("tasks").join(id).exists();
    let worktree_exists = |id: &str| place.worktree(id).exists();

    let dry = place.bailiwick(&["prune", "--dry-run"]).expect_code(0);
    for part in ["remove", "keep", "agent landed", "cache ", "would free "] {
        assert!(dry.out.contains(part), "{part}: {}", dry.out);
    }
    let unconfirmed = place.bailiwick(&["prune"]).expect_code(2);
    assert!(unconfirmed.err.contains("--yes"), "{}", unconfirmed.err);
    assert!(
        worktree_exists("landed") && worktree_exists("rejected"),
        "nothing is removed without confirmation"
    );

    let json = place.bailiwick(&["prune", "--yes", "-o", "json"]).expect_code(0);
    let pruned: Value = serde_json::from_str(&json.out).unwrap();
    assert!(pruned["freed_bytes"].as_u64().unwrap() > 0, "{pruned}");
    assert!(
        !worktree_exists("landed")
            && !worktree_exists("rejected")
            && worktree_exists("open")
            && worktree_exists("forced")
    );
    assert!(place.worktree("open").join("src/open.txt").exists(), "open work stays");
    assert!(
        !task_exists("landed") && !task_exists("rejected") && task_exists("open"),
        "its task directory also stays"
    );
    for (id, work) in [("landed", commit.trim()), ("rejected", "refs/bailiwick/kept/rejected")] {
        for verb in ["diff", "verify"] {
            let ran = place.bailiwick(&[verb, id]).expect_code(1);
            let message = format!("the worktree of `{id}` was removed");
            assert!(ran.err.contains(&message) && ran.err.contains(work), "{}", ran.err);
            assert_eq!(ran.out, "");
        }
        let ran = place.bailiwick(&["rm", id]).expect_code(0);
        assert!(ran.err.contains("has no files left") && ran.out.is_empty(), "{}", ran.err);
    }

    place.bailiwick(&["prune", "--yes", "--force", "forced"]).expect_code(0);
    assert!(!worktree_exists("forced") && worktree_exists("open"));
    let nothing = place.bailiwick(&["prune", "--yes"]).expect_code(0);
    assert!(nothing.out.contains("nothing to remove"), "{}", nothing.out);
    place.verify("open", &[]).code(0);
}

#[test]
fn prune_keeps_task_directories_that_a_person_changed() {
    let place = place().spawn("changed").spawn("more").spawn("tracked").spawn("ours");
    let task = "tasks/changed/task.toml";
    place.scratch.write(task, &place.scratch.read(task).replace("Add b", "Add c"));
    place.scratch.write("tasks/more/notes.md", "mine\n");
    place.scratch.git(&["add", "--force", "tasks/tracked/prompt.md"]);
    for id in ["changed", "more", "tracked", "ours"] {
        place.bailiwick(&["reject", id]).expect_code(0);
    }
    place.bailiwick(&["prune", "--yes"]).expect_code(0);
    let task_exists = |id: &str| place.scratch.root().join("tasks").join(id).exists();
    assert!(task_exists("changed") && task_exists("more") && task_exists("tracked"));
    assert!(!task_exists("ours"), "the control");
}

#[test]
fn running_agent_is_never_pruned() {
    let place = place().spawn("one");
    place.work("one", "src/b.txt", "b\n");
    let lock = place.scratch.state().join("runs/one/lock");
    let locked = std::fs::File::options().write(true).open(&lock).unwrap();
    locked.lock().unwrap();
    let ran = place.bailiwick(&["prune", "--yes", "--force", "one"]).expect_code(0);
    assert!(ran.out.contains("working"), "{}", ran.out);
    assert!(place.worktree("one").exists());
    drop(locked);
    place.bailiwick(&["prune", "--yes", "--force", "one"]).expect_code(0);
    assert!(!place.worktree("one").exists());
}
