//! Regular expressions as tables: compiled with the policy, only looked up in the gate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex_automata::dfa::{Automaton as _, StartKind, dense, sparse};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};
use serde::{Deserialize, Serialize};

/// How large the table of one set may become; beyond it each pattern gets its own.
const LARGEST: usize = 256 * 1024;

/// Patterns of which any may match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patterns {
    /// As people wrote them.
    pub written: Vec<String>,
    /// Words that a text must begin with for any of them to match; empty if that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beginnings: Vec<String>,
    /// The tables, in base 64.
    tables: Vec<String>,
}

/// A pattern that cannot be made a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` {why}")]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

/// A table that is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pattern's table is damaged")]
pub struct DamagedTable;

impl Patterns {
    /// Compiles patterns.
    pub fn compile(written: &[String]) -> Result<Self, PatternError> {
        let whole = table(written).ok();
        let tables = match whole {
            Some(table) => vec![table],
            None => written
                .iter()
                .map(|pattern| {
                    table(std::slice::from_ref(pattern))
                        .map_err(|why| PatternError { pattern: pattern.clone(), why })
                })
                .collect::<Result<_, _>>()?,
        };
        let tables = tables.iter().map(|bytes| STANDARD.encode(bytes)).collect();
        Ok(Self { written: written.to_vec(), beginnings: beginnings(written), tables })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// Whether any of them matches somewhere in the text.
    pub fn matches(&self, text: &str) -> Result<bool, DamagedTable> {
        if self.is_empty() {
            return Ok(false);
        }
        let begins = |beginning: &String| text.starts_with(beginning.as_str());
        if !self.beginnings.is_empty() && !self.beginnings.iter().any(begins) {
            return Ok(false);
        }
        for table in &self.tables {
            let bytes = STANDARD.decode(table).map_err(|_| DamagedTable)?;
            let (dfa, _) = sparse::DFA::from_bytes(&bytes).map_err(|_| DamagedTable)?;
            let input = Input::new(text).earliest(true);
            if dfa.try_search_fwd(&input).map_err(|_| DamagedTable)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn table(patterns: &[String]) -> Result<Vec<u8>, String> {
    let config = dense::Config::new()
        .start_kind(StartKind::Unanchored)
        .match_kind(MatchKind::LeftmostFirst)
        .accelerate(false)
        .dfa_size_limit(Some(4 * LARGEST))
        .determinize_size_limit(Some(16 * LARGEST));
    let build = |unicode: bool| {
        dense::Builder::new()
            .configure(config.clone())
            .syntax(syntax::Config::new().unicode(unicode).utf8(false))
            .thompson(regex_automata::nfa::thompson::Config::new().utf8(false))
            .build_many(patterns)
    };
    // Word boundaries of Unicode make no table; those of ASCII do.
    let dense = build(true).or_else(|_| build(false)).map_err(|error| error.to_string())?;
    let sparse = dense.to_sparse().map_err(|error| error.to_string())?;
    let bytes = sparse.to_bytes_little_endian();
    if bytes.len() > LARGEST {
        return Err("is too complex to be made a table".to_owned());
    }
    Ok(bytes)
}

/// The literal beginnings of patterns that are all anchored to the start.
fn beginnings(written: &[String]) -> Vec<String> {
    use regex_syntax::hir::Look;
    use regex_syntax::hir::literal::Extractor;
    let mut all = Vec::new();
    for pattern in written {
        let Ok(hir) = regex_syntax::parse(pattern) else { return Vec::new() };
        if !hir.properties().look_set_prefix().contains(Look::Start) {
            return Vec::new();
        }
        let sequence = Extractor::new().extract(&hir);
        let Some(literals) = sequence.literals() else { return Vec::new() };
        for literal in literals {
            match std::str::from_utf8(literal.as_bytes()) {
                Ok("") | Err(_) => return Vec::new(),
                Ok(text) => all.push(text.to_owned()),
            }
        }
    }
    all.sort();
    all.dedup();
    // A beginning of another says all that the longer one says.
    let shorter: Vec<String> = all
        .iter()
        .filter(|text| !all.iter().any(|other| other != *text && text.starts_with(other.as_str())))
        .cloned()
        .collect();
    if shorter.len() > 32 { Vec::new() } else { shorter }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(patterns: &[&str]) -> Patterns {
        let written: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
        Patterns::compile(&written).unwrap()
    }

    #[test]
    fn tables_say_what_the_expressions_say() {
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
        assert_eq!(patterns.beginnings, ["cargo", "mkdir", "rm -rf /tmp/"]);
    }

    #[test]
    fn what_is_not_anchored_matches_anywhere() {
        let patterns = compiled(&["push", r"\bforce\b"]);
        assert_eq!(patterns.beginnings, Vec::<String>::new());
        assert_eq!(patterns.matches("git push"), Ok(true));
        assert_eq!(patterns.matches("with force now"), Ok(true));
        assert_eq!(patterns.matches("enforced"), Ok(false));
    }

    #[test]
    fn one_pattern_anchored_in_a_branch_only_has_no_beginning() {
        let patterns = compiled(&["^git|push"]);
        assert_eq!(patterns.matches("x push"), Ok(true));
    }

    #[test]
    fn none_match_nothing_and_damage_is_an_error() {
        assert_eq!(compiled(&[]).matches("x"), Ok(false));
        let mut patterns = compiled(&["x"]);
        patterns.tables = vec!["AAAA".to_owned()];
        assert_eq!(patterns.matches("x"), Err(DamagedTable));
    }

    #[test]
    fn a_pattern_that_explodes_is_refused() {
        let written = vec!["(a|b)*a(a|b){20}".to_owned()];
        assert!(Patterns::compile(&written).is_err());
    }
}
