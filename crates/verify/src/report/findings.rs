//! The findings of a report, each with the grades that it carries.

use std::collections::BTreeSet;

use super::fields::spelled;
use super::grades::{begins_with_grade, grades, only_a_grade};
use super::lines::{Kind, Line, bare, lines};

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Its first line.
    pub(crate) text: String,
    /// The grades in it.
    pub(crate) grades: BTreeSet<&'static str>,
}

/// What a report says of findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Findings {
    /// These.
    Some(Vec<Finding>),
    /// That there are none.
    None,
    /// Not a word.
    Unsaid,
}

/// Reads the findings: what stands under a heading of that name, and lines that begin with a grade.
pub(crate) fn findings(report: &str) -> Findings {
    let all = lines(report);
    let open: Vec<Line> = all.iter().filter(|line| !line.fenced).cloned().collect();
    match read(&open) {
        // The whole report may stand in a fenced block.
        Findings::Unsaid => read(&all),
        said @ (Findings::Some(_) | Findings::None) => said,
    }
}

fn read(lines: &[Line]) -> Findings {
    let mut reader = Reader::default();
    for (place, line) in lines.iter().enumerate() {
        // A row above a rule has the names of the columns.
        let rule = |next: &Line| next.kind == Kind::Blank && next.text.starts_with('|');
        if !lines.get(place + 1).is_some_and(rule) {
            reader.take(line);
        }
    }
    reader.finish();
    // Words around findings are none; where there are only words, they are.
    let formed = reader.found.iter().any(|(began, _)| *began != Began::Loose);
    reader.found.retain(|(began, _)| !formed || *began != Began::Loose);
    match (reader.found.is_empty(), reader.none) {
        (false, _) => {
            Findings::Some(reader.found.into_iter().map(|(_, finding)| finding).collect())
        }
        (true, true) => Findings::None,
        (true, false) => Findings::Unsaid,
    }
}

/// Where a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    /// Under a heading of this level that speaks of findings.
    Section(usize),
}

/// What an entry began as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Began {
    /// A heading of this level.
    Heading(usize),
    /// An entry of a list at this indentation.
    Item(usize),
    /// A line that begins with a grade or a place.
    Line,
    /// Any other line of a section: a finding only where nothing else is one.
    Loose,
}

struct Entry {
    began: Began,
    /// What a heading above it says of its grade.
    group: Option<&'static str>,
    lines: Vec<String>,
    /// The entries of a list among the lines.
    items: Vec<String>,
    /// Whether entries with grades came below it, so that it was only their title.
    parent: bool,
}

#[derive(Default)]
struct Reader {
    place: Option<Place>,
    group: Option<(usize, &'static str)>,
    entry: Option<Entry>,
    found: Vec<(Began, Finding)>,
    none: bool,
    blank: bool,
}

impl Reader {
    fn place(&self) -> Place {
        self.place.unwrap_or(Place::Outside)
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
        let leaves = match self.place() {
            Place::Section(of) => level <= of,
            Place::Outside => true,
        };
        if leaves {
            self.finish();
            self.place = Some(Place::Outside);
        }
        if leaves && speaks_of_findings(text) {
            self.place = Some(Place::Section(level));
            self.none |= says_none(text.split_once(':').map_or(text, |(_, value)| value));
            return;
        }
        let grades = grades(text);
        let only = only_a_grade(text);
        if let Some(grade) = only {
            self.finish();
            self.group = Some((level, grade));
        } else if self.place() != Place::Outside
            || begins_with_grade(text)
            || !grades.is_empty() && !leaves
        {
            // A smaller heading inside of a finding is a part of it.
            let part =
                matches!(&self.entry, Some(Entry { began: Began::Heading(of), .. }) if level > *of);
            if part && grades.is_empty() {
                self.add(text);
            } else {
                self.begin(Began::Heading(level), text);
            }
        }
    }

    fn row(&mut self, cells: &[String]) {
        let text = cells.join(" | ");
        let graded =
            cells.iter().any(|cell| only_a_grade(cell).is_some() || begins_with_grade(cell));
        if graded || self.place() != Place::Outside {
            self.begin(Began::Line, &text);
        }
    }

