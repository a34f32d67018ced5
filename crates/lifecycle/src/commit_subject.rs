//! The subject line of a commit: from a person, or derived from the task.

use std::fmt;
use std::str::FromStr;

use bailiwick_model::AgentId;

/// The longest subject, in characters.
const MAX_CHARACTERS: usize = 72;

/// Headings that do not describe the work below them.
const GENERIC_HEADINGS: [&str; 8] =
    ["task", "the task", "goal", "objective", "summary", "description", "instructions", "problem"];

/// A subject that a person has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitTitle(String);

/// Why a text cannot be a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadTitle {
    /// It has no content.
    #[error("a title must not be empty")]
    Empty,
    /// It has a line break or another control character.
    #[error("a title is one line without control characters")]
    NotOneLine,
    /// It is too long.
    #[error("a title has at most {MAX_CHARACTERS} characters, and this one has {0}")]
    TooLong(usize),
}

impl CommitTitle {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CommitTitle {
    type Err = BadTitle;

    fn from_str(text: &str) -> Result<Self, BadTitle> {
        let text = text.trim();
        match text.chars().count() {
            0 => Err(BadTitle::Empty),
            _ if text.chars().any(char::is_control) => Err(BadTitle::NotOneLine),
            length if length > MAX_CHARACTERS => Err(BadTitle::TooLong(length)),
            _ => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for CommitTitle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The first sentence of a task's body, in one line of at most 72 characters.
pub fn commit_subject(body: &str, agent: &AgentId) -> String {
    let paragraph = first_paragraph(body);
    let sentence = first_sentence(&paragraph);
    match sentence {
        "" => format!("Work of {agent}"),
        sentence => shorten(sentence),
    }
}

/// The first lines with content: a heading alone, or the lines up to the next empty one.
fn first_paragraph(body: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for line in body.lines().map(str::trim) {
        let is_heading = line.starts_with('#');
        let text = without_marker(line);
        let ends = line.is_empty() || is_heading || is_list_item(line);
        if ends && !words.is_empty() {
            break;
        }
        if text.is_empty() || (is_heading && is_generic(text)) {
            continue;
        }
        words.extend(text.split_whitespace());
        if is_heading {
            break;
        }
    }
    words.join(" ")
}

fn is_list_item(line: &str) -> bool {
    line.starts_with("- ") || line.starts_with("* ")
}

/// A line without the Markdown that begins it.
fn without_marker(line: &str) -> &str {
    line.trim_start_matches(['#', '>', '-', '*', '=', '`']).trim()
}

fn is_generic(heading: &str) -> bool {
    let heading = heading.trim_end_matches(':');
    GENERIC_HEADINGS.iter().any(|generic| heading.eq_ignore_ascii_case(generic))
}

fn first_sentence(paragraph: &str) -> &str {
    let end = paragraph.find(". ").unwrap_or(paragraph.len());
    paragraph.get(..end).unwrap_or(paragraph).trim_end_matches(['.', ':', ' '])
}

/// Cuts between words if possible.
fn shorten(text: &str) -> String {
    if text.chars().count() <= MAX_CHARACTERS {
        return text.to_owned();
    }
    let cut: String = text.chars().take(MAX_CHARACTERS - 1).collect();
    let words = match cut.rsplit_once(' ') {
        Some((words, _)) if words.chars().count() > MAX_CHARACTERS / 2 => words,
        _ => cut.as_str(),
    };
    format!("{}…", words.trim_end_matches([' ', ',', ';', ':', '-']))
}

#[cfg(test)]
mod tests {
    use super::{BadTitle, CommitTitle, commit_subject};
    use bailiwick_model::AgentId;

    fn subject(body: &str) -> String {
        commit_subject(body, &AgentId::parse("ag-1").unwrap())
    }

    #[test]
    fn subject_is_the_first_sentence_of_the_task() {
        assert_eq!(subject("\n# Fix the lexer\nmore"), "Fix the lexer");
        assert_eq!(subject("# Task\n\nFix the lexer.\n"), "Fix the lexer");
        assert_eq!(subject("Fix the\nlexer. It reads too far.\n"), "Fix the lexer");
        assert_eq!(subject("- Fix the lexer\n- and the parser"), "Fix the lexer");
        assert_eq!(subject("Use v1.2 of it:\n\n- here"), "Use v1.2 of it");
    }

    #[test]
    fn empty_task_gets_a_subject_with_its_agent_id() {
        for body in ["", "  \n", "# Task\n", "---\n"] {
            assert_eq!(subject(body), "Work of ag-1", "{body:?}");
        }
    }

    #[test]
    fn title_is_one_line_of_at_most_72_characters() {
        let title = |text: &str| text.parse::<CommitTitle>().map(|title| title.to_string());
        assert_eq!(title(" Fix the lexer "), Ok("Fix the lexer".to_owned()));
        assert_eq!(title(&"ö".repeat(72)), Ok("ö".repeat(72)));
        assert_eq!(title(&"ö".repeat(73)), Err(BadTitle::TooLong(73)));
        assert_eq!(title("  "), Err(BadTitle::Empty));
        assert_eq!(title("Fix\nit"), Err(BadTitle::NotOneLine));
        assert_eq!(title("Fix\u{1b}[2J"), Err(BadTitle::NotOneLine));
    }

    #[test]
    fn long_sentence_is_cut_at_a_word_boundary() {
        let long = subject(&"seven letters ".repeat(10));
        assert_eq!(long, "seven letters seven letters seven letters seven letters seven letters…");
        assert_eq!(subject(&"ö".repeat(100)).chars().count(), 72);
    }
}
