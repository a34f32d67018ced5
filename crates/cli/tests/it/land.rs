//! `land`, `reject`, `respawn` and `rollback` update the branch, the checkout and the ledger.

use serde_json::Value;

use crate::verify::Place;

const COMMANDS: &str = "quality::commands-green";
const TASK: &str = "[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\ncommands = [\"test ! -f src/bad\"]\n[body]\ntext = \"Add b\"\n";

fn place() -> Place {
    let capabilities = ["policy::git-read-only", "scope::files-whitelist", COMMANDS];
    Place::new(&capabilities, TASK, &[("src/a.txt", "a\n"), (".gitignore", "tasks/\n")])
}

fn status(place: &Place, id: &str) -> String {
    let listed = place.bailiwick(&["ledger", "list", "-o", "json"]).expect_code(0);
    let runs: Value = serde_json::from_str(&listed.out).unwrap();
    let run = runs.as_array().unwrap().iter().find(|run| run["id"] == id).unwrap();
    run["status"].as_str().unwrap().to_owned()
}

fn head(place: &Place, name: &str) -> String {
    place.scratch.git(&["rev-parse", name]).trim().to_owned()
}

#[test]
fn verified_tree_lands_and_clean_checkout_is_updated() {
    for method in ["merge", "squash", "rebase"] {
        let place = place().spawn("one");
        place.work("one", "src/b.txt", "b\n");
        place.scratch.write("src/c.txt", "c\n");
        let onto = place.scratch.commit("meanwhile");
        let ran =
            place.bailiwick(&["land", "one", "--method", method, "-o", "json"]).expect_code(0);
        let landed: Value = serde_json::from_str(&ran.out).unwrap();
        let commit = head(&place, "main");
        assert_eq!(landed["commit"].as_str(), Some(commit.as_str()));
        assert_eq!(landed["tree"].as_str(), Some(head(&place, "main^{tree}").as_str()));
        assert_eq!(landed["onto"].as_str(), Some(onto.as_str()));
        assert_eq!(head(&place, "main^1"), onto);
        let subjects = place.scratch.git(&["log", "--format=%s", &format!("{onto}..main")]);
        assert_eq!(subjects, "Add b\n", "{method}: one change is one commit");
        assert_eq!(place.scratch.read("src/b.txt"), "b\n");
        assert_eq!(place.scratch.git(&["status", "--porcelain"]), "");
        let message = place.scratch.git(&["log", "-1", "--format=%B", "main"]);
        assert!(message.starts_with("Add b\n"), "{method}: {message}");
        for trailer in ["Bailiwick-Agent: one", "Bailiwick-DNA: ", "Bailiwick-Policy: sha256:"] {
            assert!(message.contains(trailer), "{method}: {message}");
        }
        assert_eq!(status(&place, "one"), "merged");
        let again = place.bailiwick(&["land", "one"]).expect_code(2);
        assert!(again.err.contains("merged"), "{}", again.err);
    }
}

/// As after an editor saved a file without a change, or after the checkout was copied: git's index is stale.
#[test]
fn work_lands_when_only_file_timestamps_changed() {
    let place = place().spawn("one");
    place.work("one", "src/a.txt", "changed\n");
    let file = std::fs::File::options().write(true).open(place.scratch.root().join("src/a.txt"));
    file.unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    place.bailiwick(&["land", "one"]).expect_code(0);
    assert_eq!(place.scratch.read("src/a.txt"), "changed\n");
    assert_eq!(place.scratch.git(&["status", "--porcelain"]), "");
}

#[test]
fn land_method_comes_from_repository_settings() {
    let place = place();
    place.scratch.write(".bailiwick/settings.toml", "[land]\nmethod = \"squash\"\n");
    place.scratch.commit("settings");
    let place = place.spawn("one");
    place.work("one", "src/b.txt", "b\n");
    let ran = place.bailiwick(&["land", "one", "-o", "json"]).expect_code(0);
    assert!(ran.out.contains("\"squash\""), "{}", ran.out);
    let parents = place.scratch.git(&["log", "-1", "--format=%P", "main"]);
    assert_eq!(parents.split_whitespace().count(), 1);
}

