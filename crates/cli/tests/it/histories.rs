//! Random histories: several agents start from stale bases, make all kinds of changes, and land one after
//! another. An oracle of plain git and a shell predicts the result of each landing.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch, figure};
use serde_json::Value;

use crate::verify::Place;

/// Fails if a used name is not defined.
const CHECK: &str =
    "for use in $(cat uses/* 2>/dev/null); do test -f defs/$use.txt || exit 1; done\n";
const TASK: &str = "[scope]\nfiles-whitelist = [\"defs/**\", \"uses/**\", \"data/**\"]\n[verification]\ncommands = [\"sh check.sh\"]\n[body]\ntext = \"go on\"\n";

#[derive(Default)]
struct Counts {
    landed: usize,
    conflicts: usize,
    broken_alone: usize,
    broken_merged: usize,
    out_of_scope: usize,
    empty: usize,
    other_tree: usize,
}

#[test]
fn landed_tree_is_the_verified_tree_in_random_histories() {
    let mut random = Random::rotating("histories");
    let histories = Depth::from_env().cases(200);
    let mut counts = Counts::default();
    let mut number = 0;
    // More histories are run until each important outcome has occurred.
    while number < histories || !counts.has_enough() && number < 10 * histories {
        run_history(&mut random, number, &mut counts);
        number += 1;
    }
    figure(&format!(
        "histories: {number}, landings {}, refused: {} in conflict, {} broken alone, {} broken only \
         when merged, {} out of scope, {} empty, {} not to be rebased",
        counts.landed,
        counts.conflicts,
        counts.broken_alone,
        counts.broken_merged,
        counts.out_of_scope,
        counts.empty,
        counts.other_tree
    ));
    assert!(counts.has_enough(), "positive control: each important outcome has occurred");
}

impl Counts {
    fn has_enough(&self) -> bool {
        self.landed > 0 && self.broken_merged > 0 && self.out_of_scope > 0
    }
}

fn run_history(random: &mut Random, number: u64, counts: &mut Counts) {
    let place = Place::new(
        &["scope::files-whitelist", "quality::commands-green"],
        TASK,
        &[("check.sh", CHECK), (".gitignore", "tasks/\n*.log\n"), ("outside.txt", "o\n")],
    );
    for name in 0..6 {
        place.scratch.write(&format!("defs/n{name}.txt"), &format!("definition {name}\n\n\nend\n"));
    }
    for name in 0..3 {
        place.scratch.write(&format!("uses/u{name}"), &format!("n{name}\n"));
    }
    place.scratch.commit("start");
    let agents = 2 + random.below(7);
    let mut bases = vec!["HEAD".to_owned()];
    for agent in 0..agents {
        let base = bases[random.below(bases.len())].clone();
        let id = format!("ag-{agent}");
        let spawn = ["spawn", "task.toml", "--agent-id", &id, "--base", &base];
        place.bailiwick(&spawn).expect_code(0);
        work(random, &place, &id);
        if random.once_in(3) {
            place.scratch.write(&format!("defs/by-person-{agent}.txt"), "p\n");
            bases.push(place.scratch.commit("by a person"));
        }
        if random.once_in(4) {
            land(random, &place, &id, number, counts);
        }
    }
    for agent in 0..agents {
        land(random, &place, &format!("ag-{agent}"), number, counts);
    }
}

/// One to four changes, some of them committed.
fn work(random: &mut Random, place: &Place, id: &str) {
    let worktree = place.worktree(id);
    let git = |arguments: &[&str]| {
        let at = ["-C", worktree.to_str().unwrap()];
        place.scratch.git(&[&at[..], arguments].concat());
    };
    for step in 0..1 + random.below(4) {
        let name = format!("n{}", random.below(6));
        let def = worktree.join(format!("defs/{name}.txt"));
        // A definition without uses: one agent deletes it, and another may start to use it.
        let unused = format!("n{}", 3 + random.below(3));
        match random.below(11) {
            0 | 9 => place.work(id, &format!("uses/{id}-{step}"), &format!("{unused}\n")),
            1 | 10 => drop(std::fs::remove_file(worktree.join(format!("defs/{unused}.txt")))),
            2 if def.exists() => {
                let target = worktree.join(format!("defs/{name}-by-{id}.txt"));
                std::fs::rename(def, target).unwrap();
            }
            3 => place.work(id, &format!("defs/{name}.txt"), &format!("by {id} {step}\n\n\nend\n")),
            4 => {
                let bytes: Vec<u8> = (0..200).map(|_| random.below(256) as u8).collect();
                std::fs::create_dir_all(worktree.join("data")).unwrap();
                std::fs::write(worktree.join(format!("data/{id}-{step}.bin")), bytes).unwrap();
            }
            5 => place.work(id, "noise.log", "ignored\n"),
            6 if random.once_in(2) => place.work(id, "outside.txt", &format!("by {id}\n")),
            7 => {
                place.work(id, &format!("defs/{id}-{step}.txt"), "new\n");
                place.work(id, &format!("uses/{id}-{step}"), &format!("{id}-{step}\n"));
            }
            _ => {
                let link = worktree.join(format!("data/link-{id}-{step}"));
                std::fs::create_dir_all(worktree.join("data")).unwrap();
                std::os::unix::fs::symlink("somewhere", link).unwrap();
            }
        }
        match random.below(3) {
            0 => {
                git(&["add", "--all"]);
                git(&["commit", "--quiet", "--allow-empty", "-m", "step"]);
            }
            1 => git(&["add", "--all"]),
            _ => {}
        }
    }
}

