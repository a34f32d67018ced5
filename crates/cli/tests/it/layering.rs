//! The arrows of docs/architecture.md: who may import whom.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace;

/// What each crate may import of the others; nothing else, not even for tests, but the test kit.
const ARROWS: [(&str, &[&str]); 12] = [
    ("model", &[]),
    ("kit", &["model"]),
    ("policy", &["model"]),
    ("verify", &["model"]),
    ("control", &["kit", "model", "policy", "verify"]),
    ("gate", &["policy"]),
    ("store", &["control", "kit", "model"]),
    ("source-control", &["control", "kit", "model", "verify"]),
    ("runner", &["control", "kit", "model", "policy", "verify"]),
    ("server", &["control", "model"]),
    (
        "cli",
        &[
            "control",
            "gate",
            "kit",
            "model",
            "policy",
            "runner",
            "server",
            "source-control",
            "store",
            "verify",
        ],
    ),
    ("testkit", &[]),
];

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
            } else if ["model", "kit", "policy", "verify", "control"].contains(&name)
                && dependency.kind == cargo_metadata::DependencyKind::Normal
            {
                assert!(!IMPURE.contains(&other), "{name} is pure and must not import {other}");
            }
        }
    }
    assert_eq!(seen.len(), ARROWS.len(), "a crate is gone or new");
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
    assert_eq!(bans("kit"), model);
    assert_eq!(bans("policy"), model);
    assert_eq!(bans("control"), model);
}
