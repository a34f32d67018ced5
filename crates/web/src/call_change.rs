//! The change that a tool call would make, as lines: what it replaces, and what it writes.

use bailiwick_fleet::ports::LocalToolCall;
use serde_json::Value;

use crate::highlight::{Sides, Span, language};
use crate::patch::LineKind;
use crate::text::{MAX_SHOWN, visible};

/// A change with more lines is shown as text.
const MAX_LINES: usize = 1_000;
const EDITED: &[&str] = &["old_string", "new_string"];
const WRITTEN: &[&str] = &["content"];

/// The lines of a change.
pub(crate) struct CallChange {
    /// The fields of the input that the lines show.
    pub(crate) fields: &'static [&'static str],
    pub(crate) lines: Vec<ChangedLine>,
}

pub(crate) struct ChangedLine {
    pub(crate) kind: LineKind,
    pub(crate) spans: Vec<Span>,
}

impl CallChange {
    /// None if the call changes no text, or more of it than a card shows.
    pub(crate) fn of(call: &LocalToolCall) -> Option<Self> {
        let field = |name: &str| call.input.get(name).and_then(Value::as_str);
        let (fields, lines) = change(&call.tool, field)?;
        let count: usize = lines.iter().map(|(_, text)| text.chars().count()).sum();
        if lines.is_empty() || lines.len() > MAX_LINES || count > MAX_SHOWN {
            return None;
        }
        let mut sides = Sides::new(field("file_path").and_then(language));
        let view = |(kind, text): (LineKind, &str)| ChangedLine {
            kind,
            spans: sides.spans(kind, &visible(text)),
        };
        Some(Self { fields, lines: lines.into_iter().map(view).collect() })
    }
}

type Lines<'a> = Vec<(LineKind, &'a str)>;

/// The lines of a change, and the fields that they are from.
fn change<'a>(
    tool: &str,
    field: impl Fn(&str) -> Option<&'a str>,
) -> Option<(&'static [&'static str], Lines<'a>)> {
    if let (Some(old), Some(new)) = (field("old_string"), field("new_string")) {
        return Some((EDITED, replaced(old, new)));
    }
    let content = field("content").filter(|_| tool == "Write")?;
    Some((WRITTEN, written(content)))
}

/// Every piece, also an empty one at the end: nothing that differs is left out.
fn pieces(text: &str) -> Vec<&str> {
    match text {
        "" => Vec::new(),
        text => text.split('\n').collect(),
    }
}

/// The lines that differ, between those that both texts begin and end with.
fn replaced<'a>(old: &'a str, new: &'a str) -> Lines<'a> {
    let (old, new) = (pieces(old), pieces(new));
    let start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - start;
    let ends = old.iter().rev().zip(new.iter().rev()).take(rest);
    let end = ends.take_while(|(old, new)| old == new).count();
    let kept = |text: &&'a str| (LineKind::Context, *text);
    let removed = old.iter().take(old.len() - end).skip(start);
    let added = new.iter().take(new.len() - end).skip(start);
    let mut lines: Lines<'a> = old.iter().take(start).map(kept).collect();
    lines.extend(removed.map(|text| (LineKind::Removed, *text)));
    lines.extend(added.map(|text| (LineKind::Added, *text)));
    lines.extend(old.iter().skip(old.len() - end).map(kept));
    lines
}

/// The lines of a file that is written.
fn written(content: &str) -> Lines<'_> {
    let whole = content.strip_suffix('\n');
    let mut lines: Lines<'_> = match (whole, content) {
        (None, "") => Vec::new(),
        (whole, content) => {
            whole.unwrap_or(content).split('\n').map(|text| (LineKind::Added, text)).collect()
        }
    };
    if whole.is_none() && !lines.is_empty() {
        lines.push((LineKind::NoNewline, "No newline at the end of the file"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn diff_lines(tool: &str, input: Value) -> Option<Vec<String>> {
        let change = CallChange::of(&LocalToolCall { tool: tool.to_owned(), input })?;
        let line = |line: &ChangedLine| {
            let text: String = line.spans.iter().map(|span| span.text.as_str()).collect();
            format!("{}{text}", line.kind.sign())
        };
        Some(change.lines.iter().map(line).collect())
    }

    fn edit(old: &str, new: &str) -> Vec<String> {
        let input = json!({ "file_path": "a.rs", "old_string": old, "new_string": new });
        diff_lines("Edit", input).unwrap()
    }

    #[test]
    fn edit_shows_replaced_lines_between_unchanged_lines() {
        assert_eq!(edit("a\nb\nc", "a\nx\ny\nc"), [" a", "−b", "+x", "+y", " c"]);
        assert_eq!(edit("a", "a\nb"), [" a", "+b"]);
        assert_eq!(edit("a\nb", ""), ["−a", "−b"]);
        assert_eq!(edit("a\na", "a\na\na"), [" a", " a", "+a"]);
    }

    #[test]
    fn every_difference_is_shown() {
        assert_eq!(edit("a", "a\n"), [" a", "+"]);
        assert_eq!(edit("a\r\nb", "a\nb"), ["−a⟨U+000D⟩", "+a", " b"]);
        assert_eq!(edit("a", "a\u{202e}"), ["−a", "+a⟨U+202E⟩"]);
        assert_eq!(edit("same", "same"), [" same"]);
    }

    #[test]
    fn written_file_is_shown_as_additions() {
        let write = |content: &str| diff_lines("Write", json!({ "content": content }));
        assert_eq!(write("a\n\nb\n").unwrap(), ["+a", "+", "+b"]);
        assert_eq!(write("a").unwrap(), ["+a", " No newline at the end of the file"]);
        assert_eq!(write("\n").unwrap(), ["+"]);
    }

    #[test]
    fn other_and_too_long_calls_have_no_diff() {
        assert_eq!(diff_lines("Bash", json!({ "command": "ls" })), None);
        assert_eq!(diff_lines("Send", json!({ "content": "hello" })), None);
        assert_eq!(diff_lines("Edit", json!({ "old_string": "a", "new_string": 1 })), None);
        assert_eq!(diff_lines("Edit", json!({ "old_string": "", "new_string": "" })), None);
        assert_eq!(diff_lines("Write", json!({ "content": "" })), None);
        assert_eq!(diff_lines("Write", json!({ "content": "x".repeat(MAX_SHOWN) })), None);
        assert_eq!(diff_lines("Write", json!({ "content": "\n".repeat(MAX_LINES + 1) })), None);
        assert!(diff_lines("Write", json!({ "content": "\n".repeat(MAX_LINES) })).is_some());
    }
}
