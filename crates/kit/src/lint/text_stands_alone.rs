//! A fragment must not refer to other fragments: roles combine them in any order.

use bailiwick_model::{CapabilityName, Problem};

use super::words::{plain, words};
use crate::kit::FoundCapability;

const LEANING: [[&str; 2]; 12] = [
    ["see", "above"],
    ["see", "below"],
    ["as", "above"],
    ["mentioned", "above"],
    ["described", "above"],
    ["described", "below"],
    ["listed", "above"],
    ["previous", "section"],
    ["previous", "fragment"],
    ["next", "section"],
    ["other", "capability"],
    ["other", "capabilities"],
];

pub(super) fn check(capability: &FoundCapability) -> Vec<Problem> {
    let text = &capability.text;
    let own = capability.declared.name();
    let mut problems = Vec::new();
    for (span, word) in words(&text.text) {
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == ':';
        let names = word.split(|c: char| !inside(c)).map(|part| part.trim_matches(':'));
        let other = |bare: &&str| CapabilityName::parse(bare).is_ok_and(|name| name != *own);
        for bare in names.filter(other) {
            let message = format!("the text refers to another fragment, `{bare}`");
            problems.push(
                Problem::error("text-refers", text.at(span.clone()), message)
                    .help("a role may not have that one: say here what this rule needs"),
            );
        }
    }
    let plain: Vec<_> =
        words(&text.text).filter_map(|(span, word)| Some((span, plain(word)?))).collect();
    for pair in plain.windows(2) {
        let [(first, one), (last, other)] = pair else { continue };
        if LEANING.contains(&[one, other]) {
            let message = format!("\"{one} {other}\" leans on another fragment");
            problems.push(
                Problem::error("text-refers", text.at(first.start..last.end), message)
                    .help("roles combine fragments in any order: each must stand alone"),
            );
        }
    }
    problems
}