#[test]
fn checkout_with_uncommitted_changes_is_not_modified() {
    let place = place().spawn("one");
    place.work("one", "src/b.txt", "b\n");
    place.scratch.write("src/a.txt", "being edited\n");
    let before = head(&place, "main");
    let refused = place.bailiwick(&["land", "one"]).expect_code(2);
    assert!(refused.err.contains("uncommitted changes: "), "{}", refused.err);
    assert!(refused.err.contains("--branch"), "{}", refused.err);
    assert_eq!(head(&place, "main"), before);
    assert_eq!(place.scratch.read("src/a.txt"), "being edited\n");
    assert_eq!(status(&place, "one"), "running");
    let branch = place.bailiwick(&["land", "one", "--branch", "agents/one"]).expect_code(0);
    assert!(branch.out.contains("agents/one"), "{}", branch.out);
    assert_eq!(head(&place, "main"), before);
    assert_eq!(place.scratch.git(&["show", "agents/one:src/b.txt"]), "b\n");
    assert_eq!(status(&place, "one"), "done");
    place.scratch.write("src/a.txt", "a\n");
    place.bailiwick(&["land", "one"]).expect_code(0);
    assert_eq!(status(&place, "one"), "merged");
}

#[test]
fn work_that_fails_a_check_does_not_land() {
    let place = place().spawn("one");
    place.work("one", "src/bad", "x\n");
    let before = head(&place, "main");
    let refused = place.bailiwick(&["land", "one"]).expect_code(2);
    assert!(refused.out.contains(COMMANDS), "{}{}", refused.out, refused.err);
    assert_eq!(head(&place, "main"), before);
    assert_eq!(status(&place, "one"), "running");
}

#[test]
fn other_obstacles_are_reported_before_checks_run() {
    let place = place().spawn("one").spawn("none");
    place.work("one", "src/bad", "x\n");
    place.scratch.write("src/a.txt", "being edited\n");
    let refused = place.bailiwick(&["land", "one"]).expect_code(2);
    assert!(refused.err.contains("uncommitted changes: src/a.txt"), "{}", refused.err);
    assert!(!refused.out.contains(COMMANDS), "no check was run: {}", refused.out);
    let nothing = place.bailiwick(&["land", "none", "--branch", "agents/none"]).expect_code(2);
    assert!(nothing.err.contains("nothing to land"), "{}", nothing.err);
    place.scratch.git(&["branch", "taken"]);
    let taken = place.bailiwick(&["land", "one", "--branch", "taken"]).expect_code(2);
    assert!(taken.err.contains("a branch of that name already exists"), "{}", taken.err);
    // The control: a failed check is reported once there is no other obstacle.
    place.scratch.write("src/a.txt", "a\n");
    let failed = place.bailiwick(&["land", "one"]).expect_code(2);
    assert!(failed.out.contains(COMMANDS), "{}{}", failed.out, failed.err);
}

#[test]
fn work_that_changes_nothing_does_not_land() {
    let place = place().spawn("one");
    let before = head(&place, "main");
    let refused = place.bailiwick(&["land", "one"]).expect_code(2);
    assert!(refused.err.contains("nothing to land"), "{}", refused.err);
    assert_eq!(head(&place, "main"), before);
}

