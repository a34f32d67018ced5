//! Regular expressions as tables: compiled with the policy, only looked up in the gate.
//!
//! A pattern for a few fixed prefixes, such as `^git( |$)`, becomes those; any other becomes an automaton, which is
//! decoded only if the text starts as the pattern requires.

mod finite;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex_automata::dfa::{Automaton as _, StartKind, dense, sparse};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};
use serde::{Deserialize, Serialize};

/// The maximum size of the table of one pattern.
const MAX_TABLE_SIZE: usize = 256 * 1024;

/// Patterns of which any may match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patterns {
    /// As people wrote them.
    pub written: Vec<String>,
    /// Texts that match when a command begins with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    begins: Vec<String>,
    /// Texts that match when a command is exactly that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    equals: Vec<String>,
    /// The others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tables: Vec<Table>,
}

/// A pattern as an automaton.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// The possible prefixes of a matching text; empty if they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    beginnings: Vec<String>,
    /// The automaton, in base 64.
    automaton: String,
}

/// A pattern that cannot be compiled to a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` {why}")]
pub struct PatternError {
    pub pattern: String,
    /// The reason.
    pub why: PatternFault,
}

/// Why a pattern cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternFault {
    #[error(transparent)]
    Syntax(#[from] Box<regex_syntax::Error>),
    /// The error of the crate that builds tables.
    #[error("{0}")]
    NoTable(String),
    #[error("is too complex to be made a table")]
    TooComplex,
    #[error("is empty")]
    EmptyCommand,
    #[error("has a control character in it")]
    ControlCharacter,
}

/// A table that is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pattern's table is damaged")]
pub struct DamagedTable;

