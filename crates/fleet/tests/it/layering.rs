//! The top-level modules of the crate import each other in one direction.

#![expect(clippy::disallowed_methods, reason = "the source of this crate is what is tested")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The source of a module, with its children.
fn source(path: &Path) -> String {
    if path.is_file() {
        return std::fs::read_to_string(path).unwrap();
    }
    let children = std::fs::read_dir(path).unwrap().map(|entry| source(&entry.unwrap().path()));
    children.collect::<Vec<_>>().join("\n")
}

/// The top-level modules that each top-level module names.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut modules = BTreeMap::new();
    for entry in std::fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "lib" {
            continue;
        }
        let text = source(&path);
        let named = text.split("crate::").skip(1).map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().to_owned()
        });
        let others: BTreeSet<String> = named.filter(|other| *other != name).collect();
        modules.insert(name, others);
    }
    modules
}

#[test]
fn top_level_modules_have_no_import_cycles() {
    let mut remaining = imports();
    assert!(remaining["controllers"].contains("ports"), "{remaining:?}");
    while !remaining.is_empty() {
        let known: BTreeSet<String> = remaining.keys().cloned().collect();
        let imports_none = |others: &BTreeSet<String>| others.is_disjoint(&known);
        let before = remaining.len();
        remaining.retain(|_, others| !imports_none(others));
        assert!(remaining.len() < before, "these import each other: {remaining:?}");
    }
}

#[test]
fn only_controllers_and_the_pure_modules_below_them_know_the_ports() {
    let imports = imports();
    let users = imports.iter().filter(|(_, others)| others.contains("ports"));
    let users: Vec<&str> = users.map(|(name, _)| name.as_str()).collect();
    assert_eq!(users, ["controllers", "resources", "traces", "triggers", "workers", "write_back"]);
    for pure in ["admission", "bundle", "subagents", "wildcards", "workspaces", "explanation"] {
        assert!(!imports[pure].contains("ports"), "{pure}");
    }
}
