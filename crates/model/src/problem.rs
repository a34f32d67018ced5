//! Problems in files that people write, with their places.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

/// A file: its displayed name and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The path as the person would write it.
    pub file: Arc<str>,
    /// The whole text.
    pub text: Arc<str>,
}

impl Source {
    /// A named text.
    pub fn new(file: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { file: file.into(), text: text.into() }
    }

    /// A place in this file.
    pub fn at(&self, span: Range<usize>) -> Place {
        Place { source: self.clone(), span: Some(span) }
    }

    /// This file as a whole.
    pub fn whole(&self) -> Place {
        Place { source: self.clone(), span: None }
    }
}

/// A piece of a file, or the file as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub source: Source,
    /// The bytes in it; none for the file as a whole.
    pub span: Option<Range<usize>>,
}

impl Place {
    /// Line and column, counted from one.
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        let start = self.span.as_ref()?.start;
        let before = self.source.text.get(..start)?;
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        Some((line, column))
    }

    /// The text at the place.
    pub fn text(&self) -> Option<&str> {
        self.source.text.get(self.span.clone()?)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line_and_column() {
            Some((line, column)) => write!(out, "{}:{line}:{column}", self.source.file),
            None => out.write_str(&self.source.file),
        }
    }
}

/// Whether a problem stops the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A note; the command continues.
    Warning,
    /// The file cannot be used.
    Error,
}

/// A problem with its place and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// A stable name for this kind of problem, for example `unknown-key`.
    pub code: &'static str,
    /// Whether it stops the work.
    pub severity: Severity,
    /// Where it is.
    pub place: Place,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Problem {
    /// A problem that stops the work.
    pub fn error(code: &'static str, place: Place, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, place, message: message.into(), help: None }
    }

    /// A problem that does not.
    pub fn warning(code: &'static str, place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, place, message) }
    }

    /// The same problem with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same problem with advice, if there is any.
    #[must_use]
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }

    /// The same problem at the same place of `source`, whose lines and columns are the same.
    pub(crate) fn shown_in(mut self, source: &Source) -> Self {
        self.place.source = source.clone();
        self
    }

    /// Whether it stops the work.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.message)?;
        match &self.help {
            Some(help) => write!(out, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_columns_from_one() {
        let source = Source::new("a.toml", "one\ntwö = 3\n");
        assert_eq!(source.at(0..3).line_and_column(), Some((1, 1)));
        let value = source.at(11..12);
        assert_eq!((value.text(), value.line_and_column()), (Some("3"), Some((2, 7))));
        assert_eq!(source.whole().to_string(), "a.toml");
    }
}
