//! Mentions in a text: whole words, outside of code, quotations and hidden comments.

/// Whether a text mentions a name such as `@bailiwick`.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    let name = name.trim().to_lowercase();
    if name.is_empty() {
        return false;
    }
    let spoken = spoken(text).to_lowercase();
    let mut from = 0;
    while let Some(found) = spoken.get(from..).and_then(|rest| rest.find(&name)) {
        let start = from + found;
        let end = start + name.len();
        let before = spoken.get(..start).and_then(|text| text.chars().next_back());
        let mut after = spoken.get(end..).unwrap_or_default().chars();
        if !before.is_some_and(joins_before) && !joins_after(after.next(), after.next()) {
            return true;
        }
        from = end;
    }
    false
}

fn joins_before(next: char) -> bool {
    next.is_alphanumeric() || matches!(next, '_' | '-' | '.' | '/' | '@' | '`')
}

/// `@bailiwick-two`, `@bailiwick/team` and `@bailiwick.dev` are others; `@bailiwick.` ends a sentence.
fn joins_after(next: Option<char>, then: Option<char>) -> bool {
    match next {
        Some(next) if next.is_alphanumeric() || matches!(next, '_' | '-' | '/' | '@') => true,
        Some('.') => then.is_some_and(char::is_alphanumeric),
        Some(_) | None => false,
    }
}

/// The part of a Markdown text that its author addresses to the reader: no quotes, code or comments.
fn spoken(text: &str) -> String {
    let text = without_comments(text);
    let mut out = String::new();
    let mut fence: Option<(char, usize)> = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indented = line.len() - trimmed.len() >= 4 || line.starts_with('\t');
        let mark = trimmed.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let run = mark.map_or(0, |mark| trimmed.chars().take_while(|next| *next == mark).count());
        match (fence, mark) {
            (Some((open, length)), Some(mark)) if mark == open && run >= length => fence = None,
            (Some(_), _) => {}
            (None, Some(mark)) if run >= 3 => fence = Some((mark, run)),
            (None, _) if trimmed.starts_with('>') || indented => out.push('\n'),
            (None, _) => {
                out.push_str(&without_code(line));
                out.push('\n');
            }
        }
    }
    out
}

/// A comment that is not closed hides everything after it.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        out.push_str(before);
        out.push(' ');
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

/// A line without its code in backticks.
fn without_code(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let (before, from) = rest.split_at_checked(start).unwrap_or((rest, ""));
        out.push_str(before);
        let run = from.chars().take_while(|next| *next == '`').count();
        let (ticks, inside) = from.split_at_checked(run).unwrap_or((from, ""));
        match inside.split_once(ticks) {
            Some((_, after)) => {
                out.push('`');
                rest = after;
            }
            None => {
                out.push_str(ticks);
                rest = inside;
            }
        }
    }
    out.push_str(rest);
    out
}
