//! The kit that is shipped: its contents, and that it is valid.

use std::collections::BTreeSet;

use bailiwick_kit::lint::lint;
use bailiwick_kit::{FoundCapability, Kit, Origin, bind, resolve};
use bailiwick_model::dna::Code;
use bailiwick_model::module::{CheckModule, GateModule};
use bailiwick_model::role::Isolation;
use bailiwick_model::{RoleName, Source};

const CAPABILITIES: [&str; 18] = [
    "policy::git-read-only",
    "policy::no-git-ops",
    "scope::files-denylist",
    "scope::files-whitelist",
    "scope::no-rule-edits",
    "quality::cargo-check-green",
    "quality::commands-green",
    "quality::constructor-pattern",
    "quality::no-warnings",
    "quality::tests-green",
    "quality::tests-kept",
    "safety::no-dep-bump",
    "safety::no-mass-delete",
    "output::ledger-row-required",
    "output::report-format",
    "output::severity-grade",
    "tools::bash-allowlist",
    "tools::deny-tools",
];

const REVIEW: [&str; 3] = ["tools::deny-tools", "output::report-format", "output::severity-grade"];
const EDIT: [&str; 8] = [
    "policy::no-git-ops",
    "scope::files-whitelist",
    "scope::files-denylist",
    "quality::constructor-pattern",
    "quality::cargo-check-green",
    "quality::tests-green",
    "safety::no-dep-bump",
    "output::report-format",
];

fn kit() -> Kit {
    Kit::over_embedded(Vec::new())
}

fn all() -> Vec<FoundCapability> {
    let kit = kit();
    let names = kit.capability_names().expect("names");
    names.iter().map(|name| kit.capability(name).expect("it reads").expect("it is there")).collect()
}

fn role(name: &str) -> bailiwick_kit::ResolvedRole {
    let name: RoleName = name.parse().expect("a role name");
    resolve(&kit(), &name, Source::new("task.toml", "").whole()).expect("it resolves")
}

fn flat(name: &str) -> Vec<String> {
    role(name).capabilities.iter().map(ToString::to_string).collect()
}

#[test]
fn kit_has_exactly_these_capabilities_and_roles() {
    let names: Vec<String> =
        kit().capability_names().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, CAPABILITIES);
    let roles: Vec<String> = kit().role_names().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        roles,
        ["developer", "edit-local", "edit-shared", "explorer", "git-ops", "read-only"]
    );
    assert!(all().iter().all(|found| found.origin == Origin::Embedded));
}

#[test]
fn embedded_kit_has_no_lints() {
    let report = lint(&kit(), &[]);
    assert_eq!(report.problems, []);
    assert_eq!((report.capabilities, report.roles, report.tasks), (18, 6, 0));
}

#[test]
fn each_capability_has_its_own_code() {
    let codes: BTreeSet<String> =
        all().iter().map(|found| Code::of(found.declared.name()).to_string()).collect();
    assert_eq!(codes.len(), 18);
    assert!(!codes.contains("??"));
}

#[test]
fn every_capability_is_enforced() {
    for found in all() {
        let declared = &found.declared;
        assert!(declared.has_gate() || declared.has_check(), "{}", declared.name());
    }
}

/// The table of the kei tools: which capability has a gate, and which a check.
#[test]
fn capabilities_of_the_kei_tools_have_the_same_gates_and_checks() {
    for (name, gate, check) in [
        ("policy::no-git-ops", true, true),
        ("scope::files-whitelist", true, true),
        ("scope::files-denylist", true, true),
        ("quality::constructor-pattern", false, true),
        ("quality::cargo-check-green", false, true),
        ("quality::tests-green", false, true),
        ("safety::no-dep-bump", true, true),
        ("output::report-format", false, true),
        ("output::severity-grade", false, true),
        ("tools::deny-tools", true, false),
        ("tools::bash-allowlist", true, false),
    ] {
        let found = kit().capability(&name.parse().unwrap()).unwrap().unwrap();
        let declared = &found.declared;
        assert_eq!((declared.has_gate(), declared.has_check()), (gate, check), "{name}");
    }
}

