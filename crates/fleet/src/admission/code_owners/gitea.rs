//! Rules of CODEOWNERS files on Gitea and Forgejo: regular expressions for whole paths, `!` in front for all others.
//!
//! These forges skip a line that they cannot read. So do we: rules only add owners there.

use std::collections::BTreeSet;

use super::{Owner, Rule, compiled};

/// The rule of a line; nothing if it has none that counts.
pub(super) fn rule(line: &str) -> Option<Rule> {
    let words = words(line);
    let (pattern, owners) = words.split_first()?;
    let owners: BTreeSet<Owner> = owners.iter().filter_map(|word| owner(word)).collect();
    let (pattern, negated) = match pattern.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (pattern.as_str(), false),
    };
    // As the forge does it: `a|b` is what begins with `a` or ends with `b`.
    let pattern = compiled(&format!("^{pattern}$"))?;
    (!owners.is_empty()).then_some(Rule { pattern, negated, owners })
}

/// The words of a line up to its comment. A backslash keeps the character after it and is removed, also in patterns:
/// `\\.` is a dot.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut escaped = false;
    for c in line.trim().chars() {
        match c {
            c if escaped => {
                word.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '#' => break,
            ' ' | '\t' => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// An account or a team; there are no mail addresses here.
fn owner(word: &str) -> Option<Owner> {
    let name = word.strip_prefix('@').unwrap_or(word).to_lowercase();
    let plain = |text: &str| !text.is_empty() && !text.contains(['@', '/']);
    match name.split_once('/') {
        None => plain(&name).then_some(Owner::User(name)),
        Some((organization, team)) => {
            (plain(organization) && plain(team)).then_some(Owner::Team(name))
        }
    }
}
