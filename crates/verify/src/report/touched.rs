//! Compares the touched paths that a report lists with the change.

use std::collections::BTreeSet;

use super::lines::without_marker;
use crate::change::Change;

/// How a list of touched files differs from the change; none if it agrees.
pub(crate) fn disagreement(
    value: &[String],
    changes: &[Change],
    report: Option<&str>,
) -> Option<String> {
    let known: BTreeSet<&str> = changes.iter().flat_map(Change::paths).chain(report).collect();
    let claimed: BTreeSet<String> = value.iter().flat_map(|line| paths(line, &known)).collect();
    let missing: Vec<&str> = changes
        .iter()
        .filter(|change| !change.paths().any(|path| claimed.contains(path) || Some(path) == report))
        .map(|change| change.path.as_str())
        .collect();
    let extra: Vec<&str> =
        claimed.iter().map(String::as_str).filter(|path| !known.contains(path)).collect();
    let mut differences = Vec::new();
    if !missing.is_empty() {
        differences.push(format!("it leaves out {}", shortened(&missing)));
    }
    if !extra.is_empty() {
        differences.push(format!("it names {}, which was not touched", shortened(&extra)));
    }
    (!differences.is_empty()).then(|| differences.join("; "))
}

fn shortened(paths: &[&str]) -> String {
    let shown: Vec<String> =
        paths.iter().take(10).map(|path| path.escape_debug().to_string()).collect();
    match paths.len() {
        0..=10 => shown.join(", "),
        count => format!("{} and {} more", shown.join(", "), count - 10),
    }
}

/// The paths of a line: entries separated by commas, each with an optional remark.
fn paths(line: &str, known: &BTreeSet<&str>) -> Vec<String> {
    match known.get(clean(line).as_str()) {
        Some(path) => vec![(*path).to_owned()],
        None => entries(line).iter().flat_map(|entry| paths_of_entry(entry, known)).collect(),
    }
}

/// Splits at commas and semicolons outside of brackets and code.
fn entries(line: &str) -> Vec<String> {
    let (mut entries, mut entry) = (Vec::new(), String::new());
    let (mut open, mut code) = (0_usize, false);
    for character in line.chars() {
        match character {
            '`' => code = !code,
            '(' | '[' => open += 1,
            ')' | ']' => open = open.saturating_sub(1),
            _ => {}
        }
        if matches!(character, ',' | ';') && open == 0 && !code {
            entries.push(std::mem::take(&mut entry));
        } else {
            entry.push(character);
        }
    }
    entries.push(entry);
    entries
}

fn paths_of_entry(entry: &str, known: &BTreeSet<&str>) -> Vec<String> {
    let entry = without_marker(entry.trim()).1;
    if known.contains(clean(entry).as_str()) {
        return vec![clean(entry)];
    }
    // A rename, or two paths in one entry.
    for between in [" -> ", " → ", " => ", " and ", " & "] {
        let parts: Vec<&str> = entry.split(between).map(str::trim).collect();
        let paths = parts.iter().filter(|part| recognised(part, known).is_some()).count();
        let words = parts.iter().all(|part| !part.contains(char::is_whitespace));
        if parts.len() > 1 && (paths > 1 || words) {
            return parts
                .into_iter()
                .filter_map(|part| recognised(part, known).or_else(|| unknown(part)))
                .collect();
        }
    }
    if let Some(path) = recognised(entry, known) {
        return vec![path];
    }
    unknown(entry).into_iter().collect()
}

fn recognised(entry: &str, known: &BTreeSet<&str>) -> Option<String> {
    candidates(entry).into_iter().find(|path| known.contains(path.as_str()))
}

/// The candidates for the path, the longest first: a path can have spaces.
fn candidates(entry: &str) -> Vec<String> {
    let mut found = vec![clean(entry)];
    found.extend(entry.split('`').nth(1).map(clean));
    // The text of a link.
    found.extend(entry.strip_prefix('[').and_then(|link| Some(clean(link.split_once(']')?.0))));
    for end in [" (", " [", " — ", " – ", " - ", ": ", " | ", " → ", " -> ", ":"] {
        found.extend(entry.split_once(end).map(|(path, _)| clean(path)));
    }
    let words: Vec<&str> = entry.split_whitespace().collect();
    found.extend(words.first().map(|word| clean(word)));
    // As in `git status`: a letter for the kind of change, then the path.
    found.extend(words.get(1).map(|word| clean(word)));
    found.extend(words.last().map(|word| clean(word)));
    found
}

