//! go.mod, go.work and go.sum.

use super::{Dependencies, ManifestError};

/// Directives that name no dependency.
const OWN_DIRECTIVES: [&str; 6] = ["module", "go", "retract", "use", "godebug", "ignore"];

pub(super) fn module(source: &str) -> Result<Dependencies, ManifestError> {
    let mut found = Dependencies::default();
    let mut block: Option<String> = None;
    for line in source.lines() {
        let text = line.split("//").next().unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        match (words.as_slice(), block.as_deref()) {
            ([], _) => {}
            ([")"], Some(_)) => block = None,
            ([")", ..], _) => return Err(ManifestError::UnopenedBlock),
            (words, Some(directive)) => add(directive, words, &mut found),
            ([directive, "("], None) => block = Some((*directive).to_owned()),
            ([directive, rest @ ..], None) => match directive.strip_suffix('(') {
                Some(directive) if rest.is_empty() => block = Some(directive.to_owned()),
                _ => add(directive, rest, &mut found),
            },
        }
    }
    match block {
        None => Ok(found),
        Some(directive) => Err(ManifestError::UnclosedBlock(directive)),
    }
}

fn add(directive: &str, words: &[&str], found: &mut Dependencies) {
    if OWN_DIRECTIVES.contains(&directive) {
        return;
    }
    let words: Vec<&str> = words.iter().map(|word| word.trim_matches(['"', '`'])).collect();
    match words.split_first() {
        Some((name, rest)) => found.add(format!("{directive} {name}"), rest.join(" ")),
        None => found.add(directive, ""),
    }
}

pub(super) fn sum(source: &str) -> Result<Dependencies, ManifestError> {
    let mut found = Dependencies::default();
    for line in source.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [module, rest @ ..] => found.add(*module, rest.join(" ")),
        }
    }
    Ok(found)
}
