//! Tables that fit the terminal. Where there is none, every cell is shown whole.

use std::io;

use textwrap::WordSeparator;
use textwrap::core::{Word, display_width};

use super::{BOLD, line, shortened, shortened_middle, styled, width};

/// The gap between two columns.
const GAP: usize = 2;
/// The minimum width of a flexible column.
const MIN_FLEXIBLE: usize = 10;

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    title: &'static str,
    fit: Fit,
    /// Whether it is left out where the terminal is too narrow for all of them.
    optional: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Never cut: people copy it, or it is short.
    Fixed,
    /// The same, aligned to the right.
    Number,
    /// Cut at its end.
    Text,
    /// Cut in its middle: of a path both ends matter.
    Path,
    /// Never cut: folded at spaces and slashes.
    Folded,
}

impl Column {
    /// A column that is never cut, such as one of ids.
    pub const fn fixed(title: &'static str) -> Self {
        Self { title, fit: Fit::Fixed, optional: false }
    }

    /// A column of numbers, aligned at its right side and never cut.
    pub const fn number(title: &'static str) -> Self {
        Self { title, fit: Fit::Number, optional: false }
    }

    /// A column of text that is cut where the terminal is too narrow.
    pub const fn text(title: &'static str) -> Self {
        Self { title, fit: Fit::Text, optional: false }
    }

    /// A column of paths that are cut in their middle where the terminal is too narrow.
    pub const fn path(title: &'static str) -> Self {
        Self { title, fit: Fit::Path, optional: false }
    }

    /// A column of text or paths that are folded into more lines where the terminal is too narrow.
    pub const fn folded(title: &'static str) -> Self {
        Self { title, fit: Fit::Folded, optional: false }
    }

    /// The same column, left out if the terminal is too narrow.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// The narrowest it can be, with cells that need so much.
    fn least(self, needed: usize) -> usize {
        match self.fit {
            Fit::Fixed | Fit::Number => needed,
            Fit::Text | Fit::Path | Fit::Folded => {
                needed.min(display_width(self.title).max(MIN_FLEXIBLE))
            }
        }
    }

    /// The lines of a cell.
    fn cell(self, text: &str, width: usize) -> Vec<String> {
        match self.fit {
            Fit::Fixed | Fit::Number => vec![text.to_owned()],
            Fit::Text => vec![shortened(text, width)],
            Fit::Path => vec![shortened_middle(text, width)],
            Fit::Folded => folded(text, width),
        }
    }

    /// A line of a cell, as wide as its column.
    fn padded(self, text: &str, width: usize) -> String {
        let padding = " ".repeat(width.saturating_sub(display_width(text)));
        match self.fit {
            Fit::Number => padding + text,
            Fit::Fixed | Fit::Text | Fit::Path | Fit::Folded => text.to_owned() + &padding,
        }
    }
}

/// A text in lines of at most `width` columns, wrapped after spaces and slashes.
fn folded(text: &str, width: usize) -> Vec<String> {
    let options = textwrap::Options::new(width)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
        .word_separator(WordSeparator::Custom(words))
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).into_iter().map(Into::into).collect()
}

fn words(text: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find([' ', '/']).map_or(rest.len(), |end| end + 1);
        // All the spaces behind a word belong to it.
        let behind = rest.get(end..).unwrap_or_default();
        let end = end + (behind.len() - behind.trim_start_matches(' ').len());
        let (piece, next) = rest.split_at_checked(end).unwrap_or((rest, ""));
        pieces.push(Word::from(piece));
        rest = next;
    }
    Box::new(pieces.into_iter())
}

/// Prints rows below their titles, at most as wide as the terminal.
pub fn table(columns: &[Column], rows: &[Vec<String>]) {
    table_with(columns, rows, |_| {});
}

