//! DNA texts round-trip, and different scopes have different canonical forms.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_model::dna::{Code, Dna, canonical_scope};
use bailiwick_model::task::Scope;
use bailiwick_model::{CapabilityName, Category, RoleName, Source, Task};
use bailiwick_testkit::Depth;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

fn cases(full: u32) -> ProptestConfig {
    let cases = Depth::from_env().cases(full.into());
    ProptestConfig::with_cases(u32::try_from(cases).unwrap_or(full))
}

/// Any valid DNA text, built from the segments that the kei tools define.
fn dna_text() -> impl Strategy<Value = String> {
    let code = prop_oneof![3 => "[A-Z0-9]{2}", 1 => Just("??".to_owned())];
    let codes = prop::collection::vec(code, 0..20);
    ("[a-z][a-z0-9-]{0,63}", codes, "[0-9A-F]{4,64}", "[0-9A-F]{4,64}", "[0-9A-Za-z]{4,64}")
        .prop_map(|(role, codes, scope, body, nonce)| {
            format!("{role}::{}::{scope}::{body}-{nonce}", codes.join("-"))
        })
}

/// A valid DNA text in which one character was deleted, inserted or replaced.
fn mutated_dna() -> impl Strategy<Value = String> {
    (
        dna_text(),
        any::<prop::sample::Index>(),
        prop::option::of("[:?\\-a-fA-G0-9ä \n]"),
        any::<bool>(),
    )
        .prop_map(|(text, position, inserted, keep_next)| {
            let mut letters: Vec<char> = text.chars().collect();
            let position = position.index(letters.len());
            let inserted: Vec<char> = inserted.unwrap_or_default().chars().collect();
            letters.splice(position..position + usize::from(!keep_next), inserted);
            letters.into_iter().collect()
        })
}

fn capability() -> impl Strategy<Value = CapabilityName> {
    let known = prop::sample::select(vec![
        "policy::no-git-ops",
        "scope::files-whitelist",
        "tools::deny-tools",
        "tools::read-only",
        "quality::commands-green",
    ])
    .prop_map(str::to_owned);
    let any = (prop::sample::select(Category::ALL.to_vec()), "[a-z][a-z0-9-]{0,12}")
        .prop_map(|(category, slug)| format!("{category}::{slug}"));
    prop_oneof![known, any].prop_map(|name| name.parse().expect("a capability name"))
}

/// A pattern that the type accepts, mostly of characters that are used as separators.
fn pattern() -> impl Strategy<Value = String> {
    let plain = "[ab*/]{1,4}";
    let separators = "[a,:;0-9\\[\\]{}\"' \t|\\\\=#]{1,6}";
    let canonical = prop_oneof![
        "[0-9]{1,2}:[a-z,]{0,4}",
        "files-(white|deny)list [0-9]",
        "[0-9]:[a-c][0-9]:[a-c]",
        Just("3:abc".to_owned()),
        Just("1:a,1:b".to_owned()),
    ];
    prop_oneof![plain, separators, canonical, "\\PC{1,8}"].prop_filter(
        "the type refuses the pattern",
        |text| {
            let has_parent_dir = text.split('/').any(|part| part == "..");
            !text.trim().is_empty()
                && !text.starts_with('!')
                && !has_parent_dir
                && !text.contains(['\0', '\n', '\r'])
        },
    )
}

type Patterns = (Vec<String>, Vec<String>);

fn patterns() -> impl Strategy<Value = Patterns> {
    let list = || prop::collection::vec(pattern(), 0..5);
    (list(), list())
}

fn toml_list(patterns: &[String]) -> String {
    let texts = patterns.iter().map(|text| toml::Value::from(text.as_str()).to_string());
    format!("[{}]", texts.collect::<Vec<_>>().join(", "))
}

