//! docs/guides/verify.md: work is verified, lands, is rejected, is respawned, and is rolled back.

use super::guide::Guide;
use super::place::Place;
use serde_json::Value;

const ROLE: &str = r#"[role]
name = "tested"
description = "Works in src; tests must pass."
[capabilities]
required = ["policy::git-read-only", "scope::files-whitelist", "quality::tests-green"]
[tools]
allowed = ["*"]
"#;
const MANIFEST: &str = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
const LOCK: &str = "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n";
const LIBRARY: &str = "#[test]\nfn passes() {}\n";

pub(crate) fn follow(guide: &mut Guide) {
    let home = std::env::var("HOME").unwrap_or_default();
    let toolchain =
        |name: &str, below: &str| std::env::var(name).unwrap_or(format!("{home}/{below}"));
    let place = Place::new()
        .variable("CARGO_HOME", toolchain("CARGO_HOME", ".cargo"))
        .variable("RUSTUP_HOME", toolchain("RUSTUP_HOME", ".rustup"));
    let commands = guide.lines();
    let prefetch = guide.text("toml");
    place.scratch.write(".bailiwick/settings.toml", &guide.text("toml"));
    guide.fill("\"…\"", "\"x\"");
    let documented: Value = serde_json::from_str(&guide.text("json")).unwrap();
    write_crate(&place, &prefetch);
    let mut shell = place.shell();
    shell.run("bailiwick spawn fix-42.toml").expect_code(0);
    let worktree = place.scratch.state().join("worktrees/fix-42");
    std::fs::write(worktree.join("src/new.txt"), "new\n").unwrap();
    place.add_work("fix-43", "src/other.txt", "other\n");
    place.add_work("fix-44", "src/third.txt", "third\n");
    shell.run("git worktree add --quiet --detach ../worktree && touch ../worktree/src/a");
    for line in &commands {
        // The work of an agent either lands, or goes to a branch, or is rejected and respawned.
        let line = match line {
            line if line.contains("--branch") => line.replace("fix-42", "fix-43"),
            line if line.contains("reject") || line.contains("respawn") => {
                line.replace("fix-42", "fix-44")
            }
            line => line.clone(),
        };
        let ran = shell.run(&line).expect_code(0);
        if line.contains("-o json") {
            expect_keys_of(&documented, &serde_json::from_str(&ran.out).unwrap());
        }
        if line.starts_with("bailiwick land fix-42") {
            let message = place.scratch.git(&["log", "-1", "--format=%B", "main"]);
            for trailer in ["Agent: fix-42", "DNA: tested::", "Policy: sha256:", "Spec: sha256:"] {
                assert!(message.contains(&format!("Bailiwick-{trailer}")), "{message}");
            }
            assert_eq!(place.scratch.git(&["show", "main:src/new.txt"]), "new\n");
        }
    }
    assert_eq!(place.scratch.git(&["show", "pr/fix-43:src/other.txt"]), "other\n");
    let files = place.scratch.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert!(!files.contains("src/new.txt"), "it was not rolled back: {files}");
}

/// Writes a crate with a test, and tasks for it, with and without an agent id.
fn write_crate(place: &Place, prefetch: &str) {
    place.scratch.write(".bailiwick/roles/tested.toml", ROLE);
    place.scratch.write("Cargo.toml", MANIFEST);
    place.scratch.write("Cargo.lock", LOCK);
    place.scratch.write("src/lib.rs", LIBRARY);
    place.scratch.write(".gitignore", "/target\n");
    let task = "[scope]\nfiles-whitelist = [\"src/**\"]\n[body]\ntext = \"Do it.\"\n";
    for (file, id) in [("task.toml", ""), ("fix-42.toml", "agent-id = \"fix-42\"\n")] {
        let head = format!("[task]\nrole = \"tested\"\n{id}");
        place.scratch.write(file, &format!("{head}{task}{prefetch}"));
    }
    place.scratch.commit("Begin a crate");
}

/// Asserts that all entries have every key of the guide's example.
fn expect_keys_of(documented: &Value, found: &Value) {
    for verdicts in ["passed", "failed"] {
        let keys = documented[verdicts][0].as_object().unwrap();
        let found = found[verdicts].as_array().unwrap_or_else(|| panic!("{found:#}"));
        assert!(!found.is_empty() || verdicts == "failed", "{found:#?}");
        for (key, verdict) in found.iter().flat_map(|one| keys.keys().map(move |key| (key, one))) {
            assert!(verdict.get(key).is_some(), "no {key} in {verdict:#}");
        }
    }
}
