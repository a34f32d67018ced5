//! Requirements of Python, one to a line or to an entry of a list.

use super::Dependencies;

/// A requirements file: continued lines are one, comments and order are nothing.
pub(super) fn file(source: &str) -> Result<Dependencies, String> {
    let mut found = Dependencies::default();
    let joined = source.replace("\\\r\n", " ").replace("\\\n", " ");
    for line in joined.lines() {
        let line = without_comment(line);
        if line.starts_with('-') {
            found.add(one_blank(&line), "");
        } else if !line.is_empty() {
            add(&line, "", &mut found);
        }
    }
    Ok(found)
}

/// A comment begins a line or stands behind a blank.
fn without_comment(line: &str) -> String {
    let words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
    words.collect::<Vec<_>>().join(" ")
}

/// Adds a requirement by its name, in one spelling.
pub(super) fn add(requirement: &str, prefix: &str, found: &mut Dependencies) {
    let requirement = requirement.trim();
    let is_name = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.');
    let end = requirement.find(|sign| !is_name(sign)).unwrap_or(requirement.len());
    let (name, rest) = requirement.split_at_checked(end).unwrap_or((requirement, ""));
    // What is no name is a path or an address, and stands for itself.
    let plain = !name.is_empty() && !rest.starts_with(['/', ':', '\\']) && !name.starts_with('.');
    if !plain {
        found.add(format!("{prefix}{}", one_blank(requirement)), "");
        return;
    }
    let name = name.to_ascii_lowercase().replace(['_', '.'], "-");
    found.add(format!("{prefix}{name}"), spelled(rest));
}

/// Without blanks up to the condition, and with single ones in it.
fn spelled(rest: &str) -> String {
    let (version, condition) = match rest.split_once(';') {
        Some((version, condition)) => (version, format!(";{}", one_blank(condition))),
        None => (rest, String::new()),
    };
    // Behind an address or an option a blank has a meaning.
    let version = if version.contains(['@', '/']) || version.contains(" --") {
        one_blank(version)
    } else {
        version.split_whitespace().collect()
    };
    let mut ranges: Vec<&str> = version.split(',').collect();
    if !version.contains(['[', '@', ' ']) {
        ranges.sort_unstable();
    }
    format!("{}{condition}", ranges.join(","))
}

fn one_blank(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
