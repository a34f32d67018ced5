//! Python requirements, one on a line or one in a list entry.

use super::{Dependencies, ManifestError};

/// A requirements file: continued lines are joined; comments and order do not count.
pub(super) fn file(source: &str) -> Result<Dependencies, ManifestError> {
    let mut found = Dependencies::default();
    let joined = source.replace("\\\r\n", " ").replace("\\\n", " ");
    for line in joined.lines() {
        let line = without_comment(line);
        if line.starts_with('-') {
            found.add(single_spaced(&line), "");
        } else if !line.is_empty() {
            add(&line, "", &mut found);
        }
    }
    Ok(found)
}

/// A comment starts at the beginning of a line or after a space.
fn without_comment(line: &str) -> String {
    let words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
    words.collect::<Vec<_>>().join(" ")
}

/// Adds a requirement under its normalised name.
pub(super) fn add(requirement: &str, prefix: &str, found: &mut Dependencies) {
    let requirement = requirement.trim();
    let is_name =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    let end = requirement.find(|character| !is_name(character)).unwrap_or(requirement.len());
    let (name, rest) = requirement.split_at_checked(end).unwrap_or((requirement, ""));
    // Anything that is not a name is a path or a URL, and is added as it is.
    let plain = !name.is_empty() && !rest.starts_with(['/', ':', '\\']) && !name.starts_with('.');
    if !plain {
        found.add(format!("{prefix}{}", single_spaced(requirement)), "");
        return;
    }
    let name = name.to_ascii_lowercase().replace(['_', '.'], "-");
    found.add(format!("{prefix}{name}"), normalized_version(rest));
}

/// The version without spaces, and the condition with single spaces.
fn normalized_version(rest: &str) -> String {
    let (version, condition) = match rest.split_once(';') {
        Some((version, condition)) => (version, format!(";{}", single_spaced(condition))),
        None => (rest, String::new()),
    };
    // After a URL or an option a space is significant.
    let version = if version.contains(['@', '/']) || version.contains(" --") {
        single_spaced(version)
    } else {
        version.split_whitespace().collect()
    };
    let mut ranges: Vec<&str> = version.split(',').collect();
    if !version.contains(['[', '@', ' ']) {
        ranges.sort_unstable();
    }
    format!("{}{condition}", ranges.join(","))
}

fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
