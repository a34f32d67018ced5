//! Messages of commands that have nothing to show, or that need another step first.

use bailiwick_testkit::Scratch;
use serde_json::Value;

use crate::BAILIWICK;
use crate::run::{run, scene, write};
use crate::screens::on_terminal;
use crate::verify::Place;

const TASK: &str = "[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\ncommands = [\"true\"]\n[body]\ntext = \"Add b\"\n";

fn place() -> Place {
    let capabilities = ["scope::files-whitelist", "quality::commands-green"];
    Place::new(&capabilities, TASK, &[("src/a.txt", "a\n"), (".gitignore", "tasks/\n")])
}

#[test]
fn repository_without_agents_is_reported() {
    let place = place();
    let all = place.bailiwick(&["ps", "--all"]).expect_code(0);
    assert!(all.err.contains("no agents in this repository"), "{}", all.err);
    let none = place.bailiwick(&["ps"]).expect_code(0);
    assert!(none.err.contains("no agent is running in this repository"), "{}", none.err);
    let cost = place.bailiwick(&["cost"]).expect_code(0);
    assert!(cost.err.contains("no agent has run in this repository"), "{}", cost.err);
}

#[test]
fn missing_role_lists_the_known_ones() {
    let place = place();
    for arguments in [&["hooks", "install", "claude"][..], &["exec", "--", "claude"]] {
        let refused = place.bailiwick(arguments).expect_code(2);
        for expected in ["--role ROLE or --task FILE", "worker", "read-only", "developer"] {
            assert!(refused.err.contains(expected), "{expected}: {}", refused.err);
        }
    }
    let early = place.bailiwick(&["replay"]).expect_code(1);
    assert!(early.err.contains("bailiwick hooks install"), "{}", early.err);
    place.bailiwick(&["hooks", "install", "claude", "--role", "read-only"]).expect_code(0);
    let installed = place.bailiwick(&["replay"]).expect_code(1);
    assert!(installed.err.contains("no decision is recorded yet"), "{}", installed.err);
    assert!(!installed.err.contains("bailiwick hooks install"), "{}", installed.err);
}

#[test]
fn globs_are_relative_to_the_root_and_task_paths_to_the_directory() {
    let place = place();
    let run_in_src = |arguments: &[&str]| place.bailiwick(&[&["-C", "src"], arguments].concat());
    let explain = ["explain", "--role", "edit-local", "--files", "src/**", "--", "touch a.txt"];
    let output = run_in_src(&explain).expect_code(0);
    let root = place.scratch.root().canonicalize().unwrap();
    let expected = format!("count from the repository's root, {}", root.display());
    assert!(output.err.contains(&expected), "{}", output.err);
    let at_root = place.bailiwick(&explain).expect_code(0);
    assert!(!at_root.err.contains("repository's root"), "{}", at_root.err);
    let missing = run_in_src(&["run", "task.toml"]).expect_code(1);
    assert!(missing.err.contains("relative to the current directory"), "{}", missing.err);
    assert!(missing.err.contains(root.join("task.toml").to_str().unwrap()), "{}", missing.err);
    run_in_src(&["prepare", "../task.toml"]).expect_code(0);
}

#[test]
fn second_respawn_names_the_first() {
    let place = place().spawn("one");
    place.bailiwick(&["respawn", "one", "--reason", "not so"]).expect_code(0);
    let second = place.bailiwick(&["respawn", "one", "--reason", "not so"]).expect_code(2);
    for expected in ["`one-2` is ready", "bailiwick run one-2", "--agent-id ID"] {
        assert!(second.err.contains(expected), "{expected}: {}", second.err);
    }
    assert!(!place.worktree("one-3").exists());
    let with_id = ["respawn", "one", "--reason", "not so", "--agent-id", "other"];
    place.bailiwick(&with_id).expect_code(0);
    for id in ["one-2", "other"] {
        place.bailiwick(&["reject", id, "--reason", "nor so"]).expect_code(0);
    }
    place.bailiwick(&["respawn", "one", "--reason", "not so"]).expect_code(0);
}

