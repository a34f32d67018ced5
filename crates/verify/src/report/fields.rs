//! The fields of a report: `field: value`, a row of a table, or a section under the field's name.

use super::lines::{Kind, Line, lines, without_emphasis};

/// The maximum length of the name of a field, with its markup.
const MAX_NAME_BYTES: usize = 600;

/// A field of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// The normalised name.
    pub(crate) name: String,
    /// The lines of its value.
    pub(crate) value: Vec<String>,
}

impl Field {
    /// Whether the value is more than a placeholder.
    pub(crate) fn has_value(&self) -> bool {
        self.value.iter().any(|line| is_value(line))
    }

    pub(crate) fn text(&self) -> String {
        self.value.join("\n")
    }
}

/// The normalised name of a field: lowercase words with hyphens.
pub(crate) fn normalized(name: &str) -> String {
    let name = without_emphasis(without_emphasis(name).trim_end_matches(':')).to_lowercase();
    let words = name
        .split(|character: char| character.is_whitespace() || character == '_' || character == '-');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// Whether a line is more than a placeholder; "not run", "failed" and "none" are values.
fn is_value(line: &str) -> bool {
    let text = without_emphasis(line)
        .trim_matches(['.', '…', '-', '–', '—', '?', '(', ')', '[', ']', '|', ' ']);
    let text = text.to_lowercase();
    let template = text.starts_with('<') && text.ends_with('>');
    !text.is_empty()
        && !template
        && !["n/a", "na", "todo", "tbd", "fixme", "xxx", "value", "tba"].contains(&text.as_str())
}

/// Finds every field whose normalised name is known.
pub(crate) fn fields(report: &str, is_field: &dyn Fn(&str) -> bool) -> Vec<Field> {
    let lines = lines(report);
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let rest = lines.get(index + 1..).unwrap_or_default();
        let Some((name, inline)) = named(line, is_field) else { continue };
        let value = if inline.is_empty() {
            below(line, rest, is_field)
        } else {
            [inline].into_iter().chain(continuation(line, rest, is_field)).collect()
        };
        found.push(Field { name, value });
    }
    found
}

/// The name of the field that starts in a line, and its value in the same line.
fn named(line: &Line, is_field: &dyn Fn(&str) -> bool) -> Option<(String, String)> {
    match &line.kind {
        Kind::Blank => None,
        Kind::Row(cells) => {
            let (name, rest) = cells.split_first()?;
            let name = Some(normalized(name)).filter(|name| is_field(name))?;
            Some((name, rest.join(" | ")))
        }
        Kind::Heading(_) => split(&line.text, is_field)
            .or_else(|| name_only(super::lines::without_marker(&line.text).1, is_field)),
        Kind::Text => split(&line.text, is_field).or_else(|| {
            let bold = line.text.starts_with("**") && line.text.trim_end().ends_with("**");
            bold.then(|| name_only(&line.text, is_field)).flatten()
        }),
    }
}

/// A line that has only the name of a field.
fn name_only(text: &str, is_field: &dyn Fn(&str) -> bool) -> Option<(String, String)> {
    Some(normalized(text)).filter(|name| is_field(name)).map(|name| (name, String::new()))
}

/// `name: value`, where the whole text before the colon is the name.
fn split(text: &str, is_field: &dyn Fn(&str) -> bool) -> Option<(String, String)> {
    let colons = text.match_indices(':').take_while(|(index, _)| *index < MAX_NAME_BYTES);
    colons.into_iter().find_map(|(index, _)| {
        let (name, value) = (text.get(..index)?, text.get(index + 1..)?);
        let name = Some(normalized(name)).filter(|name| is_field(name))?;
        // The closing markup of the name.
        let value = value.trim_start_matches(['*', '_']).trim();
        Some((name, value.to_owned()))
    })
}

/// The continuation lines of a value, up to a blank line.
fn continuation(field: &Line, rest: &[Line], is_field: &dyn Fn(&str) -> bool) -> Vec<String> {
    let continues = |line: &&Line| {
        line.kind == Kind::Text
            && (!line.listed || line.indent > field.indent)
            && line.fenced == field.fenced
            && (line.indent > field.indent || !looks_like_a_field(line))
            && named(line, is_field).is_none()
    };
    let text_field = matches!(field.kind, Kind::Text);
    let rest = if text_field { rest } else { &[] };
    rest.iter().take_while(continues).map(|line| line.text.clone()).collect()
}

fn looks_like_a_field(line: &Line) -> bool {
    let name = line.text.split(':').next().unwrap_or_default();
    line.text.contains(": ") && !without_emphasis(name).contains(char::is_whitespace)
}