/// The predicted result of a landing.
enum Oracle {
    Lands { tree: String },
    Conflicts,
    BrokenAlone,
    BrokenMerged,
    OutOfScope,
    Nothing,
}

fn land(random: &mut Random, place: &Place, id: &str, number: u64, counts: &mut Counts) {
    let events = place.bailiwick(&["ledger", "list", "-o", "json"]).expect_code(0);
    let runs: Value = serde_json::from_str(&events.out).unwrap();
    let run = runs.as_array().unwrap().iter().find(|run| run["id"] == id).unwrap().clone();
    if run["status"] != "running" {
        return;
    }
    let expected = oracle(place, id);
    let method = ["merge", "squash", "rebase"][random.below(3)];
    let before = place.scratch.git(&["rev-parse", "main"]);
    let ran = place.bailiwick(&["land", id, "--method", method, "-o", "json"]);
    let after = place.scratch.git(&["rev-parse", "main"]);
    let context = format!("history {number}, {id}, {method}: {}{}", ran.out, ran.err);
    assert_eq!(place.scratch.git(&["status", "--porcelain"]), "", "{context}");
    if ran.code == 0 {
        let landed: Value = serde_json::from_str(&ran.out).unwrap();
        let tree = place.scratch.git(&["rev-parse", "main^{tree}"]).trim().to_owned();
        assert_eq!(landed["tree"].as_str(), Some(tree.as_str()), "{context}");
        match expected {
            Oracle::Lands { tree: merged } => assert_eq!(merged, tree, "{context}"),
            Oracle::Conflicts
            | Oracle::BrokenAlone
            | Oracle::BrokenMerged
            | Oracle::OutOfScope
            | Oracle::Nothing => panic!("it must not land: {context}"),
        }
        counts.landed += 1;
        return;
    }
    assert_eq!(before, after, "{context}");
    assert_eq!(ran.code, 2, "{context}");
    match expected {
        Oracle::Lands { .. } => {
            assert!(method == "rebase" && ran.err.contains("another tree"), "{context}");
            counts.other_tree += 1;
        }
        Oracle::Conflicts => {
            assert!(ran.out.contains("bailiwick::trial-merge"), "{context}");
            counts.conflicts += 1;
        }
        Oracle::BrokenAlone => counts.broken_alone += 1,
        Oracle::BrokenMerged => {
            assert!(ran.out.contains("simulated-merge"), "{context}");
            counts.broken_merged += 1;
        }
        Oracle::OutOfScope => counts.out_of_scope += 1,
        Oracle::Nothing => {
            assert!(ran.err.contains("nothing to land"), "{context}");
            counts.empty += 1;
        }
    }
}

fn oracle(place: &Place, id: &str) -> Oracle {
    let worktree = place.worktree(id);
    let copy = tempfile::tempdir().unwrap();
    let files = copy.path().join("copy");
    shell(Path::new("/"), &format!("cp -r {} {}", worktree.display(), files.display()));
    // A clone that has everything committed.
    let clone = copy.path().join("clone");
    let root = place.scratch.root();
    shell(
        Path::new("/"),
        &format!("git clone -q --no-local {} {}", root.display(), clone.display()),
    );
    let head = run(&place.scratch, &worktree, &["rev-parse", "HEAD"]);
    git(&clone, &["fetch", "-q", root.to_str().unwrap(), head.trim()]);
    git(&clone, &["checkout", "-q", "-b", "work", head.trim()]);
    shell(&clone, "find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +");
    shell(&files, &format!("rm -f .git && cp -a . {}", clone.display()));
    git(&clone, &["add", "--all"]);
    git(&clone, &["commit", "-q", "--allow-empty", "-m", "all of it"]);
    let base = git(&clone, &["merge-base", "work", "origin/main"]);
    let changed = git(&clone, &["diff", "--name-only", "--no-renames", base.trim(), "work"]);
    let allowed =
        |path: &&str| ["defs/", "uses/", "data/"].iter().any(|prefix| path.starts_with(prefix));
    let outside: BTreeSet<&str> = changed.lines().filter(|path| !allowed(path)).collect();
    if !outside.is_empty() {
        return Oracle::OutOfScope;
    }
    if !try_shell(&clone, "sh check.sh") {
        return Oracle::BrokenAlone;
    }
    git(&clone, &["checkout", "-q", "-b", "trial", "origin/main"]);
    if !try_shell(
        &clone,
        "git -c user.name=x -c user.email=x@y merge -q --no-ff --no-edit work >/dev/null 2>&1",
    ) {
        return Oracle::Conflicts;
    }
    let merged = git(&clone, &["rev-parse", "trial^{tree}"]).trim().to_owned();
    if !try_shell(&clone, "sh check.sh") {
        return Oracle::BrokenMerged;
    }
    if merged == git(&clone, &["rev-parse", "origin/main^{tree}"]).trim() {
        return Oracle::Nothing;
    }
    Oracle::Lands { tree: merged }
}

fn run(scratch: &Scratch, directory: &Path, arguments: &[&str]) -> String {
    scratch.git(&[&["-C", directory.to_str().unwrap()], arguments].concat())
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(directory)
        .args(["-c", "user.name=x", "-c", "user.email=x@y"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn shell(directory: &Path, line: &str) {
    assert!(try_shell(directory, line), "{line}");
}

fn try_shell(directory: &Path, line: &str) -> bool {
    Command::new("sh").current_dir(directory).args(["-c", line]).status().unwrap().success()
}