impl Patterns {
    pub fn compile(written: &[String]) -> Result<Self, PatternError> {
        let mut patterns = Self { written: written.to_vec(), ..Self::default() };
        for pattern in written {
            let wrong = |why: PatternFault| PatternError { pattern: pattern.clone(), why };
            let hir =
                regex_syntax::parse(pattern).map_err(|error| wrong(Box::new(error).into()))?;
            match finite::beginnings(&hir) {
                Some(finite) => {
                    patterns.begins.extend(finite.begins);
                    patterns.equals.extend(finite.equals);
                }
                None => patterns.tables.push(Table {
                    beginnings: finite::prefixes(&hir),
                    automaton: STANDARD.encode(automaton(pattern).map_err(wrong)?),
                }),
            }
        }
        Ok(patterns)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// Whether any of them matches somewhere in the text.
    pub fn matches(&self, text: &str) -> Result<bool, DamagedTable> {
        // Most differ in their first byte.
        let first = text.as_bytes().first();
        let begins = |beginning: &String| {
            let same = beginning.is_empty() || beginning.as_bytes().first() == first;
            same && text.starts_with(beginning.as_str())
        };
        if self.equals.iter().any(|whole| whole == text) || self.begins.iter().any(begins) {
            return Ok(true);
        }
        for table in &self.tables {
            if table.matches(text)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Table {
    fn matches(&self, text: &str) -> Result<bool, DamagedTable> {
        let begins = |beginning: &String| text.starts_with(beginning.as_str());
        if !self.beginnings.is_empty() && !self.beginnings.iter().any(begins) {
            return Ok(false);
        }
        let bytes = STANDARD.decode(&self.automaton).map_err(|_| DamagedTable)?;
        let (dfa, _) = sparse::DFA::from_bytes(&bytes).map_err(|_| DamagedTable)?;
        let found = dfa.try_search_fwd(&Input::new(text).earliest(true));
        Ok(found.map_err(|_| DamagedTable)?.is_some())
    }
}

fn automaton(pattern: &str) -> Result<Vec<u8>, PatternFault> {
    let config = dense::Config::new()
        .start_kind(StartKind::Unanchored)
        .match_kind(MatchKind::LeftmostFirst)
        .accelerate(false)
        .dfa_size_limit(Some(4 * MAX_TABLE_SIZE))
        .determinize_size_limit(Some(16 * MAX_TABLE_SIZE));
    let build = |unicode: bool| {
        dense::Builder::new()
            .configure(config.clone())
            .syntax(syntax::Config::new().unicode(unicode).utf8(false))
            .thompson(regex_automata::nfa::thompson::Config::new().utf8(false))
            .build(pattern)
    };
    // Unicode word boundaries cannot be compiled; those of ASCII can.
    let no_table = |error: dense::BuildError| PatternFault::NoTable(error.to_string());
    let dense = build(true).or_else(|_| build(false)).map_err(no_table)?;
    let sparse = dense.to_sparse().map_err(no_table)?;
    let bytes = sparse.to_bytes_little_endian();
    if bytes.len() > MAX_TABLE_SIZE {
        return Err(PatternFault::TooComplex);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(patterns: &[&str]) -> Patterns {
        let texts: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
        Patterns::compile(&texts).unwrap()
    }

    #[test]
    fn tables_agree_with_their_expressions() {
        let patterns = compiled(&["^cargo( |$)", "^mkdir( |$)", "^rm -rf /tmp/"]);
        for (text, expected) in [
            ("cargo", true),
            ("cargo check", true),
            ("cargo-add x", false),
            ("echo cargo", false),
            ("rm -rf /tmp/x", true),
            ("rm -rf /home", false),
        ] {
            assert_eq!(patterns.matches(text), Ok(expected), "{text}");
        }
        assert!(patterns.tables.is_empty(), "every pattern has a fixed prefix");
        let patterns = compiled(&[r"^cargo( \+[^ ]+)? (add|rm)( |$)"]);
        assert_eq!(patterns.matches("cargo +nightly add x"), Ok(true));
        assert_eq!(patterns.matches("cargo added"), Ok(false));
        let known = patterns.tables.iter().flat_map(|table| &table.beginnings);
        assert!(known.clone().count() > 0 && known.clone().all(|text| text.starts_with("cargo ")));
    }

    #[test]
    fn unanchored_pattern_matches_anywhere() {
        let patterns = compiled(&["push", r"\bforce\b"]);
        assert_eq!(patterns.matches("git push"), Ok(true));
        assert_eq!(patterns.matches("with force now"), Ok(true));
        assert_eq!(patterns.matches("enforced"), Ok(false));
        let patterns = compiled(&["^git|push"]);
        assert_eq!(patterns.matches("x push"), Ok(true));
    }

    #[test]
    fn empty_list_matches_nothing_and_a_damaged_table_is_an_error() {
        assert_eq!(compiled(&[]).matches("x"), Ok(false));
        let mut patterns = compiled(&["x"]);
        patterns.tables[0].automaton = "AAAA".to_owned();
        assert_eq!(patterns.matches("x"), Err(DamagedTable));
    }

    #[test]
    fn pattern_with_too_many_states_is_refused() {
        let texts = vec!["(a|b)*a(a|b){20}".to_owned()];
        assert!(Patterns::compile(&texts).is_err());
    }

    #[test]
    fn every_table_agrees_with_the_engine() {
        let mut random = bailiwick_testkit::random::Random::rotating("patterns");
        let pieces = [
            "git",
            "gh",
            " ",
            "( |$)",
            "(a|b|)",
            "x?",
            "[ab]",
            "[^ ]",
            ".*",
            "^",
            "$",
            "push",
            "+",
            "-[^ ]+",
            "(repo|api /r)",
            "(?i)g",
            "a{2}",
            "\\.",
            "(^x|y)",
            "|",
        ];
        let words =
            ["git", "gh", " ", "push", "a", "b", "x", "repo", "-f", "", "aa", "api /r", "."];
        let (mut compared, mut matched) = (0, 0);
        while compared < 20_000 {
            let length = 1 + random.below(5);
            let mut pattern = if random.once_in(2) { "^" } else { "" }.to_owned();
            (0..length).for_each(|_| pattern += pieces[random.below(pieces.len())]);
            let Ok(engine) = regex_automata::meta::Regex::new(&pattern) else { continue };
            let Ok(patterns) = Patterns::compile(&[pattern.clone()]) else { continue };
            for _ in 0..8 {
                let text: String =
                    (0..random.below(5)).map(|_| words[random.below(words.len())]).collect();
                let expected = engine.is_match(text.as_str());
                assert_eq!(patterns.matches(&text), Ok(expected), "{pattern:?} {text:?}");
                compared += 1;
                matched += usize::from(expected);
            }
        }
        assert!(matched > compared / 20, "too few texts matched: {matched} of {compared}");
    }
}
