//! Commands that only read do not write to the repository, the user's kit or the state directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bailiwick_testkit::Scratch;

use crate::BAILIWICK;
use crate::run::{scene, write};

/// Every file of the test's directories with its content, except the database.
fn files(scratch: &Scratch) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in ["repo", "state", "config", "home"] {
        gather(&scratch.place().join(name), &mut found);
    }
    found.retain(|path, _| {
        let name = path.file_name().unwrap().to_string_lossy();
        !name.starts_with("bailiwick.db")
    });
    found
}

fn gather(directory: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    found.insert(directory.to_owned(), Vec::new());
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        match kind.is_dir() {
            true => gather(&path, found),
            false => {
                let text = if kind.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
                found.insert(path, text);
            }
        }
    }
}

#[test]
fn read_only_commands_write_no_files() {
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    scratch.run(BAILIWICK, &["run", "task.toml", "--agent-id", "one"]).expect_code(0);
    let before = files(&scratch);
    assert!(before.len() > 20, "too few files: {:?}", before.keys());
    for arguments in [
        &["agents", "list"][..],
        &["agents", "list", "--expanded"],
        &["agents", "show", "worker"],
        &["agents", "tree"],
        &["agents", "import", "--dry-run"],
        &["roles", "list"],
        &["roles", "show", "helper"],
        &["capabilities", "list"],
        &["capabilities", "show", "policy::no-git-ops"],
        &["status"],
        &["ps", "--all"],
        &["logs", "one"],
        &["cost", "one"],
        &["explain", "--role", "helper", "--", "ls"],
        &["lint"],
        &["lint", "task.toml"],
        &["prepare", "task.toml"],
        &["compose", "task.toml", "--stdout"],
        &["doctor", "--quick"],
        &["ledger", "list"],
        &["ledger", "show", "one"],
        &["ledger", "tree"],
        &["ledger", "spec", "one"],
        &["ledger", "validate", "one"],
        &["hooks", "status"],
        &["claims", "list"],
        &["approvals", "list"],
        &["init", "--dry-run"],
        &["prune", "--dry-run"],
        &["get", "stacks"],
        &["secrets", "list"],
        &["tokens", "list"],
        &["workspaces", "list"],
    ] {
        scratch.run(BAILIWICK, arguments).expect_code(0);
        let after = files(&scratch);
        let changed: Vec<&PathBuf> =
            after.keys().filter(|path| before.get(*path) != after.get(*path)).collect();
        let deleted: Vec<&PathBuf> =
            before.keys().filter(|path| !after.contains_key(*path)).collect();
        assert!(changed.is_empty() && deleted.is_empty(), "{arguments:?}: {changed:?} {deleted:?}");
    }
    // The control: a command that writes is detected.
    scratch.run(BAILIWICK, &["agents", "new", "auditor"]).expect_code(0);
    assert_ne!(files(&scratch), before);
}
