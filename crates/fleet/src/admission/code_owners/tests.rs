//! Both grammars are tested with the examples of the forges and against simple models.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{CodeOwners, CodeOwnersError, Grammar, LineError, MAX_FILE_BYTES, MAX_RULES, Owner};

fn owners(grammar: Grammar, text: &str, path: &str) -> Vec<String> {
    let file = CodeOwners::parse(grammar, text).unwrap();
    file.owners_of(path).iter().map(ToString::to_string).collect()
}

fn github(text: &str, path: &str) -> Vec<String> {
    owners(Grammar::Github, text, path)
}

fn gitea(text: &str, path: &str) -> Vec<String> {
    owners(Grammar::Gitea, text, path)
}

#[test]
fn last_matching_rule_applies_on_github() {
    let text = "# owners\n* @All @org/Team\n*.js @js # scripts\n/build/logs/ doctor@example.com\n\
                docs/* docs@example.com\napps/ @apps\n/scripts/ @s\n**/logs @logs\n/apps/github\n\
                /with\\ space/ @space\n";
    for (path, expected) in [
        ("README", &["@all", "@org/team"][..]),
        ("src/deep/a.js", &["@js"]),
        ("docs/a.md", &["docs@example.com"]),
        ("docs/deep/a.md", &["@all", "@org/team"]),
        ("x/docs/a.md", &["@all", "@org/team"]),
        ("apps/main/a", &["@apps"]),
        ("x/apps/a", &["@apps"]),
        ("x/scripts/a", &["@all", "@org/team"]),
        ("scripts/a", &["@s"]),
        ("build/logs/a", &["@logs"]),
        ("deep/logs/x/y", &["@logs"]),
        ("apps/github", &[]),
        ("apps/github/deep/a", &[]),
        ("apps/githubs", &["@apps"]),
        ("with space/a", &["@space"]),
    ] {
        assert_eq!(github(text, path), expected, "{path}");
    }
    assert_eq!(github("/* @a\n", "x"), ["@a"]);
    assert_eq!(github("/* @a\n", "x/y"), Vec::<String>::new());
    assert_eq!(github("/ @a\n", "x"), Vec::<String>::new());
}

#[test]
fn line_that_github_cannot_read_makes_the_file_unusable() {
    for (line, why) in [
        ("!docs/ @a", LineError::Negation),
        ("[ab].txt @a", LineError::CharacterRange),
        ("a***b @a", LineError::ThreeStars),
        ("* somebody", LineError::Owner),
        ("* @a/b/c", LineError::Owner),
        ("* @", LineError::Owner),
    ] {
        let read = CodeOwners::parse(Grammar::Github, &format!("* @b\n{line}\n"));
        assert_eq!(read.unwrap_err(), CodeOwnersError::Line { line: 2, why }, "{line}");
    }
}

#[test]
fn every_matching_rule_applies_on_gitea() {
    let text = "# owners\n.*\\\\.go @Go\n!docs/.* not-docs @org/Team\n(broken @a\nlonely\n\
                docs/.* @docs # text\nsrc/(a|b)/.* who@example.com @ab\n";
    for (path, expected) in [
        ("a.go", &["@go", "@not-docs", "@org/team"][..]),
        ("ago", &["@not-docs", "@org/team"]),
        ("docs/a.go", &["@docs", "@go"]),
        ("docs/deep/a.md", &["@docs"]),
        ("x/docs/a.md", &["@not-docs", "@org/team"]),
        ("src/a/x", &["@ab", "@not-docs", "@org/team"]),
        ("src/c/x", &["@not-docs", "@org/team"]),
    ] {
        assert_eq!(gitea(text, path), expected, "{path}");
    }
    // Gitea does not put parentheses around an expression.
    assert_eq!(gitea("a|b @x\n", "abc"), ["@x"]);
    assert_eq!(gitea("a|b @x\n", "cb"), ["@x"]);
    assert_eq!(gitea("a|b @x\n", "ca"), Vec::<String>::new());
}

#[test]
fn file_size_rules_and_comparisons_are_limited() {
    let parse = |text: &str| CodeOwners::parse(Grammar::Github, text).map(|_| ());
    let largest = "#".repeat(MAX_FILE_BYTES);
    assert_eq!(parse(&largest), Ok(()));
    assert_eq!(parse(&format!("{largest}#")), Err(CodeOwnersError::TooLarge));
    let file = |rules: usize| CodeOwners::parse(Grammar::Github, &"a @b\n".repeat(rules));
    let full = file(MAX_RULES).unwrap();
    assert_eq!(file(MAX_RULES + 1).unwrap_err(), CodeOwnersError::TooManyRules);
    let paths = vec!["x".to_owned(); super::MAX_COMPARISONS / MAX_RULES + 1];
    assert_eq!(full.group(&paths), Err(CodeOwnersError::TooManyComparisons));
    assert_eq!(full.group(&paths[..1]).unwrap().len(), 1);
    // An expression that needs too much memory is ignored.
    assert_eq!(gitea("((a{50}){50}){50} @x\n.* @y\n", "a"), ["@y"]);
}

#[test]
fn files_are_grouped_by_their_owners() {
    let file = CodeOwners::parse(Grammar::Github, "* @a\n/docs/ @a @b\n/free\n").unwrap();
    let paths = ["free", "src/x", "docs/x", "src/y"].map(str::to_owned);
    let groups = file.group(&paths).unwrap();
    let user = |name: &str| Owner::User(name.to_owned());
    let found: Vec<_> = groups.iter().map(|one| (one.owners.clone(), &*one.example)).collect();
    assert_eq!(
        found,
        [
            (BTreeSet::new(), "free"),
            (BTreeSet::from([user("a")]), "src/x"),
            (BTreeSet::from([user("a"), user("b")]), "docs/x"),
        ]
    );
}

