//! The findings of a report, each with the grades that it carries.

use std::collections::BTreeSet;

use super::fields::normalized;
use super::grades::{grades, only_a_grade, starts_with_grade};
use super::lines::{Kind, Line, lines, without_emphasis};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The first line.
    pub(crate) text: String,
    pub(crate) grades: BTreeSet<&'static str>,
}

/// What a report says about findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Findings {
    Some(Vec<Finding>),
    /// It says that there are none.
    None,
    /// It does not mention findings.
    NotMentioned,
}

/// Reads the findings: the text under a heading of that name, and lines that start with a grade.
pub(crate) fn findings(report: &str) -> Findings {
    let all = lines(report);
    let open: Vec<Line> = all.iter().filter(|line| !line.fenced).cloned().collect();
    match read(&open) {
        // The whole report can be in a fenced block.
        Findings::NotMentioned => read(&all),
        found @ (Findings::Some(_) | Findings::None) => found,
    }
}

fn read(lines: &[Line]) -> Findings {
    let mut reader = Reader::default();
    for (index, line) in lines.iter().enumerate() {
        // A row above a table rule is the header.
        let rule = |next: &Line| next.kind == Kind::Blank && next.text.starts_with('|');
        if !lines.get(index + 1).is_some_and(rule) {
            reader.take(line);
        }
    }
    reader.finish();
    // Prose counts as a finding only if there is nothing else.
    let has_formatted = reader.found.iter().any(|(kind, _)| *kind != EntryKind::Prose);
    reader.found.retain(|(kind, _)| !has_formatted || *kind != EntryKind::Prose);
    match (reader.found.is_empty(), reader.none) {
        (false, _) => {
            Findings::Some(reader.found.into_iter().map(|(_, finding)| finding).collect())
        }
        (true, true) => Findings::None,
        (true, false) => Findings::NotMentioned,
    }
}

/// The position of a line in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Outside,
    /// Under a heading of this level about findings.
    Section(usize),
}

/// How an entry starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    /// A heading of this level.
    Heading(usize),
    /// A list item with this indentation.
    Item(usize),
    /// A line that starts with a grade or a source location.
    Line,
    /// Any other line of a section: a finding only if there is nothing else.
    Prose,
}

struct Entry {
    kind: EntryKind,
    /// The grade that a heading above it names.
    group: Option<&'static str>,
    lines: Vec<String>,
    /// The list items among the lines.
    items: Vec<String>,
    /// Whether it is only the title of graded entries below it.
    is_title: bool,
}

#[derive(Default)]
struct Reader {
    position: Option<Position>,
    group: Option<(usize, &'static str)>,
    entry: Option<Entry>,
    found: Vec<(EntryKind, Finding)>,
    none: bool,
    blank: bool,
}

impl Reader {
    fn position(&self) -> Position {
        self.position.unwrap_or(Position::Outside)
    }

    fn take(&mut self, line: &Line) {
        match &line.kind {
            Kind::Blank => {}
            Kind::Heading(level) => self.heading(*level, &line.text),
            Kind::Row(cells) => self.row(cells),
            Kind::Text => self.text(line),
        }
        self.blank = line.kind == Kind::Blank;
    }

    fn heading(&mut self, level: usize, text: &str) {
        if self.group.is_some_and(|(of, _)| level <= of) {
            self.group = None;
        }
        let leaves = match self.position() {
            Position::Section(of) => level <= of,
            Position::Outside => true,
        };
        if leaves {
            self.finish();
            self.position = Some(Position::Outside);
        }
        if leaves && is_about_findings(text) {
            self.position = Some(Position::Section(level));
            self.none |= says_none(text.split_once(':').map_or(text, |(_, value)| value));
            return;
        }
        let grades = grades(text);
        let only = only_a_grade(text);
        if let Some(grade) = only {
            self.finish();
            self.group = Some((level, grade));
        } else if self.position() != Position::Outside
            || starts_with_grade(text)
            || !grades.is_empty() && !leaves
        {
            // A lower heading inside a finding is part of it.
            let is_part = matches!(&self.entry, Some(Entry { kind: EntryKind::Heading(of), .. }) if level > *of);
            if is_part && grades.is_empty() {
                self.add(text);
            } else {
                self.begin(EntryKind::Heading(level), text);
            }
        }
    }

    fn row(&mut self, cells: &[String]) {
        let text = cells.join(" | ");
        let graded =
            cells.iter().any(|cell| only_a_grade(cell).is_some() || starts_with_grade(cell));
        if graded || self.position() != Position::Outside {
            self.begin(EntryKind::Line, &text);
        }
    }

