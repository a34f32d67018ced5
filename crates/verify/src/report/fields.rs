//! The fields of a report: `field: value`, a row of a table, or a section under the field's name.

use super::lines::{Kind, Line, bare, lines};

/// No name of a field is longer, in bytes, with its marks.
const LONGEST: usize = 600;

/// A field that was found, with its value line by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name, in one spelling.
    pub(crate) name: String,
    /// What it says.
    pub(crate) value: Vec<String>,
}

impl Field {
    /// Whether it says anything.
    pub(crate) fn has_value(&self) -> bool {
        self.value.iter().any(|line| is_value(line))
    }

    /// All that it says.
    pub(crate) fn text(&self) -> String {
        self.value.join("\n")
    }
}

/// One spelling for the names of fields: small letters, with hyphens.
pub(crate) fn spelled(name: &str) -> String {
    let name = bare(bare(name).trim_end_matches(':')).to_lowercase();
    let words = name.split(|sign: char| sign.is_whitespace() || sign == '_' || sign == '-');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// A text that is only a place for one is no value; "not run", "failed" and "none" are honest ones.
fn is_value(line: &str) -> bool {
    let text =
        bare(line).trim_matches(['.', '…', '-', '–', '—', '?', '(', ')', '[', ']', '|', ' ']);
    let text = text.to_lowercase();
    let template = text.starts_with('<') && text.ends_with('>');
    !text.is_empty()
        && !template
        && !["n/a", "na", "todo", "tbd", "fixme", "xxx", "value", "tba"].contains(&text.as_str())
}

/// Finds every field whose name, in one spelling, is asked for.
pub(crate) fn fields(report: &str, is_field: &dyn Fn(&str) -> bool) -> Vec<Field> {
    let lines = lines(report);
    let mut found = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let rest = lines.get(place + 1..).unwrap_or_default();
        let Some((name, inline)) = named(line, is_field) else { continue };
        let value = if inline.is_empty() {
            below(line, rest, is_field)
        } else {
            [inline].into_iter().chain(wrapped(line, rest, is_field)).collect()
        };
        found.push(Field { name, value });
    }
    found
}

/// The field that a line names, and what stands behind it in the same line.
fn named(line: &Line, is_field: &dyn Fn(&str) -> bool) -> Option<(String, String)> {
    match &line.kind {
        Kind::Blank => None,
        Kind::Row(cells) => {
            let (name, rest) = cells.split_first()?;
            let name = Some(spelled(name)).filter(|name| is_field(name))?;
            Some((name, rest.join(" | ")))
        }
        Kind::Heading(_) => split(&line.text, is_field)
            .or_else(|| whole(super::lines::without_marker(&line.text).1, is_field)),
        Kind::Text => split(&line.text, is_field).or_else(|| {
            let bold = line.text.starts_with("**") && line.text.trim_end().ends_with("**");
            bold.then(|| whole(&line.text, is_field)).flatten()
        }),
    }
}

/// A line that is a name of a field and nothing else.
fn whole(text: &str, is_field: &dyn Fn(&str) -> bool) -> Option<(String, String)> {
    Some(spelled(text)).filter(|name| is_field(name)).map(|name| (name, String::new()))
}

/// `name: value`, where all that stands in front of a colon is the name.
fn split(text: &str, is_field: &dyn Fn(&str) -> bool) -> Option<(String, String)> {
    let colons = text.match_indices(':').take_while(|(place, _)| *place < LONGEST);
    colons.into_iter().find_map(|(place, _)| {
        let (name, value) = (text.get(..place)?, text.get(place + 1..)?);
        let name = Some(spelled(name)).filter(|name| is_field(name))?;
        // The end of an emphasis that the name began.
        let value = value.trim_start_matches(['*', '_']).trim();
        Some((name, value.to_owned()))
    })
}

/// The lines that a value goes on in, up to a blank one.
fn wrapped(field: &Line, rest: &[Line], is_field: &dyn Fn(&str) -> bool) -> Vec<String> {
    let goes_on = |line: &&Line| {
        line.kind == Kind::Text
            && (!line.listed || line.indent > field.indent)
            && line.fenced == field.fenced
            && (line.indent > field.indent || !looks_like_a_field(line))
            && named(line, is_field).is_none()
    };
    let text_field = matches!(field.kind, Kind::Text);
    let rest = if text_field { rest } else { &[] };
    rest.iter().take_while(goes_on).map(|line| line.text.clone()).collect()
}

fn looks_like_a_field(line: &Line) -> bool {
    let name = line.text.split(':').next().unwrap_or_default();
    line.text.contains(": ") && !bare(name).contains(char::is_whitespace)
}

/// What stands below a field that has nothing beside it.
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
                // Behind a blank line a paragraph is about something else.
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
    fn a_field_is_found_however_it_is_dressed() {
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
    fn fault_6_a_mention_is_no_field() {
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
    fn a_place_for_a_value_is_none() {
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
    fn one_field_does_not_take_the_value_of_the_next() {
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