/// The value below a field without a value in its own line.
fn below(field: &Line, rest: &[Line], is_field: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut value: Vec<String> = Vec::new();
    let mut blank = false;
    for line in rest {
        if named(line, is_field).is_some() {
            break;
        }
        let belongs = match (&field.kind, &line.kind) {
            (_, Kind::Blank) => {
                blank = true;
                continue;
            }
            (Kind::Heading(level), Kind::Heading(other)) => other > level,
            (Kind::Heading(_), Kind::Row(_) | Kind::Text) => true,
            (Kind::Text | Kind::Row(_) | Kind::Blank, Kind::Heading(_)) => false,
            (Kind::Text | Kind::Row(_) | Kind::Blank, Kind::Row(_)) => !field.listed,
            (Kind::Text | Kind::Row(_) | Kind::Blank, Kind::Text) => {
                let deeper = line.indent > field.indent;
                let entry = deeper || line.fenced || (line.listed && !field.listed);
                // A paragraph after a blank line does not belong to the field.
                entry || (!blank && !field.listed && !looks_like_a_field(line))
            }
        };
        if !belongs {
            break;
        }
        let text = match &line.kind {
            Kind::Row(cells) => cells.join(" | "),
            Kind::Blank | Kind::Heading(_) | Kind::Text => line.text.clone(),
        };
        blank = false;
        value.push(text);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(report: &str) -> Vec<(String, String)> {
        let known = ["files-touched", "cargo-test", "summary", "quality::tests-green"];
        let found = fields(report, &|name| known.contains(&name));
        found.into_iter().map(|field| (field.name.clone(), field.text())).collect()
    }

    fn value(report: &str) -> String {
        match values(report).as_slice() {
            [(_, value)] => value.clone(),
            other => panic!("{other:?} in {report}"),
        }
    }

    #[test]
    fn field_is_found_in_every_format() {
        for report in [
            "cargo-test: 3 passed",
            "- cargo-test: 3 passed",
            "* **cargo-test**: 3 passed",
            "**cargo-test:** 3 passed",
            "1. `cargo-test`: 3 passed",
            "| field | value |\n|---|---|\n| cargo-test | 3 passed |",
            "## cargo-test\n\n3 passed\n\n## Else\nx",
            "### Cargo test:\n3 passed",
            "## cargo-test: 3 passed",
            "cargo-test:\n  3 passed",
            "cargo-test:\n\n- 3 passed\n\nAnd else.",
            "**cargo-test**\n3 passed",
            "```\ncargo-test: 3 passed\n```",
            "> cargo-test: 3 passed",
            "Cargo_Test: 3 passed",
            "cargo-test\n----------\n3 passed",
            "intro: x\n- cargo-test:\n  - 3 passed\n- other: y",
        ] {
            assert_eq!(value(report), "3 passed", "{report}");
        }
        assert_eq!(value("quality::tests-green: pass"), "pass");
        assert_eq!(value("summary: one\n  two\nthree\n\nfour"), "one\ntwo\nthree");
    }

    #[test]
    fn fault_6_mention_is_not_a_field() {
        for report in [
            "I did not run cargo-test",
            "I did not run cargo-test: it takes long",
            "Not done: cargo-test",
            "- see cargo-test for more",
            "<!-- cargo-test: pass -->",
            "cargo-tests: 3",
            "## About cargo-test\nx",
            "| x | cargo-test |",
        ] {
            assert_eq!(values(report), [], "{report}");
        }
    }

    #[test]
    fn placeholder_is_not_a_value() {
        for empty in [
            "", "-", "—", "n/a", "N/A", "TODO", "**TBD**", "…", "...", "?", "`-`", "<value>", "| |",
        ] {
            let field =
                fields(&format!("summary: {empty}\n\n## Next\n"), &|name| name == "summary");
            assert!(field.iter().all(|field| !field.has_value()), "{empty}");
        }
        for honest in ["none", "not run", "failed", "0", "no", "+1 -1", "✓", "✅"] {
            let field = fields(&format!("summary: {honest}"), &|name| name == "summary");
            assert!(field.iter().any(Field::has_value), "{honest}");
        }
    }

    #[test]
    fn field_does_not_take_the_value_of_the_next_one() {
        let report = "- cargo-test:\n- notes: x\n- summary: done";
        assert_eq!(
            values(report),
            [("cargo-test".into(), String::new()), ("summary".into(), "done".into())]
        );
        let report = "cargo-test:\nsummary: done\nother: x";
        assert_eq!(
            values(report),
            [("cargo-test".into(), String::new()), ("summary".into(), "done".into())]
        );
        let report = "## files-touched\n- a\n- b\n\ncargo-test: ok\n### deep\n## summary\ndone\n### more\nyes";
        assert_eq!(
            values(report),
            [
                ("files-touched".into(), "a\nb".into()),
                ("cargo-test".into(), "ok".into()),
                ("summary".into(), "done\nmore\nyes".into())
            ]
        );
    }
}