/// The scope that is parsed from a task file.
fn scope((white, deny): &Patterns) -> Scope {
    let text = format!(
        "[task]\nrole = \"x\"\n[scope]\nfiles-whitelist = {}\nfiles-denylist = {}\n",
        toml_list(white),
        toml_list(deny)
    );
    let scope = Task::parse(&Source::new("task.toml", text)).expect("a task").scope;
    let texts = |list: &[bailiwick_model::task::PathPattern]| {
        list.iter().map(|pattern| pattern.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(&texts(scope.files_whitelist.get()), white, "the parsed list is different");
    assert_eq!(&texts(scope.files_denylist.get()), deny, "the parsed list is different");
    scope
}

/// The scope as two multisets: sorted patterns with their duplicates.
fn as_multisets((white, deny): &Patterns) -> Patterns {
    let sorted = |list: &Vec<String>| {
        let mut list = list.clone();
        list.sort();
        list
    };
    (sorted(white), sorted(deny))
}

/// Scopes that an ambiguous canonical form could confuse with this one.
fn similar_scopes((white, deny): &Patterns) -> Vec<Patterns> {
    let mut similar = vec![(deny.clone(), white.clone())];
    for separator in [",", "", "\t", ";", " ", ":"] {
        similar.push((vec![white.join(separator)], deny.clone()));
        let split = |list: &[String]| -> Vec<String> {
            let split =
                |text: &String| text.split(separator).map(str::to_owned).collect::<Vec<_>>();
            list.iter().flat_map(split).collect()
        };
        if !separator.is_empty() {
            similar.push((split(white), split(deny)));
        }
    }
    let with_lengths = |list: &[String]| -> Vec<String> {
        list.iter().map(|text| format!("{}:{text}", text.len())).collect()
    };
    similar.push((with_lengths(white), with_lengths(deny)));
    if let Some((last, others)) = white.split_last() {
        similar.push((others.to_vec(), [deny.clone(), vec![last.clone()]].concat()));
        similar.push((others.to_vec(), deny.clone()));
        similar.push(([white.clone(), vec![last.clone()]].concat(), deny.clone()));
    }
    let is_valid =
        |text: &String| !text.trim().is_empty() && !text.starts_with('!') && text != "..";
    similar.retain(|(white, deny)| white.iter().chain(deny).all(is_valid));
    similar
}

proptest! {
    #![proptest_config(cases(40_000))]

    #[test]
    fn every_dna_round_trips(text in dna_text()) {
        let dna = Dna::parse(&text).expect("a DNA");
        prop_assert_eq!(dna.to_string(), text);
        prop_assert_eq!(Dna::parse(&dna.to_string()), Ok(dna));
    }

    #[test]
    fn accepted_text_is_printed_unchanged(text in prop_oneof![mutated_dna(), any::<String>(), "[a-z:?\\-A-F0-9]{0,60}"]) {
        if let Ok(dna) = Dna::parse(&text) {
            prop_assert_eq!(dna.to_string(), text);
        }
    }
}

proptest! {
    #![proptest_config(cases(8_000))]

    #[test]
    fn composed_dna_round_trips(
        role in "[a-z][a-z0-9-]{0,63}",
        capabilities in prop::collection::vec(capability(), 0..20),
        patterns in patterns(),
        body in any::<String>(),
        nonce in any::<u16>(),
    ) {
        let role = RoleName::parse(&role).expect("a role name");
        let dna = Dna::compose(&role, &capabilities, &scope(&patterns), &body, nonce);
        prop_assert_eq!(Dna::parse(&dna.to_string()), Ok(dna.clone()));
        prop_assert_eq!(dna.capabilities.len(), capabilities.len());
        for (code, name) in dna.capabilities.iter().zip(&capabilities) {
            prop_assert_eq!(*code, Code::of(name));
            let current_name = name.renamed_to().unwrap_or_else(|| name.clone());
            prop_assert!(code.to_string() == "??" || code.capability() == Some(current_name));
        }
    }

    #[test]
    fn canonical_forms_are_equal_only_for_equal_scopes(
        one in patterns(),
        other in patterns(),
    ) {
        let canonical = canonical_scope(&scope(&one));
        for other in similar_scopes(&one).iter().chain([&other]) {
            let same = as_multisets(&one) == as_multisets(other);
            prop_assert_eq!(canonical_scope(&scope(other)) == canonical, same, "{:?}", other);
        }
    }

    #[test]
    fn canonical_form_ignores_the_order_of_patterns(
        (one, other) in patterns().prop_flat_map(|(white, deny)| {
            let shuffled = (Just(white.clone()).prop_shuffle(), Just(deny.clone()).prop_shuffle());
            (Just((white, deny)), shuffled)
        }),
    ) {
        prop_assert_eq!(canonical_scope(&scope(&one)), canonical_scope(&scope(&other)));
    }
}

#[test]
fn mutated_dna_is_sometimes_accepted_and_sometimes_refused() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..1_000 {
        let text = mutated_dna().new_tree(&mut runner).unwrap().current();
        match Dna::parse(&text) {
            Ok(_) => accepted += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
}

#[test]
fn small_scopes_have_different_canonical_forms() {
    let samples = [
        "a",
        "b",
        "a,b",
        "a\tb",
        "1:a",
        "1:a,1:b",
        "3:abc",
        "abc",
        "a1:b",
        "files-denylist 0",
        "0",
        "[a]",
        "1",
        "1:",
        "\"a\"",
    ];
    let mut lists: BTreeSet<Vec<String>> = BTreeSet::from([Vec::new()]);
    for first in samples {
        lists.insert(vec![first.to_owned()]);
        for second in samples {
            lists.insert(as_multisets(&(vec![first.to_owned(), second.to_owned()], Vec::new())).0);
        }
    }
    let mut scopes_by_form: BTreeMap<String, Patterns> = BTreeMap::new();
    for white in &lists {
        for deny in &lists {
            let patterns = (white.clone(), deny.clone());
            let previous =
                scopes_by_form.insert(canonical_scope(&scope(&patterns)), patterns.clone());
            assert_eq!(previous, None, "has the same canonical form as {patterns:?}");
        }
    }
    assert_eq!(lists.len(), 1 + 15 + 15 * 16 / 2);
    assert_eq!(scopes_by_form.len(), lists.len() * lists.len());
}

#[test]
fn codes_of_the_kei_tools_are_stable() {
    let codes = [
        ("policy::no-git-ops", "NG"),
        ("scope::files-whitelist", "FW"),
        ("scope::files-denylist", "FD"),
        ("quality::constructor-pattern", "CP"),
        ("quality::cargo-check-green", "CG"),
        ("quality::tests-green", "TG"),
        ("safety::no-dep-bump", "ND"),
        ("output::report-format", "RF"),
        ("output::severity-grade", "SG"),
        ("tools::deny-tools", "DT"),
        ("tools::bash-allowlist", "BA"),
    ];
    for (name, code) in codes {
        assert_eq!(Code::of(&name.parse().unwrap()).to_string(), code);
    }
}
