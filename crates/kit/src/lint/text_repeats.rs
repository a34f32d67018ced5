//! No two fragments repeat the same text: shared text belongs into one capability.

use std::collections::HashMap;
use std::ops::Range;

use bailiwick_model::{CapabilityName, Problem};

use super::words::{plain, words};
use crate::kit::FoundCapability;

/// The number of consecutive words that make a repetition.
const RUN: usize = 10;
/// The maximum number of repeated capabilities in one warning.
const MAX_REPORTED: usize = 8;

/// Reports the first repetition of each pair. A fresh fork repeats its source until it is edited:
/// that is a warning, unless a role (`together`) has both.
pub(super) fn check(
    capabilities: &[FoundCapability],
    together: &[Vec<CapabilityName>],
) -> Vec<Problem> {
    let lineages = lineages(capabilities);
    let lineage = |name: &CapabilityName| lineages.get(name).map_or(&[][..], Vec::as_slice);
    // Lower layers first, and a source before its forks: the later one is reported, since it can be edited.
    let mut capabilities: Vec<&FoundCapability> = capabilities.iter().collect();
    capabilities.sort_by_key(|found| (found.origin, lineage(found.declared.name()).len()));
    let mut said: HashMap<Vec<String>, Vec<&FoundCapability>> = HashMap::new();
    let mut problems = Vec::new();
    for capability in capabilities {
        let name = capability.declared.name();
        let mut reported = vec![name];
        for (span, run) in runs(&capability.text.text) {
            let earlier = said.entry(run).or_default();
            for (index, other) in earlier.iter().enumerate() {
                let source = other.declared.name();
                if reported.contains(&source) || reported.len() > MAX_REPORTED {
                    continue;
                }
                reported.push(source);
                let related = lineage(name).last() == lineage(source).last();
                let both = together.iter().any(|role| role.contains(name) && role.contains(source));
                if !related || both {
                    problems.push(repetition(capability, source, span.clone()));
                } else if index == 0 {
                    problems.push(fresh_fork(capability, source, span.clone()));
                }
            }
            earlier.push(capability);
        }
    }
    problems
}

/// Each capability with those that it was forked from behind it, nearest first.
fn lineages(capabilities: &[FoundCapability]) -> HashMap<CapabilityName, Vec<CapabilityName>> {
    let forked_from: HashMap<_, _> = capabilities
        .iter()
        .filter_map(|found| {
            let lineage = found.declared.lineage.as_ref()?;
            Some((found.declared.name(), lineage.fork_from.as_ref()?))
        })
        .collect();
    let follow = |name: &CapabilityName| {
        let mut line = vec![name.clone()];
        let mut at = name;
        while let Some(source) = forked_from.get(at).filter(|source| !line.contains(source)) {
            line.push((*source).clone());
            at = source;
        }
        line
    };
    let names = capabilities.iter().map(|found| found.declared.name());
    names.map(|name| (name.clone(), follow(name))).collect()
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

fn repetition(
    capability: &FoundCapability,
    source: &CapabilityName,
    span: Range<usize>,
) -> Problem {
    let message = format!("the text repeats `{source}`");
    Problem::error("text-repeats", capability.text.at(span), message)
        .help("say it in one capability and let roles have both")
}

fn fresh_fork(
    capability: &FoundCapability,
    source: &CapabilityName,
    span: Range<usize>,
) -> Problem {
    let message = format!("the text repeats `{source}`");
    Problem::warning("text-repeats", capability.text.at(span), message)
        .help("one is a fork of the other: edit its text.md so that it says what is different")
}