#[test]
fn every_module_is_used_by_the_capability_of_its_name() {
    let all = all();
    let gates: BTreeSet<String> = all
        .iter()
        .filter_map(|found| {
            Some(found.declared.gate.as_ref()?.get_ref().rust_module.get_ref().clone())
        })
        .collect();
    let checks: BTreeSet<String> = all
        .iter()
        .filter_map(|found| {
            Some(found.declared.verify.as_ref()?.get_ref().rust_module.get_ref().clone())
        })
        .collect();
    let compiled = |paths: Vec<&str>| paths.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(gates, compiled(GateModule::ALL.iter().map(|module| module.path()).collect()));
    assert_eq!(checks, compiled(CheckModule::ALL.iter().map(|module| module.path()).collect()));
    for found in &all {
        let name = found.declared.name().to_string().replace("::", "_").replace('-', "_");
        let gate = found.declared.gate.as_ref().map(|gate| gate.get_ref().rust_module.get_ref());
        let check =
            found.declared.verify.as_ref().map(|verify| verify.get_ref().rust_module.get_ref());
        assert!(gate.is_none_or(|module| *module == format!("gates::{name}")), "{name}: {gate:?}");
        assert!(
            check.is_none_or(|module| *module == format!("verifies::{name}")),
            "{name}: {check:?}"
        );
    }
}

#[test]
fn five_roles_of_the_kei_tools_flatten_to_the_same_lists() {
    assert_eq!(flat("read-only"), REVIEW);
    assert_eq!(flat("explorer"), [&REVIEW[..], &["tools::bash-allowlist"]].concat());
    assert_eq!(flat("edit-local"), EDIT);
    assert_eq!(flat("edit-shared"), EDIT);
    assert_eq!(flat("git-ops"), [""; 0]);
}

#[test]
fn roles_of_the_kei_tools_map_to_claude_code_as_specified() {
    for (name, subagent_type, isolation) in [
        ("read-only", "critic", Isolation::None),
        ("explorer", "Explore", Isolation::None),
        ("edit-local", "code-implementer", Isolation::Worktree),
        ("edit-shared", "code-implementer", Isolation::Worktree),
        ("git-ops", "NOT-SPAWNABLE", Isolation::None),
    ] {
        let role = role(name);
        assert_eq!(role.claude_subagent_type, subagent_type, "{name}");
        assert_eq!(role.isolation, isolation, "{name}");
        assert_eq!(role.warnings, [], "{name}");
    }
}

#[test]
fn developer_role_has_an_ordinary_shell_and_can_read_git() {
    let role = role("developer");
    let has = |name: &str| role.capabilities.iter().any(|known| known.to_string() == name);
    for needed in [
        "policy::git-read-only",
        "scope::files-whitelist",
        "safety::no-dep-bump",
        "quality::commands-green",
        "quality::tests-kept",
    ] {
        assert!(has(needed), "{needed}");
    }
    assert!(!has("policy::no-git-ops") && !has("tools::bash-allowlist"));
    assert!(role.spawnable && role.bash_patterns.is_empty());
    assert!(role.tools.iter().any(|tool| tool == "Bash"));
}

#[test]
fn texts_have_at_most_two_hundred_words() {
    for found in all() {
        let words = found.text.text.split_whitespace().count();
        assert!((20..=200).contains(&words), "{}: {words} words", found.declared.name());
    }
}

#[test]
fn every_task_example_binds_without_a_warning() {
    let examples = bailiwick_kit::embedded::task_examples();
    let agents: Vec<&str> =
        examples.iter().filter_map(|(file, _)| file.strip_suffix(".toml")).collect();
    assert_eq!(
        agents,
        ["architect", "code-implementer", "critic", "security-auditor", "validator"]
    );
    for (file, text) in &examples {
        let bound = bind(&kit(), &Source::new(file.as_str(), text.as_str())).unwrap();
        assert_eq!(bound.warnings, [], "{file}");
        let role = if file == "code-implementer.toml" { "edit-local" } else { "read-only" };
        assert_eq!(bound.role.name.as_str(), role, "{file}");
        assert!(!bound.task.body.text.trim().is_empty(), "{file}");
    }
}
