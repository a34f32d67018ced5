//! Every verb of the fleet has a test that contains it in its name or in a comment.

use std::collections::BTreeSet;

use bailiwick_cli::Bailiwick;
use clap::{Command, CommandFactory as _};

/// The commands of the fleet in the command map.
pub(super) const FLEET: [&str; 20] = [
    "serve",
    "apply",
    "get",
    "describe",
    "delete",
    "wait",
    "diff",
    "explain",
    "runs",
    "trigger",
    "approvals",
    "workspaces",
    "secrets",
    "tokens",
    "audit",
    "edit",
    "api-resources",
    "login",
    "logout",
    "contexts",
];

/// Features of the command map that are not verbs.
const MORE_FEATURES: [&str; 8] = [
    "apply_dry_run",
    "get_watch",
    "shows_yaml_json_wide",
    "selects_by_label_and_field",
    "is_a_conflict",
    "diff_of_documents",
    "describe_and_explain",
    "explain_of_a_command",
];

const TESTS: [&str; 10] = [
    include_str!("approvals.rs"),
    include_str!("objects.rs"),
    include_str!("remote.rs"),
    include_str!("verbs.rs"),
    include_str!("runs.rs"),
    include_str!("secrets.rs"),
    include_str!("serving.rs"),
    include_str!("triggers.rs"),
    include_str!("workspaces.rs"),
    include_str!("../conformance/fleet.rs"),
];

pub(super) fn leaves(command: &Command, name: &str, found: &mut BTreeSet<String>) {
    let mut verbs = command.get_subcommands().filter(|sub| sub.get_name() != "help").peekable();
    if verbs.peek().is_none() {
        found.insert(name.to_owned());
    }
    for verb in verbs {
        leaves(verb, &format!("{name}_{}", verb.get_name()), found);
    }
}

/// The names of the tests, and the comments that name verbs.
fn names_and_comments() -> String {
    let lines = TESTS.iter().flat_map(|text| text.lines().map(str::trim));
    let names = lines.filter(|line| line.starts_with("fn ") || line.starts_with("// trigger_"));
    names.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_fleet_verb_has_a_test_with_its_name() {
    let program = Bailiwick::command();
    let mut verbs = BTreeSet::new();
    for name in FLEET {
        let command = program.find_subcommand(name).unwrap_or_else(|| panic!("there is no {name}"));
        leaves(command, name, &mut verbs);
    }
    assert!(verbs.len() > 35, "{verbs:?}");
    let names = names_and_comments();
    // A test cannot have a hyphen in its name.
    let has_test =
        |verb: &&String| names.contains(verb.as_str()) || names.contains(&verb.replace('-', "_"));
    let missing: Vec<&String> = verbs.iter().filter(|verb| !has_test(verb)).collect();
    assert!(missing.is_empty(), "no test of {missing:?}");
    for feature in MORE_FEATURES {
        assert!(names.contains(feature), "no test of {feature}");
    }
}