#[test]
fn reference_to_rejected_work_does_not_fail_verification() {
    let place = place().spawn("one");
    place.work("one", "src/b.txt", "b\n");
    place.bailiwick(&["verify", "one"]).expect_code(0);
    let rejected = place.bailiwick(&["reject", "one"]).expect_code(0);
    assert!(rejected.err.contains("bailiwick respawn one --reason"), "{}", rejected.err);
    place.bailiwick(&["verify", "one"]).expect_code(0);
    // The control: without a rejection, somebody else made the same reference.
    std::fs::remove_file(place.scratch.state().join("runs/one/rejected")).unwrap();
    let ran = place.bailiwick(&["verify", "one"]).expect_code(2);
    assert!(ran.out.contains("refs/bailiwick/kept/one"), "{}", ran.out);
}

#[test]
fn rejected_work_is_stored_and_next_prompt_has_the_reason() {
    let place = place().spawn("one");
    place.work("one", "src/bad", "x\n");
    place.verify("one", &[]).code(2);
    let rejected = place.bailiwick(&["reject", "one", "--reason", "not like this"]).expect_code(0);
    assert!(rejected.out.contains("refs/bailiwick/kept/one"), "{}", rejected.out);
    assert_eq!(place.scratch.git(&["show", "refs/bailiwick/kept/one:src/bad"]), "x\n");
    assert!(place.worktree("one").join("src/bad").exists());
    assert_eq!(status(&place, "one"), "rejected");
    place.bailiwick(&["land", "one"]).expect_code(2);
    let again = place.bailiwick(&["respawn", "one", "-o", "json"]).expect_code(0);
    let spawned: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(spawned["agent_id"], "one-2");
    let prompt = place.scratch.read("tasks/one-2/prompt.md");
    assert!(prompt.contains(COMMANDS) && prompt.contains("not like this"), "{prompt}");
    assert!(prompt.contains("test ! -f src/bad"), "{prompt}");
    assert!(!place.worktree("one-2").join("src/bad").exists());
    place.work("one-2", "src/good", "x\n");
    place.bailiwick(&["land", "one-2"]).expect_code(0);
    assert_eq!(status(&place, "one-2"), "merged");
}

#[test]
fn respawn_rejects_failed_work_that_is_not_rejected_yet() {
    let place = place().spawn("one");
    let unverified = place.bailiwick(&["respawn", "one"]).expect_code(2);
    assert!(unverified.err.contains("bailiwick verify one"), "{}", unverified.err);
    place.work("one", "src/bad", "x\n");
    place.bailiwick(&["land", "one"]).expect_code(2);
    place.bailiwick(&["respawn", "one", "--agent-id", "other"]).expect_code(0);
    assert_eq!(status(&place, "one"), "rejected");
    assert_eq!(status(&place, "other"), "running");
}

#[test]
fn landed_work_can_be_rolled_back() {
    for later in [false, true] {
        let place = place().spawn("one");
        place.work("one", "src/b.txt", "b\n");
        place.bailiwick(&["land", "one"]).expect_code(0);
        if later {
            place.scratch.write("src/later.txt", "later\n");
            place.scratch.commit("later");
        }
        let ran = place.bailiwick(&["rollback", "one", "--reason", "slow"]).expect_code(0);
        assert!(!place.scratch.root().join("src/b.txt").exists(), "{}", ran.out);
        assert_eq!(place.scratch.root().join("src/later.txt").exists(), later);
        assert_eq!(place.scratch.git(&["status", "--porcelain"]), "");
        let message = place.scratch.git(&["log", "-1", "--format=%B", "main"]);
        assert!(message.contains("Bailiwick-Reverts: ") && message.contains("slow"), "{message}");
        let again = place.bailiwick(&["rollback", "one"]).expect_code(2);
        assert!(again.err.contains("rolled back"), "{}", again.err);
    }
}