    fn text(&mut self, line: &Line) {
        let text = line.text.as_str();
        if says_none(text)
            && (self.position() != Position::Outside || starts_with_no_findings(text))
        {
            self.none = true;
            return;
        }
        if let Some(value) = findings_field(line) {
            self.finish();
            self.position = Some(Position::Section(usize::MAX));
            self.none |= says_none(value);
            if !value.is_empty() && !says_none(value) && !is_number(value) {
                self.begin(EntryKind::Line, value);
            }
            return;
        }
        if self.position() == Position::Section(usize::MAX)
            && !line.listed
            && line.indent == 0
            && is_other_field(text)
        {
            self.finish();
            self.position = Some(Position::Outside);
            return;
        }
        let inside_item = matches!(&self.entry, Some(Entry { kind: EntryKind::Item(of), .. }) if line.indent > *of);
        let under_heading = matches!(&self.entry, Some(Entry { kind: EntryKind::Heading(_), .. }));
        let in_section = self.position() != Position::Outside || self.group.is_some();
        if inside_item || (under_heading && !starts_with_grade(text)) {
            self.add(text);
            let items = self.entry.as_mut().map(|entry| &mut entry.items).filter(|_| line.listed);
            items.into_iter().for_each(|items| items.push(text.to_owned()));
        } else if starts_with_grade(text) || (line.listed && in_section) {
            let kind = if line.listed { EntryKind::Item(line.indent) } else { EntryKind::Line };
            self.begin(kind, text);
        } else if in_section {
            self.prose(text);
        } else {
            self.finish();
        }
    }

    /// A line of a section that does not start an entry by its format.
    fn prose(&mut self, text: &str) {
        if starts_with_location(text) {
            self.begin(EntryKind::Line, text);
        } else if self.blank || self.entry.is_none() {
            let intro = text.trim_end().ends_with(':') || is_number(text);
            self.finish();
            if !intro {
                self.begin(EntryKind::Prose, text);
            }
        } else {
            self.add(text);
        }
    }

    fn begin(&mut self, kind: EntryKind, text: &str) {
        let deeper = |of: usize| match kind {
            EntryKind::Heading(level) => level > of,
            EntryKind::Item(_) | EntryKind::Line | EntryKind::Prose => true,
        };
        if let Some(Entry { kind: EntryKind::Heading(of), lines, items, is_title, .. }) =
            &mut self.entry
        {
            // A title without a grade above graded entries; its list items have no grade.
            *is_title = deeper(*of) && lines.iter().all(|line| grades(line).is_empty());
            if *is_title && matches!(kind, EntryKind::Item(_)) {
                let ungraded = |text| (kind, Finding { text, grades: BTreeSet::new() });
                self.found.extend(items.drain(..).map(ungraded));
            }
        }
        self.finish();
        let group = self.group.map(|(_, grade)| grade);
        self.entry = Some(Entry {
            kind,
            group,
            lines: vec![text.to_owned()],
            items: Vec::new(),
            is_title: false,
        });
    }

    fn add(&mut self, text: &str) {
        if let Some(entry) = &mut self.entry {
            entry.lines.push(text.to_owned());
        }
    }

    fn finish(&mut self) {
        let Some(entry) = self.entry.take().filter(|entry| !entry.is_title) else { return };
        // The first line with a grade decides; later lines can discuss other grades.
        let graded = entry.lines.iter().map(|line| grades(line)).find(|found| !found.is_empty());
        let mut found = graded.unwrap_or_default();
        found.extend(entry.group);
        let text = entry.lines.into_iter().next().unwrap_or_default();
        self.found.push((entry.kind, Finding { text, grades: found }));
    }
}

/// A line that starts with `src/a.rs:42` is a new finding.
fn starts_with_location(text: &str) -> bool {
    let word = without_emphasis(text.split_whitespace().next().unwrap_or_default());
    let (path, line) = word.split_once(':').unwrap_or((word, ""));
    path.contains(['.', '/']) && line.starts_with(|character: char| character.is_ascii_digit())
}

fn is_about_findings(text: &str) -> bool {
    let words = normalized(text);
    words
        .split(|character: char| !character.is_alphanumeric())
        .any(|word| word == "findings" || word == "finding")
}

fn is_number(text: &str) -> bool {
    let text = without_emphasis(text).trim_end_matches('.');
    !text.is_empty()
        && text.split_whitespace().next().is_some_and(|word| word.parse::<u64>().is_ok())
        && grades(text).is_empty()
        && text.split_whitespace().count() <= 3
}

/// `findings: …`, also in bold, or "Findings" alone in bold.
fn findings_field(line: &Line) -> Option<&str> {
    let text = line.text.as_str();
    if let Some((name, value)) = text.split_once(':') {
        let named = ["findings", "finding"].contains(&normalized(name).as_str());
        return named.then(|| value.trim_start_matches(['*', '_']).trim());
    }
    let bold = text.starts_with("**") && text.ends_with("**");
    (bold && normalized(text) == "findings").then_some("")
}

/// Whether another field starts here.
fn is_other_field(text: &str) -> bool {
    let Some((name, _)) = text.split_once(':') else { return false };
    let name = without_emphasis(name);
    let slug = |character: char| {
        character.is_ascii_lowercase()
            || character.is_ascii_digit()
            || matches!(character, '-' | '_')
    };
    name.starts_with(|character: char| character.is_ascii_lowercase()) && name.chars().all(slug)
}

fn says_none(text: &str) -> bool {
    let text = without_emphasis(text).trim_end_matches(['.', '!']).to_lowercase();
    ["none", "nothing", "none found", "0", "no issues"].contains(&text.as_str())
        || starts_with_no_findings(&text)
}

fn starts_with_no_findings(text: &str) -> bool {
    let text = without_emphasis(text).to_lowercase();
    text.strip_prefix("no findings").is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}
#[cfg(test)]
mod tests;
