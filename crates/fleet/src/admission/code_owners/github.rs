//! Rules of CODEOWNERS files on GitHub: patterns like those of .gitignore, without `!` and `[ ]`.
//!
//! GitHub skips a line that it cannot parse. Here the whole file is refused: a skipped line may be the one that
//! removes files from an owner.

use std::collections::BTreeSet;

use super::{LineError, Owner, Rule, compiled};

/// The rule of a line; nothing if the line is empty or a comment.
pub(super) fn rule(line: &str) -> Result<Option<Rule>, LineError> {
    let mut words = words(line).into_iter();
    let Some(pattern) = words.next() else { return Ok(None) };
    let owners = words.map(|word| owner(&word)).collect::<Result<BTreeSet<_>, _>>()?;
    let expression = expression(&pattern)?;
    let pattern = compiled(&expression).ok_or(LineError::Pattern)?;
    Ok(Some(Rule { pattern, negated: false, owners }))
}

/// The words of a line up to its comment. A backslash keeps the space after it.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut escaped = false;
    for c in line.chars() {
        if escaped {
            // The pattern reads the backslash; a space needs none.
            if c != ' ' {
                word.push('\\');
            }
            word.push(c);
            escaped = false;
            continue;
        }
        match c {
            '\\' => escaped = true,
            '#' if word.is_empty() => break,
            c if c.is_whitespace() => {
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

fn owner(word: &str) -> Result<Owner, LineError> {
    let lower = word.to_lowercase();
    let plain = |text: &str| !text.is_empty() && !text.contains(['@', '/']);
    if let Some(name) = lower.strip_prefix('@') {
        return match name.split_once('/') {
            None if plain(name) => Ok(Owner::User(name.to_owned())),
            Some((organization, team)) if plain(organization) && plain(team) => {
                Ok(Owner::Team(name.to_owned()))
            }
            None | Some(_) => Err(LineError::Owner),
        };
    }
    match lower.split_once('@') {
        Some((user, host)) if plain(user) && plain(host) => Ok(Owner::Mail(lower)),
        None | Some(_) => Err(LineError::Owner),
    }
}

/// A pattern as a regular expression for whole paths.
fn expression(pattern: &str) -> Result<String, LineError> {
    if pattern.starts_with('!') {
        return Err(LineError::Negation);
    }
    if pattern.contains(['[', ']']) {
        return Err(LineError::CharacterRange);
    }
    if pattern.contains("***") {
        return Err(LineError::ThreeStars);
    }
    let directory = pattern.ends_with('/');
    let inner = pattern.strip_suffix('/').unwrap_or(pattern);
    // A slash at the beginning or in the middle binds the pattern to the root.
    let anchored = inner.contains('/');
    let inner = inner.strip_prefix('/').unwrap_or(inner);
    if inner.is_empty() {
        // `/` alone matches no file.
        return Ok(r"\A\z.".to_owned());
    }
    let mut out = String::from(r"(?s)\A");
    if !anchored {
        out.push_str("(?:.*/)?");
    }
    let segments: Vec<&str> = inner.split('/').collect();
    let last = segments.len().saturating_sub(1);
    for (index, segment) in segments.iter().enumerate() {
        match (*segment, index == last) {
            // Everything below, at any depth.
            ("**", true) => out.push_str(".+"),
            // No directory or any number of them.
            ("**", false) => out.push_str("(?:.*/)?"),
            (segment, end) => {
                push_segment(segment, &mut out);
                if !end {
                    out.push('/');
                }
            }
        }
    }
    // The owners of a directory own everything in it, except for `directory/*`.
    match segments.last() {
        _ if directory => out.push_str("/.+"),
        Some(&"*") if anchored => {}
        Some(&"**") => {}
        Some(_) | None => out.push_str("(?:/.+)?"),
    }
    out.push_str(r"\z");
    Ok(out)
}

fn push_segment(segment: &str, out: &mut String) {
    if segment == "*" {
        return out.push_str("[^/]+");
    }
    let mut characters = segment.chars();
    while let Some(c) = characters.next() {
        match c {
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '\\' => push_literal(characters.next().unwrap_or('\\'), out),
            c => push_literal(c, out),
        }
    }
}

fn push_literal(c: char, out: &mut String) {
    out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
}