#[test]
fn ledger_shows_rolled_back_work_and_it_can_be_respawned() {
    let place = place().spawn("one");
    place.work("one", "src/b.txt", "b\n");
    place.bailiwick(&["land", "one"]).expect_code(0);
    let early = place.bailiwick(&["respawn", "one"]).expect_code(2);
    assert!(early.err.contains("bailiwick rollback one"), "{}", early.err);
    place.bailiwick(&["rollback", "one", "--reason", "slower than before"]).expect_code(0);
    let shown = place.bailiwick(&["ledger", "show", "one", "-o", "json"]).expect_code(0);
    let run = serde_json::from_str::<Value>(&shown.out).unwrap()["run"].clone();
    assert_eq!(run["status"], "merged", "the status does not change");
    assert_eq!(run["state"], "rolled-back");
    assert!(run["summary"].as_str().unwrap().starts_with("rolled back by "), "{run}");
    let listed = place.bailiwick(&["ledger", "list"]).expect_code(0);
    assert!(listed.out.contains("rolled-back"), "{}", listed.out);
    let land = place.bailiwick(&["land", "one"]).expect_code(2);
    assert!(land.err.contains("`one` is rolled-back"), "{}", land.err);
    assert!(land.err.contains("bailiwick respawn one"), "{}", land.err);
    place.bailiwick(&["respawn", "one"]).expect_code(0);
    let prompt = place.scratch.read("tasks/one-2/prompt.md");
    assert!(prompt.contains("had landed and was rolled back"), "{prompt}");
    assert!(prompt.contains("differently:\n\n```text\nslower than before\n```"), "{prompt}");
    let tree = place.bailiwick(&["ledger", "tree"]).expect_code(0);
    assert!(tree.out.contains("└─ one-2 [ready]"), "{}", tree.out);
    assert!(tree.out.contains("respawn of one"), "{}", tree.out);
    place.work("one-2", "src/b.txt", "faster\n");
    place.bailiwick(&["land", "one-2"]).expect_code(0);
    assert_eq!(status(&place, "one-2"), "merged");
}

#[test]
fn prompt_quotes_no_reviewer_if_no_reason_was_given() {
    let place = place().spawn("one");
    place.work("one", "src/b.txt", "b\n");
    place.bailiwick(&["land", "one"]).expect_code(0);
    place.bailiwick(&["rollback", "one"]).expect_code(0);
    let message = place.scratch.git(&["log", "-1", "--format=%B", "main"]);
    assert!(message.starts_with("Roll one back\n\nBailiwick-Agent: "), "{message}");
    place.bailiwick(&["respawn", "one"]).expect_code(0);
    let prompt = place.scratch.read("tasks/one-2/prompt.md");
    assert!(prompt.contains("had landed and was rolled back"), "{prompt}");
    assert!(!prompt.contains("The person who reviewed it"), "{prompt}");
}

#[test]
fn refusal_to_land_names_the_state_and_the_next_command() {
    let place = place().spawn("one").spawn("two");
    let nothing = place.bailiwick(&["land", "one"]).expect_code(2);
    assert!(nothing.err.contains("nothing to land"), "{}", nothing.err);
    assert!(nothing.err.contains("bailiwick run one"), "{}", nothing.err);
    place.work("one", "src/b.txt", "b\n");
    let lock = std::fs::File::open(place.scratch.state().join("runs/one/lock")).unwrap();
    lock.lock().unwrap();
    for verb in ["land", "reject", "rollback"] {
        let busy = place.bailiwick(&[verb, "one"]).expect_code(2);
        assert!(busy.err.contains("`one` is running"), "{}", busy.err);
        assert!(busy.err.contains("bailiwick stop one"), "{}", busy.err);
    }
    drop(lock);
    place.bailiwick(&["land", "one"]).expect_code(0);
    let again = place.bailiwick(&["land", "one"]).expect_code(2);
    assert!(again.err.contains("`one` is merged: it has landed already"), "{}", again.err);
    assert!(again.err.contains("bailiwick rollback one"), "{}", again.err);
    place.bailiwick(&["reject", "two"]).expect_code(0);
    for (verb, message) in [("land", "rejected, and cannot land"), ("reject", "rejected already")] {
        let refused = place.bailiwick(&[verb, "two"]).expect_code(2);
        assert!(refused.err.contains(message), "{}", refused.err);
        assert!(refused.err.contains("bailiwick respawn two"), "{}", refused.err);
    }
}

