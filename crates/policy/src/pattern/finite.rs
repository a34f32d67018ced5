//! Patterns that are equivalent to a few fixed prefixes.

use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// More beginnings than this are no longer few.
const MAX_COUNT: usize = 128;

/// A prefix, or the whole text, of a match.
#[derive(Debug, Default)]
pub(super) struct Finite {
    pub(super) begins: Vec<String>,
    pub(super) equals: Vec<String>,
}

/// One alternative of a pattern: its text so far, and whether it is anchored.
#[derive(Debug, Clone, Default)]
struct Alternative {
    text: String,
    started: bool,
    ended: bool,
}

/// The fixed prefixes of a pattern, if it is equivalent to them.
pub(super) fn beginnings(pattern: &Hir) -> Option<Finite> {
    let mut finite = Finite::default();
    for way in ways(pattern, vec![Alternative::default()])? {
        if !way.started {
            return None;
        }
        if way.ended {
            finite.equals.push(way.text);
        } else {
            finite.begins.push(way.text);
        }
    }
    finite.begins.sort();
    finite.begins.dedup();
    finite.equals.sort();
    finite.equals.dedup();
    Some(finite)
}

fn ways(pattern: &Hir, before: Vec<Alternative>) -> Option<Vec<Alternative>> {
    let after = match pattern.kind() {
        HirKind::Empty => before,
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            extended(&before, &[text.to_owned()])
        }
        HirKind::Class(Class::Unicode(class)) => {
            let characters = class.iter().flat_map(|range| range.start()..=range.end());
            let characters: Vec<String> =
                characters.take(MAX_COUNT + 1).map(String::from).collect();
            if characters.len() > MAX_COUNT {
                return None;
            }
            extended(&before, &characters)
        }
        HirKind::Class(Class::Bytes(_)) => return None,
        HirKind::Look(Look::Start) => {
            // The start of a text is never behind a character, so this alternative cannot match.
            let first = before.into_iter().filter(|way| way.text.is_empty());
            first.map(|way| Alternative { started: true, ..way }).collect()
        }
        HirKind::Look(Look::End) => {
            before.into_iter().map(|way| Alternative { ended: true, ..way }).collect()
        }
        HirKind::Look(_) => return None,
        HirKind::Repetition(repeated) => {
            let most = repeated.max.filter(|most| *most <= 4)?;
            let mut all = if repeated.min == 0 { before.clone() } else { Vec::new() };
            let mut current = before;
            for round in 1..=most {
                current = ways(&repeated.sub, current)?;
                if round >= repeated.min {
                    all.extend(current.iter().cloned());
                }
            }
            all
        }
        HirKind::Capture(capture) => ways(&capture.sub, before)?,
        HirKind::Concat(parts) => {
            let mut current = before;
            for part in parts {
                current = ways(part, current)?;
            }
            current
        }
        HirKind::Alternation(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(ways(part, before.clone())?);
            }
            all
        }
    };
    (after.len() <= MAX_COUNT).then_some(after)
}

/// Every way with every text behind it; behind an end nothing can follow, and what has not started
/// with the text may be preceded by anything.
fn extended(before: &[Alternative], texts: &[String]) -> Vec<Alternative> {
    let mut all = Vec::new();
    for way in before.iter().filter(|way| !way.ended) {
        for text in texts {
            all.push(Alternative { text: format!("{}{text}", way.text), ..way.clone() });
        }
    }
    all
}

/// The prefixes of all matches of a pattern; empty if they are not known.
pub(super) fn prefixes(pattern: &Hir) -> Vec<String> {
    if !pattern.properties().look_set_prefix().contains(Look::Start) {
        return Vec::new();
    }
    let sequence = Extractor::new().extract(pattern);
    let Some(literals) = sequence.literals() else { return Vec::new() };
    let texts: Option<Vec<String>> = literals
        .iter()
        .map(|literal| std::str::from_utf8(literal.as_bytes()).ok().map(str::to_owned))
        .collect();
    let mut texts = texts.unwrap_or_default();
    if texts.len() > MAX_COUNT || texts.iter().any(String::is_empty) {
        return Vec::new();
    }
    texts.sort();
    texts.dedup();
    // A prefix of another one makes the longer one redundant.
    let shorter = texts.iter().filter(|text| {
        !texts.iter().any(|other| other != *text && text.starts_with(other.as_str()))
    });
    shorter.cloned().collect()
}