    fn text(&mut self, line: &Line) {
        let text = line.text.as_str();
        if says_none(text) && (self.place() != Place::Outside || starts_with_no_findings(text)) {
            self.none = true;
            return;
        }
        if let Some(value) = findings_field(line) {
            self.finish();
            self.place = Some(Place::Section(usize::MAX));
            self.none |= says_none(value);
            if !value.is_empty() && !says_none(value) && !is_number(value) {
                self.begin(Began::Line, value);
            }
            return;
        }
        if self.place() == Place::Section(usize::MAX)
            && !line.listed
            && line.indent == 0
            && is_other_field(text)
        {
            self.finish();
            self.place = Some(Place::Outside);
            return;
        }
        let inside_item =
            matches!(&self.entry, Some(Entry { began: Began::Item(of), .. }) if line.indent > *of);
        let under_heading = matches!(&self.entry, Some(Entry { began: Began::Heading(_), .. }));
        let in_section = self.place() != Place::Outside || self.group.is_some();
        if inside_item || (under_heading && !begins_with_grade(text)) {
            self.add(text);
            let items = self.entry.as_mut().map(|entry| &mut entry.items).filter(|_| line.listed);
            items.into_iter().for_each(|items| items.push(text.to_owned()));
        } else if begins_with_grade(text) || (line.listed && in_section) {
            let began = if line.listed { Began::Item(line.indent) } else { Began::Line };
            self.begin(began, text);
        } else if in_section {
            self.loose(text);
        } else {
            self.finish();
        }
    }

    /// A line under a heading that begins nothing by its form.
    fn loose(&mut self, text: &str) {
        if begins_with_place(text) {
            self.begin(Began::Line, text);
        } else if self.blank || self.entry.is_none() {
            let intro = text.trim_end().ends_with(':') || is_number(text);
            self.finish();
            if !intro {
                self.begin(Began::Loose, text);
            }
        } else {
            self.add(text);
        }
    }

    fn begin(&mut self, began: Began, text: &str) {
        let deeper = |of: usize| match began {
            Began::Heading(level) => level > of,
            Began::Item(_) | Began::Line | Began::Loose => true,
        };
        if let Some(Entry { began: Began::Heading(of), lines, items, parent, .. }) = &mut self.entry
        {
            // A title without a grade above entries that have one; its own have none.
            *parent = deeper(*of) && lines.iter().all(|line| grades(line).is_empty());
            if *parent && matches!(began, Began::Item(_)) {
                let ungraded = |text| (began, Finding { text, grades: BTreeSet::new() });
                self.found.extend(items.drain(..).map(ungraded));
            }
        }
        self.finish();
        let group = self.group.map(|(_, grade)| grade);
        self.entry = Some(Entry {
            began,
            group,
            lines: vec![text.to_owned()],
            items: Vec::new(),
            parent: false,
        });
    }

    fn add(&mut self, text: &str) {
        if let Some(entry) = &mut self.entry {
            entry.lines.push(text.to_owned());
        }
    }

    fn finish(&mut self) {
        let Some(entry) = self.entry.take().filter(|entry| !entry.parent) else { return };
        // The first line with a grade decides: others may say why it is no other one.
        let graded = entry.lines.iter().map(|line| grades(line)).find(|found| !found.is_empty());
        let mut found = graded.unwrap_or_default();
        found.extend(entry.group);
        let text = entry.lines.into_iter().next().unwrap_or_default();
        self.found.push((entry.began, Finding { text, grades: found }));
    }
}

/// `src/a.rs:42` at the beginning of a line is another finding.
fn begins_with_place(text: &str) -> bool {
    let word = bare(text.split_whitespace().next().unwrap_or_default());
    let (path, line) = word.split_once(':').unwrap_or((word, ""));
    path.contains(['.', '/']) && line.starts_with(|sign: char| sign.is_ascii_digit())
}

fn speaks_of_findings(text: &str) -> bool {
    let words = spelled(text);
    words
        .split(|sign: char| !sign.is_alphanumeric())
        .any(|word| word == "findings" || word == "finding")
}

fn is_number(text: &str) -> bool {
    let text = bare(text).trim_end_matches('.');
    !text.is_empty()
        && text.split_whitespace().next().is_some_and(|word| word.parse::<u64>().is_ok())
        && grades(text).is_empty()
        && text.split_whitespace().count() <= 3
}

/// `findings: …`, also in bold, and "Findings" alone in bold.
fn findings_field(line: &Line) -> Option<&str> {
    let text = line.text.as_str();
    if let Some((name, value)) = text.split_once(':') {
        let named = ["findings", "finding"].contains(&spelled(name).as_str());
        return named.then(|| value.trim_start_matches(['*', '_']).trim());
    }
    let bold = text.starts_with("**") && text.ends_with("**");
    (bold && spelled(text) == "findings").then_some("")
}

/// The line of another field, behind the field of findings.
fn is_other_field(text: &str) -> bool {
    let Some((name, _)) = text.split_once(':') else { return false };
    let name = bare(name);
    let slug = |sign: char| {
        sign.is_ascii_lowercase() || sign.is_ascii_digit() || matches!(sign, '-' | '_')
    };
    name.starts_with(|sign: char| sign.is_ascii_lowercase()) && name.chars().all(slug)
}

fn says_none(text: &str) -> bool {
    let text = bare(text).trim_end_matches(['.', '!']).to_lowercase();
    ["none", "nothing", "none found", "0", "no issues"].contains(&text.as_str())
        || starts_with_no_findings(&text)
}

fn starts_with_no_findings(text: &str) -> bool {
    let text = bare(text).to_lowercase();
    text.strip_prefix("no findings").is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(report: &str) -> Vec<Vec<&'static str>> {
        match findings(report) {
            Findings::Some(found) => {
                found.into_iter().map(|finding| finding.grades.into_iter().collect()).collect()
            }
            other @ (Findings::None | Findings::Unsaid) => panic!("{other:?} in {report}"),
        }
    }

