//! No two fragments say the same: what is shared belongs into one capability.

use std::collections::HashMap;
use std::ops::Range;

use bailiwick_model::{CapabilityName, Problem};

use super::is_fork_of;
use super::words::{plain, words};
use crate::kit::FoundCapability;

/// How many words in a row make a repetition.
const RUN: usize = 10;

/// Reports the first repetition of each pair. A fresh fork repeats its source until it is edited:
/// that is a warning, unless a role (`together`) has both.
pub(super) fn check(
    capabilities: &[FoundCapability],
    together: &[Vec<CapabilityName>],
) -> Vec<Problem> {
    let mut first_said: HashMap<Vec<String>, usize> = HashMap::new();
    let mut problems = Vec::new();
    for (index, capability) in capabilities.iter().enumerate() {
        let mut told = Vec::new();
        for (span, run) in runs(&capability.text.text) {
            let earlier = *first_said.entry(run).or_insert(index);
            if earlier != index && !told.contains(&earlier) {
                told.push(earlier);
                let other = capabilities.get(earlier);
                problems.extend(other.map(|other| report(capability, other, span, together)));
            }
        }
    }
    problems
}

fn runs(text: &str) -> Vec<(Range<usize>, Vec<String>)> {
    let plain: Vec<(Range<usize>, String)> =
        words(text).filter_map(|(span, word)| Some((span, plain(word)?))).collect();
    let run = |window: &[(Range<usize>, String)]| {
        let (first, last) = (window.first()?, window.last()?);
        let words = window.iter().map(|(_, word)| word.clone()).collect();
        Some((first.0.start..last.0.end, words))
    };
    plain.windows(RUN).filter_map(run).collect()
}

fn report(
    capability: &FoundCapability,
    other: &FoundCapability,
    span: Range<usize>,
    together: &[Vec<CapabilityName>],
) -> Problem {
    let (name, source) = (capability.declared.name(), other.declared.name());
    let message = format!("the text repeats `{source}`");
    let place = capability.text.at(span);
    let both = together.iter().any(|role| role.contains(name) && role.contains(source));
    if is_fork_of(capability, other) && !both {
        Problem::warning("text-repeats", place, message)
            .help("one is a fork of the other: edit its text.md so that it says what is different")
    } else {
        Problem::error("text-repeats", place, message)
            .help("say it in one capability and let roles have both")
    }
}