/// The same; `below` prints what follows a row, by its number.
pub fn table_with(columns: &[Column], rows: &[Vec<String>], below: impl Fn(usize)) {
    let lines = table_lines(columns, rows, terminal_width());
    let (titles, rows) =
        lines.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
    titles.into_iter().flatten().for_each(|titles| line(styled(BOLD, titles)));
    for (number, row) in rows.iter().enumerate() {
        row.iter().for_each(line);
        below(number);
    }
}

/// The lines of each row of a table, the first of which has the titles. No line is wider than `room`, if there
/// is a limit, unless columns that are never cut need more.
fn table_lines(columns: &[Column], rows: &[Vec<String>], room: Option<usize>) -> Vec<Vec<String>> {
    let titles: Vec<String> = columns.iter().map(|column| column.title.to_owned()).collect();
    // A cell has one line, with any content.
    let one_line = |cell: &String| cell.replace(['\n', '\r', '\t'], " ");
    let rows = rows.iter().map(|row| row.iter().map(one_line).collect::<Vec<String>>());
    let rows: Vec<Vec<String>> = std::iter::once(titles).chain(rows).collect();
    let shown = shown(columns, &rows, room);
    let widths = widths(columns, &shown, &rows, room);
    let render = |row: &Vec<String>| {
        let cells = shown.iter().zip(&widths).filter_map(|(number, width)| {
            let column = columns.get(*number)?;
            Some((column, column.cell(row.get(*number)?, *width), *width))
        });
        let cells: Vec<(&Column, Vec<String>, usize)> = cells.collect();
        let height = cells.iter().map(|(_, lines, _)| lines.len()).max().unwrap_or(0);
        let line = |number: usize| {
            let part = |(column, lines, width): &(&Column, Vec<String>, usize)| {
                column.padded(lines.get(number).map_or("", String::as_str), *width)
            };
            let parts: Vec<String> = cells.iter().map(part).collect();
            parts.join(&" ".repeat(GAP)).trim_end().to_owned()
        };
        (0..height).map(line).collect()
    };
    rows.iter().map(render).collect()
}

/// How wide the widest cell of a column is.
fn needed(rows: &[Vec<String>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column));
    cells.map(|cell| display_width(cell)).max().unwrap_or(0)
}

/// The columns that are shown, by number: optional ones are left out, the last first, until the others fit.
fn shown(columns: &[Column], rows: &[Vec<String>], room: Option<usize>) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let Some(room) = room else { return shown };
    let least = |number: &usize| {
        let needed = needed(rows, *number);
        columns.get(*number).map_or(0, |column| column.least(needed))
    };
    let is_optional = |number: &usize| columns.get(*number).is_some_and(|column| column.optional);
    while shown.iter().map(least).sum::<usize>() + gaps(shown.len()) > room {
        let Some(place) = shown.iter().rposition(is_optional) else { break };
        shown.remove(place);
    }
    shown
}

fn gaps(columns: usize) -> usize {
    GAP * columns.saturating_sub(1)
}

/// How wide each shown column is: as its widest cell, less where the terminal is too narrow for all of them.
fn widths(
    columns: &[Column],
    shown: &[usize],
    rows: &[Vec<String>],
    room: Option<usize>,
) -> Vec<usize> {
    let mut widths: Vec<usize> = shown.iter().map(|number| needed(rows, *number)).collect();
    let Some(room) = room else { return widths };
    let shown = shown.iter().filter_map(|number| columns.get(*number));
    let least: Vec<usize> =
        shown.zip(&widths).map(|(column, needed)| column.least(*needed)).collect();
    let mut excess = (widths.iter().sum::<usize>() + gaps(widths.len())).saturating_sub(room);
    while excess > 0 {
        let narrower = widths.iter_mut().zip(&least).filter(|(width, least)| **width > **least);
        let Some((widest, _)) = narrower.max_by_key(|(width, _)| **width) else { break };
        *widest -= 1;
        excess -= 1;
    }
    widths
}

