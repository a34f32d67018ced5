//! The corpus is complete: each case has a recorded result for its text.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_testkit::corpus::{self, Call, Case, GATES};

#[test]
fn ids_are_unique_in_a_gate() {
    for gate in GATES {
        let mut ids = BTreeSet::new();
        for case in corpus::of(gate) {
            assert!(ids.insert(case.id.clone()), "{gate}: {} is a duplicate", case.id);
        }
    }
}

#[test]
fn every_case_has_a_truth_for_its_text() {
    for case in corpus::all() {
        let truth = case.truth.as_ref();
        let truth = truth.unwrap_or_else(|| panic!("{}/{}: no truth", case.gate, case.id));
        assert_eq!(truth.digest, case.digest(), "{}/{} was changed", case.gate, case.id);
    }
}

#[test]
fn every_truth_belongs_to_a_case() {
    for gate in GATES {
        let ids: BTreeSet<String> = corpus::of(gate).into_iter().map(|case| case.id).collect();
        let text = std::fs::read_to_string(corpus::truth_file(gate)).expect("recorded truth");
        for line in text.lines() {
            let truth: corpus::Truth = serde_json::from_str(line).expect("a truth");
            assert!(ids.contains(&truth.id), "{gate}: {} has no case", truth.id);
        }
    }
}

#[test]
fn every_case_had_the_effect_of_its_class() {
    for case in corpus::all() {
        let reason = case.truth.as_ref().map(|truth| truth.reason.clone());
        let expected = !case.is_meant_harmless();
        assert_eq!(case.forbidden(), expected, "{}/{}: {reason:?}", case.gate, case.id);
    }
}

#[test]
fn every_gate_has_enough_cases_of_both_kinds() {
    let enough = BTreeMap::from([
        ("policy_no_git_ops", (170, 90)),
        ("scope_files_whitelist", (50, 40)),
        ("tools_bash_allowlist", (35, 25)),
    ]);
    let mut commands = 0;
    for gate in GATES {
        let cases = corpus::of(gate);
        let is_command = |case: &&Case| matches!(case.call, Call::Bash(_));
        commands += cases.iter().filter(is_command).count();
        let forbidden = cases.iter().filter(|case| case.forbidden()).count();
        let harmless = cases.len() - forbidden;
        let (least_forbidden, least_harmless) = enough.get(gate).copied().unwrap_or((6, 6));
        assert!(forbidden >= least_forbidden, "{gate}: {forbidden} forbidden");
        assert!(harmless >= least_harmless, "{gate}: {harmless} harmless");
        bailiwick_testkit::figure(&format!(
            "corpus {gate}: {forbidden} forbidden, {harmless} harmless"
        ));
    }
    assert!(commands >= 450, "{commands} commands");
}

#[test]
fn undecidable_cases_are_a_small_part() {
    for gate in GATES {
        let cases = corpus::of(gate);
        let undecidable = cases.iter().filter(|case| case.undecidable.is_some()).count();
        assert!(undecidable * 10 <= cases.len(), "{gate}: {undecidable} of {}", cases.len());
    }
}

#[test]
fn moved_case_names_the_new_directory() {
    let cases = corpus::of("scope_files_whitelist");
    let names_root = |case: &&Case| match &case.call {
        Call::Bash(command) => command.contains(corpus::ROOT),
        Call::Tool { .. } => false,
    };
    let case = cases.iter().find(names_root).expect("a case with an absolute path");
    let moved = case.moved("/new/place".as_ref(), "/new/home".as_ref());
    let Call::Bash(command) = moved.call else { panic!("still a command") };
    assert!(command.contains("/new/place") && !command.contains(corpus::ROOT), "{command}");
}

#[test]
fn fixture_is_a_clean_repository() {
    let scratch = bailiwick_testkit::Scratch::bare();
    corpus::fixture(&scratch.root());
    assert_eq!(scratch.git(&["status", "--porcelain"]), "");
    assert_eq!(scratch.git(&["rev-list", "--count", "HEAD"]).trim(), "1");
    assert!(scratch.read("src/deep/mod.rs").contains("one"));
}