/// The path of an entry that is not among the changes; none for a sentence.
fn unknown(entry: &str) -> Option<String> {
    let path = entry
        .split('`')
        .nth(1)
        .map(clean)
        .unwrap_or_else(|| clean(entry.split_whitespace().next().unwrap_or_default()));
    let single = clean(entry) == path;
    let looks_like_one = path.contains(['/', '.']);
    let nothing =
        ["none", "nothing", "no", "0", "files", "n/a", ""].contains(&path.to_lowercase().as_str());
    ((single || looks_like_one) && !nothing).then_some(path)
}

/// The path without the markup around it; an underscore can be part of the name.
fn clean(path: &str) -> String {
    let mark = |character: char| {
        character.is_whitespace() || matches!(character, '*' | '`' | '"' | '\'' | ',' | ';')
    };
    let path = path.trim_matches(mark).trim_end_matches(':').trim_matches(mark);
    path.strip_prefix("./").unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{added, changed, deleted, renamed};

    const REPORT: &str = ".claude/agents/ag-1/review.md";

    fn difference(value: &str) -> Option<String> {
        let changes = [
            changed("src/a.rs"),
            added("src/b c.rs"),
            deleted("Makefile"),
            renamed("old/d.rs", "new/d.rs"),
            added(REPORT),
        ];
        let value: Vec<String> = value.lines().map(ToOwned::to_owned).collect();
        disagreement(&value, &changes, Some(REPORT))
    }

    #[test]
    fn same_files_agree_in_every_format() {
        for value in [
            "src/a.rs, src/b c.rs, Makefile, new/d.rs",
            "`src/a.rs`, `src/b c.rs`, `Makefile`, `old/d.rs`",
            "- src/a.rs (changed, a bit)\n- src/b c.rs: new\n- Makefile — deleted\n- old/d.rs -> new/d.rs",
            "I changed these files:\nsrc/a.rs\n./src/b c.rs\nMakefile\nold/d.rs → new/d.rs",
            "M src/a.rs\n`src/b c.rs`\nD Makefile\nnew/d.rs | 12 ++--\n.claude/agents/ag-1/review.md",
            "**src/a.rs**; src/b c.rs; Makefile and new/d.rs",
            "[src/a.rs](src/a.rs), src/b c.rs, Makefile:3, new/d.rs",
            "src/a.rs - adds `Foo.bar` and x\nsrc/b c.rs\nMakefile\nold/d.rs\nnew/d.rs",
        ] {
            assert_eq!(difference(value), None, "{value}");
        }
        let unusual = [added("__init__.py"), added("app/(group)/[id].tsx"), added("a, b.txt")];
        for value in [
            "__init__.py, app/(group)/[id].tsx\na, b.txt",
            "`a, b.txt`, `__init__.py`; app/(group)/[id].tsx",
        ] {
            let value: Vec<String> = value.lines().map(ToOwned::to_owned).collect();
            assert_eq!(disagreement(&value, &unusual, None), None, "{value:?}");
        }
        assert_eq!(disagreement(&["none".to_owned()], &[], None), None);
        assert_eq!(disagreement(&["No files.".to_owned()], &[], None), None);
    }

    #[test]
    fn missing_and_invented_files_are_named() {
        let left_out = difference("src/a.rs, src/b c.rs, Makefile").unwrap();
        assert_eq!(left_out, "it leaves out new/d.rs");
        let invented =
            difference("src/a.rs, src/b c.rs, Makefile, new/d.rs, `src/z.rs`, Justfile").unwrap();
        assert_eq!(invented, "it names Justfile, src/z.rs, which was not touched");
        let all_differences =
            difference("src/a.rs, src/b c.rs, new/d.rs, Makefile and src/z.rs").unwrap();
        assert_eq!(all_differences, "it names src/z.rs, which was not touched");
        assert!(difference("none").unwrap().contains("leaves out src/a.rs, src/b c.rs"));
        assert!(disagreement(&["src/**".to_owned()], &[changed("src/a.rs")], None).is_some());
    }
}