/// How wide the terminal is that results are printed to; nothing if they go elsewhere.
fn terminal_width() -> Option<usize> {
    io::IsTerminal::is_terminal(&io::stdout()).then(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::fixed("RUN"),
        Column::number("CALLS"),
        Column::path("PLACE"),
        Column::text("DESCRIPTION"),
    ];

    fn rendered(columns: &[Column], rows: &[Vec<String>], room: Option<usize>) -> Vec<String> {
        table_lines(columns, rows, room).concat()
    }

    fn rows() -> Vec<Vec<String>> {
        [
            ["fix-42", "7", "/home/ada/src/parser", "Mends the parser, and its tests"],
            ["fix-the-long-name", "1042", "/srv/b", "日本語の説明がここにあります"],
        ]
        .map(|row| row.map(str::to_owned).to_vec())
        .to_vec()
    }

    #[test]
    fn nothing_is_truncated_without_a_terminal() {
        let lines = rendered(&COLUMNS, &rows(), None);
        assert_eq!(
            lines,
            [
                "RUN                CALLS  PLACE                 DESCRIPTION",
                "fix-42                 7  /home/ada/src/parser  Mends the parser, and its tests",
                "fix-the-long-name   1042  /srv/b                日本語の説明がここにあります",
            ]
        );
    }

    #[test]
    fn widest_flexible_columns_shrink_and_fixed_columns_do_not() {
        let lines = rendered(&COLUMNS, &rows(), Some(60));
        assert_eq!(
            lines,
            [
                "RUN                CALLS  PLACE             DESCRIPTION",
                "fix-42                 7  /home…src/parser  Mends the parse…",
                "fix-the-long-name   1042  /srv/b            日本語の説明が…",
            ]
        );
        for room in 49..100 {
            for line in rendered(&COLUMNS, &rows(), Some(room)) {
                assert!(display_width(&line) <= room, "{room}: {line}");
            }
        }
        let narrow = rendered(&COLUMNS, &rows(), Some(20)).join("\n");
        assert!(narrow.contains("fix-the-long-name   1042"), "{narrow}");
    }

    #[test]
    fn optional_columns_are_omitted_if_the_table_is_too_wide() {
        let columns = [Column::fixed("A"), Column::number("N").optional(), Column::fixed("B")];
        let rows = [["first", "1", "second"].map(str::to_owned).to_vec()];
        assert_eq!(rendered(&columns, &rows, Some(16)), ["A      N  B", "first  1  second"]);
        assert_eq!(rendered(&columns, &rows, Some(15)), ["A      B", "first  second"]);
    }

    #[test]
    fn multi_line_cell_is_shown_on_one_line() {
        let rows = [vec!["a".to_owned(), "1\n2\t3".to_owned()]];
        let lines = rendered(&[Column::fixed("A"), Column::text("B")], &rows, Some(80));
        assert_eq!(lines, ["A  B", "a  1 2 3"]);
    }

    #[test]
    fn folded_column_keeps_all_text() {
        let columns = [Column::fixed("A"), Column::folded("PLACE"), Column::folded("WHY")];
        let place = "cache /home/ada/.local/state/bailiwick/caches/0123456789abcdef";
        let rows = [["keep", place, "its work has neither landed nor been rejected"]
            .map(str::to_owned)
            .to_vec()];
        let shown = table_lines(&columns, &rows, Some(60));
        let [_, row] = shown.as_slice() else { panic!("{shown:?}") };
        assert!(row.len() > 1, "the control: the row is folded: {row:?}");
        assert!(row.iter().all(|line| display_width(line) <= 60 && !line.contains('…')), "{row:?}");
        let cells =
            row.iter().filter_map(|line| line.get(6..)).map(|line| line.get(..24).unwrap_or(line));
        let unfolded: String =
            cells.map(|line| line.split("  ").next().unwrap_or_default()).collect();
        assert_eq!(unfolded.replace(' ', ""), place.replace(' ', ""));
        let piped = table_lines(&columns, &rows, None);
        assert!(piped.iter().all(|row| row.len() == 1), "{piped:?}");
    }
}
