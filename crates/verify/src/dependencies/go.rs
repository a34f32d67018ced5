//! go.mod, go.work and go.sum.

use super::Dependencies;

/// Directives that are about the module itself.
const OWN: [&str; 6] = ["module", "go", "retract", "use", "godebug", "ignore"];

pub(super) fn module(source: &str) -> Result<Dependencies, String> {
    let mut found = Dependencies::default();
    let mut block: Option<String> = None;
    for line in source.lines() {
        let text = line.split("//").next().unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        match (words.as_slice(), block.as_deref()) {
            ([], _) => {}
            ([")"], Some(_)) => block = None,
            ([")", ..], _) => return Err("a block ends that did not begin".to_owned()),
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
        Some(directive) => Err(format!("the block `{directive}` has no end")),
    }
}

fn add(directive: &str, words: &[&str], found: &mut Dependencies) {
    if OWN.contains(&directive) {
        return;
    }
    let words: Vec<&str> = words.iter().map(|word| word.trim_matches(['"', '`'])).collect();
    match words.split_first() {
        Some((name, rest)) => found.add(format!("{directive} {name}"), rest.join(" ")),
        None => found.add(directive, ""),
    }
}

pub(super) fn sum(source: &str) -> Result<Dependencies, String> {
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