#[test]
fn conflicting_rollback_does_not_move_the_branch() {
    let place = place().spawn("one");
    place.work("one", "src/a.txt", "agent\n");
    place.bailiwick(&["land", "one"]).expect_code(0);
    place.scratch.write("src/a.txt", "person\n");
    let before = place.scratch.commit("later, on the same lines");
    let refused = place.bailiwick(&["rollback", "one"]).expect_code(2);
    assert!(refused.err.contains("src/a.txt"), "{}", refused.err);
    assert_eq!(head(&place, "main"), before);
    place.bailiwick(&["rollback", "nobody"]).expect_code(2);
}

#[test]
fn two_agents_can_land_at_the_same_time() {
    let place = place().spawn("one").spawn("two");
    place.work("one", "src/one.txt", "1\n");
    place.work("two", "src/two.txt", "2\n");
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| place.bailiwick(&["land", "one"]));
        let second = scope.spawn(|| place.bailiwick(&["land", "two"]));
        (first.join().unwrap(), second.join().unwrap())
    });
    first.expect_code(0);
    second.expect_code(0);
    assert_eq!(place.scratch.git(&["show", "main:src/one.txt"]), "1\n");
    assert_eq!(place.scratch.git(&["show", "main:src/two.txt"]), "2\n");
    assert_eq!(place.scratch.git(&["status", "--porcelain"]), "");
}

/// The agent's report is for people, not for the repository.
#[test]
fn agent_report_does_not_land() {
    let place = place().spawn("one");
    place.work("one", "src/b.txt", "b\n");
    place.work("one", ".claude/agents/one/review.md", "files-touched: src/b.txt\n");
    place.bailiwick(&["land", "one"]).expect_code(0);
    let listed = place.scratch.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert!(listed.contains("src/b.txt") && !listed.contains("review.md"), "{listed}");
}

/// A change that a later commit reverts is still in the history.
#[test]
fn every_intermediate_commit_must_stay_in_scope() {
    let capabilities = ["scope::files-whitelist", COMMANDS];
    let place =
        Place::new(&capabilities, TASK, &[("src/a.txt", "a\n"), (".gitignore", "tasks/\n")])
            .spawn("one");
    let worktree = place.worktree("one");
    let git = |arguments: &[&str]| {
        place.scratch.git(&[&["-C", worktree.to_str().unwrap()], arguments].concat());
    };
    place.work("one", "src/b.txt", "b\n");
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "-m", "in scope"]);
    place.verify("one", &[]).code(0);
    place.work("one", "docs/secret", "s\n");
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "-m", "out of scope"]);
    git(&["rm", "--quiet", "docs/secret"]);
    git(&["commit", "--quiet", "-m", "and gone"]);
    let verified = place.verify("one", &[]).code(2);
    let message = verified.failure("scope::files-whitelist", "worktree").unwrap();
    assert!(message.contains("docs/secret"), "{message}");
    place.bailiwick(&["land", "one"]).expect_code(2);
}

/// The base moved a file, so the merge applies the agent's change to a path outside of its scope.
#[test]
fn change_that_the_merge_moves_out_of_scope_does_not_land() {
    let place = place().spawn("one");
    place.work("one", "src/a.txt", "a\nmore\n");
    place.verify("one", &[]).code(0);
    std::fs::create_dir(place.scratch.root().join("docs")).unwrap();
    place.scratch.git(&["mv", "src/a.txt", "docs/a.txt"]);
    place.scratch.commit("moved");
    let verified = place.verify("one", &[]).code(2);
    let message = verified.failure("scope::files-whitelist", "simulated-merge").unwrap();
    assert!(message.contains("docs/a.txt"), "{message}");
    place.bailiwick(&["land", "one"]).expect_code(2);
}
