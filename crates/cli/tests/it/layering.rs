//! The import table of docs/architecture.md: which crate may import which.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace;

/// What each crate may import of the others; nothing else, not even for tests, but the test kit.
const ARROWS: [(&str, &[&str]); 14] = [
    ("model", &[]),
    ("resources", &["model"]),
    ("kit", &["model"]),
    ("policy", &["model"]),
    ("verify", &["model"]),
    ("lifecycle", &["kit", "model", "policy", "verify"]),
    ("fleet", &["kit", "model", "policy", "resources"]),
    ("gate", &["policy"]),
    ("store", &["fleet", "lifecycle", "model", "resources"]),
    ("source-control", &["fleet", "kit", "lifecycle", "model", "resources", "verify"]),
    ("runner", &["lifecycle", "model", "policy", "verify"]),
    ("server", &["fleet", "model", "resources"]),
    (
        "cli",
        &[
            "fleet",
            "gate",
            "kit",
            "lifecycle",
            "model",
            "policy",
            "resources",
            "runner",
            "server",
            "source-control",
            "store",
            "verify",
        ],
    ),
    ("testkit", &[]),
];

/// The crates that read no file, clock, environment or network.
const PURE: [&str; 7] = ["model", "resources", "kit", "policy", "verify", "lifecycle", "fleet"];

/// What a pure crate has no business with.
const IMPURE: [&str; 8] =
    ["tokio", "sqlx", "reqwest", "tempfile", "getrandom", "rand", "clap", "anstream"];

#[test]
fn crates_import_only_along_the_arrows() {
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(workspace().join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .unwrap();
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let mut seen = BTreeSet::new();
    for package in &metadata.packages {
        let name = package.name.strip_prefix("bailiwick-").expect("our crates are called so");
        let allowed = allowed.get(name).unwrap_or_else(|| panic!("{name} has no arrows yet"));
        seen.insert(name.to_owned());
        for dependency in &package.dependencies {
            let other = dependency.name.as_str();
            if let Some(ours) = other.strip_prefix("bailiwick-") {
                let for_tests = dependency.kind == cargo_metadata::DependencyKind::Development;
                let fine = allowed.contains(&ours) || (for_tests && ours == "testkit");
                assert!(fine, "{name} must not import {ours}");
            } else if PURE.contains(&name)
                && dependency.kind == cargo_metadata::DependencyKind::Normal
            {
                assert!(!IMPURE.contains(&other), "{name} is pure and must not import {other}");
            }
        }
    }
    assert_eq!(seen.len(), ARROWS.len(), "a crate is gone or new");
}

#[test]
fn the_architecture_page_has_the_same_table() {
    let page = std::fs::read_to_string(workspace().join("docs/architecture.md")).unwrap();
    let rows = page.lines().skip_while(|line| *line != "| crate | imports |").skip(2);
    let shown: Vec<(String, Vec<String>)> = rows
        .map_while(|line| line.strip_prefix("| ")?.strip_suffix('|'))
        .map(|row| {
            let (name, imports) = row.split_once('|').unwrap();
            let imports = imports.split(',').map(str::trim).filter(|name| !name.is_empty());
            (name.trim().to_owned(), imports.map(str::to_owned).collect())
        })
        .collect();
    let expected = ARROWS.map(|(name, imports)| {
        (name.to_owned(), imports.iter().map(|import| (*import).to_owned()).collect())
    });
    assert_eq!(shown, expected);
}

#[test]
fn adapters_do_not_import_each_other() {
    const ADAPTERS: [&str; 4] = ["store", "source-control", "runner", "server"];
    for (name, imports) in ARROWS {
        if ADAPTERS.contains(&name) {
            assert!(!imports.iter().any(|import| ADAPTERS.contains(import)), "{name}: {imports:?}");
        }
    }
}

#[test]
fn pure_crates_are_kept_pure_by_the_same_bans() {
    let bans = |name: &str| {
        let file = workspace().join("crates").join(name).join("clippy.toml");
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    let model = bans("model");
    for call in
        ["std::fs::read", "std::env::var", "std::time::SystemTime::now", "std::process::Command"]
    {
        assert!(model.contains(&format!("\"{call}\"")), "{call} is not banned");
    }
    for name in PURE {
        assert_eq!(bans(name), model, "{name}");
    }
}