#[test]
fn ledger_does_not_miss_artefacts_that_were_removed_on_purpose() {
    let place = place().spawn("landed").spawn("forced").spawn("lost");
    for id in ["landed", "forced", "lost"] {
        place.work(id, &format!("src/{id}.txt"), "x\n");
    }
    place.bailiwick(&["land", "landed"]).expect_code(0);
    for id in ["landed", "forced"] {
        let complete = place.bailiwick(&["ledger", "validate", id]).expect_code(0);
        assert!(complete.out.contains("all 6 artefacts present"), "{}", complete.out);
    }
    place.bailiwick(&["prune", "--yes", "--force", "forced"]).expect_code(0);
    for id in ["landed", "forced"] {
        let pruned = place.bailiwick(&["ledger", "validate", id]).expect_code(0);
        assert!(pruned.out.contains("were removed on purpose"), "{}", pruned.out);
    }
    std::fs::remove_dir_all(place.worktree("lost")).unwrap();
    let lost = place.bailiwick(&["ledger", "validate", "lost"]).expect_code(2);
    assert!(lost.err.contains("its worktree"), "positive control: {}", lost.err);
    let parents = place.bailiwick(&["ledger", "parents", "lost"]).expect_code(0);
    assert!(parents.out.contains("no parents"), "{}", parents.out);
    let children = place.bailiwick(&["ledger", "descendants", "lost"]).expect_code(0);
    assert!(children.out.contains("no descendants"), "{}", children.out);
}

#[test]
fn cost_of_a_repository_is_the_sum_of_its_agents() {
    let scratch = scene(&[&write("src/new.txt", "new\n"), &write("src/more.txt", "more\n")]);
    for id in ["one", "two"] {
        run(&scratch, &["run", "task.toml", "--agent-id", id, "--no-verify"]).expect_code(0);
    }
    let table = run(&scratch, &["cost"]).expect_code(0).out;
    let calls = |name: &str| {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(4).unwrap_or_default().to_owned()
    };
    assert_eq!((calls("one"), calls("two"), calls("total")), ("2".into(), "2".into(), "4".into()));
    let json = run(&scratch, &["cost", "-o", "json"]).expect_code(0).out;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["total"]["tool_calls"], 4, "{json}");
    assert_eq!(json["agents"].as_array().unwrap().len(), 2, "{json}");
}

#[test]
fn title_is_the_subject_of_the_landed_commit() {
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    for invalid in ["", "two\nlines", &"x".repeat(73)] {
        let refused = run(&scratch, &["run", "task.toml", "--title", invalid]).expect_code(2);
        assert!(refused.err.contains("a title"), "{}", refused.err);
    }
    let title = ["--title", "Add the new file"];
    run(&scratch, &[&["run", "task.toml", "--agent-id", "one"], &title[..]].concat())
        .expect_code(0);
    run(&scratch, &["land", "one"]).expect_code(0);
    assert_eq!(scratch.git(&["log", "-1", "--format=%s"]), "Add the new file\n");

    let place = place();
    let spawned = place.bailiwick(&["spawn", "task.toml", "--agent-id", "one"]).expect_code(0);
    assert!(spawned.err.contains("bailiwick run one"), "{}", spawned.err);
    place.work("one", "src/b.txt", "b\n");
    place.bailiwick(&["land", "one"]).expect_code(0);
    assert_eq!(place.scratch.git(&["log", "-1", "--format=%s"]), "Add b\n", "positive control");
}

#[test]
fn tables_at_80_columns_do_not_truncate_paths_and_measurements() {
    let place = place().spawn("one");
    place.work("one", "src/b.txt", "b\n");
    let long = format!("echo {}", "measured-words-of-a-check ".repeat(4));
    place.scratch.write(
        "task.toml",
        &place.scratch.read("task.toml").replace("\"true\"", &format!("{long:?}")),
    );
    place.scratch.commit("a longer command");
    let place = place.spawn("two");
    place.work("two", "src/c.txt", "c\n");
    let verified = on_terminal(&place.scratch, 80, "$B verify two --color never");
    assert!(verified.contains("all checks passed"), "{verified}");
    let (_, table) = verified.split_once("CAPABILITY").unwrap();
    assert!(!table.contains('…'), "{verified}");
    place.bailiwick(&["reject", "one"]).expect_code(0);
    let pruned = on_terminal(&place.scratch, 80, "$B prune --dry-run --color never");
    assert!(!pruned.contains('…'), "{pruned}");
    let widest = pruned.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(widest <= 80, "{pruned}");
    let without_blanks = pruned.split_whitespace().collect::<String>();
    assert!(without_blanks.contains("(bailiwickrmremovesit)"), "{pruned}");
    assert!(pruned.contains("caches/"), "{pruned}");
}

#[test]
fn doctor_prints_readable_sizes() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    let shown = scratch.run(BAILIWICK, &["doctor", "--quick"]).out;
    let memory = shown.lines().find(|line| line.contains("memory")).unwrap_or_default();
    assert!(memory.contains("iB") && !memory.contains(" bytes"), "{shown}");
}
