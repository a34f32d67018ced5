//! A fragment stands alone: roles combine them in any order, so none may lean on another.

use bailiwick_model::{CapabilityName, Problem};

use super::words::words;
use crate::kit::FoundCapability;

const LEANING: [&str; 12] = [
    "see above",
    "see below",
    "as above",
    "mentioned above",
    "described above",
    "described below",
    "listed above",
    "previous section",
    "previous fragment",
    "next section",
    "other capability",
    "other capabilities",
];

pub(super) fn check(capability: &FoundCapability) -> Vec<Problem> {
    let text = &capability.text;
    let own = capability.declared.name();
    let mut problems = Vec::new();
    for (span, word) in words(&text.text) {
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == ':';
        let bare = word.trim_matches(|c: char| !inside(c) || c == ':');
        let named = CapabilityName::parse(bare).is_ok_and(|name| name != *own);
        if named {
            let message = format!("the text refers to another fragment, `{bare}`");
            problems.push(
                Problem::error("text-refers", text.at(span), message)
                    .help("a role may not have that one: say here what this rule needs"),
            );
        }
    }
    let lower = text.text.to_ascii_lowercase();
    for phrase in LEANING {
        if let Some(at) = lower.find(phrase) {
            let message = format!("\"{phrase}\" leans on another fragment");
            problems.push(
                Problem::error("text-refers", text.at(at..at + phrase.len()), message)
                    .help("roles combine fragments in any order: each must stand alone"),
            );
        }
    }
    problems
}