    #[test]
    fn findings_are_read_however_they_are_dressed() {
        for report in [
            "## Findings\n\n- HIGH a.rs:1: x\n- LOW b.rs:2: y\n",
            "## Findings\n\nTwo of them:\n\nHIGH a.rs:1: x\n  and more\nLOW b.rs:2: y\nwrapped\n",
            "# Review findings\n1. **HIGH** a.rs:1: x\n   - see the LOWEST one\n   - how\n2. [LOW] b.rs\n",
            "findings:\n- HIGH: x\n- (LOW) y\nsummary: all",
            "summary: x\nfindings: 2\n- HIGH x\n- LOW y\n\nfiles-read: a.rs",
            "**Findings**\n\n* HIGH x\n* LOW y",
            "## Findings\n| Severity | Where |\n|---|---|\n| HIGH | a.rs |\n| LOW | b.rs |\n",
            "## Findings\n### HIGH a.rs:1\nText.\n- point\n### [LOW] b.rs\nText.\n## Else\n- no finding",
            "## Findings\n### HIGH\n- a.rs: x\n### LOW (1)\n- b.rs: y\n### MEDIUM\nNone.\n",
            "## Findings\n### 1. The cache\nSeverity: HIGH\nText.\n### 2. The name\nLOW, as I said.\n",
            "## Findings\n### Parser\n- HIGH x\n### Printer\n- LOW y\n",
            "Summary.\n\nHIGH src/a.rs:42: x\n\nLOW src/b.rs:1: y\n\nThat is all.",
            "```\n## Findings\nHIGH a\nLOW b\n```",
            "    HIGH a.rs:1: x\n    LOW b.rs:2: y",
            "## Findings\n\nI found two, the worst first.\n\n- HIGH x\n- LOW y\n\nNone is CRITICAL.\n",
            "## Findings\n- HIGH x\n  I hesitated between HIGH and MEDIUM.\n- LOW y\n",
            "## Findings\n### HIGH\n\n**1. a.rs: x**\nText.\n\n### LOW\n**2. b.rs: y**\n",
            "## Findings\n### HIGH: x\nIt is not CRITICAL, as one can see.\n\n### LOW: y\n",
            "## Findings\n- `HIGH` a.rs: x\n- LOW b.rs: `HIGH` is never used\n",
        ] {
            assert_eq!(seen(report), [["HIGH"], ["LOW"]], "{report}");
        }
    }

    #[test]
    fn a_finding_may_have_none_or_two() {
        assert_eq!(seen("## Findings\n- the value is BELOW the limit\n"), [Vec::<&str>::new()]);
        assert_eq!(seen("## Findings\n- a.rs: x\n- HIGH y"), [vec![], vec!["HIGH"]]);
        let titled = "## Findings\n### Parser\n- a.rs: x\n- HIGH y";
        assert_eq!(seen(titled), [vec![], vec!["HIGH"]]);
        assert_eq!(seen("## Findings\n|#|What|\n|-|-|\n|1|HIGH|\n|2|x|"), [vec!["HIGH"], vec![]]);
        assert_eq!(seen("## Findings\n- HIGH/LOW x"), [["HIGH", "LOW"]]);
        assert_eq!(seen("## Findings\nIt leaks.\n"), [Vec::<&str>::new()]);
        assert_eq!(seen("HIGH a.rs:1: x\nb.rs:2: y").len(), 1, "outside of a section, one line");
        assert_eq!(seen("## Findings\nHIGH a.rs:1: x\nb.rs:2: y"), [vec!["HIGH"], vec![]]);
        assert_eq!(seen("## Findings\n### HIGH\n- LOW x"), [["HIGH", "LOW"]]);
    }

    #[test]
    fn none_and_silence_are_told_apart() {
        for report in [
            "No findings.",
            "## Findings\n\nNone.\n",
            "findings: none",
            "## Findings\nNo findings.",
            "- **No findings.**",
            "summary: x\nfindings: No findings were made",
            "## Findings: none",
        ] {
            assert_eq!(findings(report), Findings::None, "{report}");
        }
        for report in
            ["All good.", "", "## Findings\n", "findings: 3", "I looked for no findings here"]
        {
            assert_eq!(findings(report), Findings::Unsaid, "{report}");
        }
    }
}