/// Whether a name matches a pattern without slashes, character by character.
fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => {
            name_matches(rest, name) || (!name.is_empty() && name_matches(pattern, &name[1..]))
        }
        ([b'?', rest @ ..], [_, after @ ..]) => name_matches(rest, after),
        ([one, rest @ ..], [other, after @ ..]) => one == other && name_matches(rest, after),
        _ => false,
    }
}

/// What may follow below the last name.
#[derive(Clone, Copy, PartialEq)]
enum Below {
    Nothing,
    Anything,
    Something,
}

fn path_matches(pattern: &[&str], path: &[&str], below: Below) -> bool {
    match pattern {
        [] => match below {
            Below::Nothing => path.is_empty(),
            Below::Anything => true,
            Below::Something => !path.is_empty(),
        },
        ["**"] => path.len() > usize::from(below == Below::Something),
        ["**", rest @ ..] => (0..=path.len()).any(|n| path_matches(rest, &path[n..], below)),
        [name, rest @ ..] => match path {
            [] => false,
            [first, after @ ..] => {
                name_matches(name.as_bytes(), first.as_bytes()) && path_matches(rest, after, below)
            }
        },
    }
}

/// A model of GitHub's rules that compares paths name by name.
fn model(pattern: &str, path: &str) -> bool {
    let path: Vec<&str> = path.split('/').collect();
    let names: Vec<&str> = pattern.trim_matches('/').split('/').collect();
    let anchored = pattern.trim_end_matches('/').contains('/');
    let below = match names.last() {
        _ if pattern.ends_with('/') => Below::Something,
        Some(&"*") if anchored => Below::Nothing,
        _ => Below::Anything,
    };
    let starts = if anchored { 0..1 } else { 0..path.len() };
    starts.into_iter().any(|start| path_matches(&names, &path[start..], below))
}

/// A regular expression. `ends` returns the ends of its matches that begin at a position.
#[derive(Debug, Clone)]
enum Expression {
    Literal(char),
    Any,
    Many(Box<Expression>),
    Either(Box<Expression>, Box<Expression>),
    Both(Box<Expression>, Box<Expression>),
}

impl Expression {
    fn text(&self) -> String {
        match self {
            Self::Literal(c) => c.to_string(),
            Self::Any => ".".to_owned(),
            Self::Many(one) => format!("({})*", one.text()),
            Self::Either(one, other) => format!("({}|{})", one.text(), other.text()),
            Self::Both(one, other) => format!("{}{}", one.text(), other.text()),
        }
    }

    fn ends(&self, text: &[char], start: usize) -> BTreeSet<usize> {
        match self {
            Self::Literal(c) => text.get(start).filter(|one| *one == c).map(|_| start + 1),
            Self::Any => text.get(start).map(|_| start + 1),
            Self::Either(one, other) => {
                return &one.ends(text, start) | &other.ends(text, start);
            }
            Self::Both(one, other) => {
                let middles = one.ends(text, start).into_iter();
                return middles.flat_map(|middle| other.ends(text, middle)).collect();
            }
            Self::Many(one) => {
                let mut ends = BTreeSet::from([start]);
                let mut open = vec![start];
                while let Some(at) = open.pop() {
                    open.extend(one.ends(text, at).into_iter().filter(|end| ends.insert(*end)));
                }
                return ends;
            }
        }
        .into_iter()
        .collect()
    }
}

fn expression() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        prop::sample::select(vec!['a', 'b', '/']).prop_map(Expression::Literal),
        Just(Expression::Any),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        let pair = (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        prop_oneof![
            inner.prop_map(|one| Expression::Many(Box::new(one))),
            pair.clone().prop_map(|(one, other)| Expression::Either(one, other)),
            pair.prop_map(|(one, other)| Expression::Both(one, other)),
        ]
    })
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "ab", "ba", "aab"]);
    prop::collection::vec(name, 1..5).prop_map(|names| names.join("/"))
}

fn pattern() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "ab", "*", "**", "?", "a*", "*b", "?b"]);
    let names = prop::collection::vec(name, 1..4);
    (any::<bool>(), names, any::<bool>()).prop_map(|(root, names, directory)| {
        let (first, last) = (if root { "/" } else { "" }, if directory { "/" } else { "" });
        format!("{first}{}{last}", names.join("/"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn github_patterns_match_what_the_model_matches(
        patterns in prop::collection::vec(pattern(), 1..4), path in path()
    ) {
        let lines = patterns.iter().enumerate().map(|(n, pattern)| format!("{pattern} @o{n}\n"));
        let text: String = lines.collect();
        let last = patterns.iter().rposition(|pattern| model(pattern, &path));
        let expected: Vec<String> = last.map(|n| format!("@o{n}")).into_iter().collect();
        prop_assert_eq!(github(&text, &path), expected, "{} of {}", path, text);
    }

    #[test]
    fn gitea_expressions_match_what_the_model_matches(
        rules in prop::collection::vec((expression(), any::<bool>()), 1..4), path in path()
    ) {
        let text: String = rules.iter().enumerate().map(|(n, (one, negated))| {
            format!("{}{} @o{n}\n", if *negated { "!" } else { "" }, one.text())
        }).collect();
        let characters: Vec<char> = path.chars().collect();
        let whole = |one: &Expression| one.ends(&characters, 0).contains(&characters.len());
        let expected: Vec<String> = rules.iter().enumerate()
            .filter(|(_, (one, negated))| whole(one) != *negated)
            .map(|(n, _)| format!("@o{n}"))
            .collect();
        prop_assert_eq!(gitea(&text, &path), expected, "{} of {}", path, text);
    }
}
