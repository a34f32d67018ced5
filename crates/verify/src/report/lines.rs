//! Splits a report into lines with their Markdown structure.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) indent: usize,
    /// Whether it starts a list item.
    pub(crate) listed: bool,
    /// Whether it is in a fenced block.
    pub(crate) fenced: bool,
    pub(crate) kind: Kind,
    /// The text without the markup of headings, lists and quotes.
    pub(crate) text: String,
}

/// The kind of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Blank,
    /// A heading of this level.
    Heading(usize),
    /// A row of a table.
    Row(Vec<String>),
    Text,
}

/// Splits a report into lines; comments are removed.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    let mut fence: Option<&str> = None;
    let text = without_comments(text);
    for raw in text.lines() {
        let trimmed = raw.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        if mark.is_some_and(|mark| fence.is_none_or(|open| open == mark)) {
            fence = if fence.is_some() { None } else { mark };
            found.push(blank(raw, true));
            continue;
        }
        if is_underline(trimmed) && fence.is_none() {
            let level = if trimmed.starts_with('=') { 1 } else { 2 };
            let above = found.last_mut().filter(|above| above.kind == Kind::Text && !above.listed);
            if let Some(above) = above {
                above.kind = Kind::Heading(level);
            }
            found.push(blank(raw, false));
            continue;
        }
        found.push(read(raw, fence.is_some()));
    }
    found
}

fn read(raw: &str, fenced: bool) -> Line {
    let indent = raw.len() - raw.trim_start().len();
    let text = raw.trim().trim_start_matches(['>', ' ', '\t']);
    let hashes = text.chars().take_while(|character| *character == '#').count();
    let after = text.trim_start_matches('#');
    if !fenced && (1..=6).contains(&hashes) && (after.is_empty() || after.starts_with([' ', '\t']))
    {
        let text = after.trim().trim_end_matches('#').trim().to_owned();
        return Line { indent, listed: false, fenced, kind: Kind::Heading(hashes), text };
    }
    if text.starts_with('|') {
        let cells = text.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        let cells: Vec<String> = cells.collect();
        let rule = cells
            .iter()
            .all(|cell| cell.chars().all(|character| matches!(character, '-' | ':' | ' ')));
        let kind = if rule { Kind::Blank } else { Kind::Row(cells) };
        return Line { indent, listed: false, fenced, kind, text: text.to_owned() };
    }
    let (listed, text) = without_marker(text);
    let kind = if text.is_empty() && !listed { Kind::Blank } else { Kind::Text };
    Line { indent, listed, fenced, kind, text: text.to_owned() }
}

fn blank(raw: &str, fenced: bool) -> Line {
    let indent = raw.len() - raw.trim_start().len();
    Line { indent, listed: false, fenced, kind: Kind::Blank, text: String::new() }
}

fn is_underline(text: &str) -> bool {
    let all = |mark: char| text.len() >= 3 && text.chars().all(|character| character == mark);
    all('=') || all('-')
}

/// The text without list marker and checkbox, and whether it has a list marker.
pub(crate) fn without_marker(text: &str) -> (bool, &str) {
    let digits = text.trim_start_matches(|character: char| character.is_ascii_digit());
    let numbered = (digits.len() < text.len())
        .then(|| digits.strip_prefix(". ").or_else(|| digits.strip_prefix(") ")))
        .flatten();
    let bulleted = ["- ", "* ", "+ ", "• ", "– "].iter().find_map(|mark| text.strip_prefix(mark));
    let Some(rest) = numbered.or(bulleted) else {
        return (
            matches!(text, "-" | "*" | "+"),
            if text.len() == 1 { text.trim_matches(['*', '+']) } else { text },
        );
    };
    let rest = rest.trim_start();
    let ticked = ["[ ] ", "[x] ", "[X] "].iter().find_map(|tick| rest.strip_prefix(tick));
    (true, ticked.unwrap_or(rest).trim())
}

/// Removes comments but keeps their line breaks.
fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut output = String::new();
    while let Some((before, comment)) = rest.split_once("<!--") {
        let (comment, after) = comment.split_once("-->").unwrap_or((comment, ""));
        output.push_str(before);
        output.extend(comment.chars().filter(|character| *character == '\n'));
        rest = after;
    }
    output.push_str(rest);
    output
}

/// The text without the markup of emphasis and code around it.
pub(crate) fn without_emphasis(text: &str) -> &str {
    text.trim_matches(|character: char| {
        character.is_whitespace() || matches!(character, '*' | '_' | '`' | '~')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_removed_and_the_kind_of_a_line_is_kept() {
        let text = "# One #\n\nTwo\n---\n- [x] a\n  12) b\n> c\n| d | e |\n|---|:-:|\n```\n# f\n```\n#g\n<!-- h\nh -->i";
        let read: Vec<(Kind, bool, String)> =
            lines(text).into_iter().map(|line| (line.kind, line.listed, line.text)).collect();
        let row = Kind::Row(vec!["d".into(), "e".into()]);
        let expected = [
            (Kind::Heading(1), false, "One"),
            (Kind::Blank, false, ""),
            (Kind::Heading(2), false, "Two"),
            (Kind::Blank, false, ""),
            (Kind::Text, true, "a"),
            (Kind::Text, true, "b"),
            (Kind::Text, false, "c"),
            (row, false, "| d | e |"),
            (Kind::Blank, false, "|---|:-:|"),
            (Kind::Blank, false, ""),
            (Kind::Text, false, "# f"),
            (Kind::Blank, false, ""),
            (Kind::Text, false, "#g"),
            (Kind::Blank, false, ""),
            (Kind::Text, false, "i"),
        ];
        let expected = expected.map(|(kind, listed, text)| (kind, listed, text.to_owned()));
        assert_eq!(read, expected);
    }
}
