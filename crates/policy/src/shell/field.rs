//! A word after expansion: what the text decides of it.

use std::borrow::Cow;
use std::fmt;

use crate::base_name::base_name;

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    pieces: Vec<Piece>,
}

/// The name of a pipe, or one like it.
pub(super) const PIPE: &str = "/dev/fd/63";

/// A part of an argument.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Piece {
    Text(String),
    /// Unquoted text with `*`, `?` or `[` in it.
    Pattern(String),
    /// One file that such a pattern matches.
    Match(String),
    /// The home directory of the user, or of this one.
    Home(Option<String>),
    /// The absolute name of the directory in which the whole command starts.
    Start,
    /// A pipe to or from a command in `>(…)` or `<(…)`.
    Pipe,
    /// A new file or directory from `mktemp`.
    Temporary,
    /// A text without slashes, and not only dots.
    Name,
    /// Any number of such texts.
    Names,
    /// Nothing, or a slash and a path without `..`.
    Below,
    Unknown,
    /// Unknown, and perhaps several arguments, or none.
    UnknownMany,
}

/// What the text determines about a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Exactly this.
    Known(String),
    /// This, behind the home directory of the user, or of the user who is named.
    UnderHome {
        /// The user whose home directory it is, if not the current one.
        user: Option<String>,
        /// Empty, or a slash and more.
        rest: String,
    },
    /// The matches of this shell pattern, or the pattern itself if it matches nothing. Literal special characters
    /// are escaped with a backslash.
    Glob(String),
    /// This directory, or something below it, by a path without `..`.
    Within(String),
    /// A file from `mktemp` in the directory for temporary files, or something below it, by a path without `..`.
    Temporary,
    /// The text does not decide it.
    Unknown,
}

impl Field {
    /// A text that is known.
    pub fn text(text: impl Into<String>) -> Self {
        Self { pieces: vec![Piece::Text(text.into())] }
    }

    /// A path as a tool call names it: a leading `~` is the home directory.
    pub fn path(text: &str) -> Self {
        match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                Self { pieces: vec![Piece::Home(None), Piece::Text(rest.to_owned())] }
            }
            _ => Self::text(text),
        }
    }

    /// A text of which nothing is known.
    pub fn unknown() -> Self {
        Self { pieces: vec![Piece::Unknown] }
    }

    /// Any number of arguments of which nothing is known.
    pub fn unknown_many() -> Self {
        Self { pieces: vec![Piece::UnknownMany] }
    }

    /// The argument, if the text decides it.
    pub fn known(&self) -> Option<String> {
        self.known_text().map(Cow::into_owned)
    }

    /// The same, without a copy if possible.
    pub(crate) fn known_text(&self) -> Option<Cow<'_, str>> {
        if let [Piece::Text(text)] = self.pieces.as_slice() {
            return Some(Cow::Borrowed(text));
        }
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => Some(text.as_str()),
                Piece::Pattern(_)
                | Piece::Match(_)
                | Piece::Home(_)
                | Piece::Start
                | Piece::Pipe
                | Piece::Temporary
                | Piece::Name
                | Piece::Names
                | Piece::Below
                | Piece::Unknown
                | Piece::UnknownMany => None,
            })
            .collect()
    }

    /// The name of a program without its directory, which need not be known. What may be several
    /// arguments may begin with any program.
    pub(super) fn program_name(&self) -> Option<String> {
        if let Some(path) = self.known_text() {
            return Some(base_name(&path).to_owned());
        }
        let Some(Piece::Text(end)) = self.pieces.last() else { return None };
        let (_, name) = end.rsplit_once('/')?;
        (!name.is_empty() && !self.may_be_many()).then(|| name.to_owned())
    }

    /// Whether it may be several arguments, or none.
    pub fn may_be_many(&self) -> bool {
        let many =
            |piece: &Piece| matches!(piece, Piece::UnknownMany | Piece::Pattern(_) | Piece::Names);
        self.pieces.iter().any(many)
    }

    pub(super) fn of(pieces: Vec<Piece>) -> Self {
        let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match (joined.last_mut(), piece) {
                (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
                (_, piece) => joined.push(piece),
            }
        }
        Self { pieces: joined }
    }

    /// The text with one sign in each place that is not known.
    pub(super) fn with_holes(&self) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) | Piece::Pattern(text) | Piece::Match(text) => text.clone(),
            Piece::Home(_)
            | Piece::Start
            | Piece::Pipe
            | Piece::Temporary
            | Piece::Name
            | Piece::Names
            | Piece::Below
            | Piece::Unknown
            | Piece::UnknownMany => "…".to_owned(),
        };
        self.pieces.iter().map(text).collect()
    }

    /// The approximate size of a copy, in bytes.
    pub(super) fn weight(&self) -> usize {
        let length = |piece: &Piece| match piece {
            Piece::Text(text) | Piece::Pattern(text) | Piece::Match(text) => text.len(),
            Piece::Home(_)
            | Piece::Start
            | Piece::Pipe
            | Piece::Temporary
            | Piece::Name
            | Piece::Names
            | Piece::Below
            | Piece::Unknown
            | Piece::UnknownMany => 0,
        };
        64 + self.pieces.iter().map(length).sum::<usize>()
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

impl fmt::Display for Field {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(out)
    }
}

impl Field {
    /// The displayed argument, without a copy if possible.
    pub(crate) fn shown(&self) -> Cow<'_, str> {
        match self.pieces.as_slice() {
            [Piece::Text(text)] => Cow::Borrowed(text),
            _ => Cow::Owned(self.to_string()),
        }
    }

    /// Appends the displayed argument.
    pub(crate) fn append_to(&self, text: &mut String) {
        // Writing to a text cannot fail.
        let _ = self.write_to(text);
    }

    fn write_to(&self, out: &mut impl fmt::Write) -> fmt::Result {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) | Piece::Pattern(text) | Piece::Match(text) => {
                    out.write_str(text)?;
                }
                Piece::Home(user) => write!(out, "~{}", user.as_deref().unwrap_or_default())?,
                Piece::Start => out.write_str("$PWD")?,
                Piece::Pipe => out.write_str(PIPE)?,
                Piece::Temporary => out.write_str("$(mktemp)")?,
                Piece::Name | Piece::Names | Piece::Below => out.write_str("*")?,
                Piece::Unknown | Piece::UnknownMany => out.write_str("…")?,
            }
        }
        Ok(())
    }
}

/// Arguments as they grow, piece by piece.
#[derive(Debug, Clone, Default)]
pub(super) struct FieldBuilder {
    done: Vec<Field>,
    current: Option<Vec<Piece>>,
    length: usize,
    /// An unquoted `[` that becomes a pattern with a later `]`.
    open_bracket: bool,
}

/// A word that grows longer than this is as good as unknown.
const MAX_LENGTH: usize = 64 * 1024;

impl FieldBuilder {
    /// Quoted text: part of the argument, even if it is empty.
    pub(super) fn quoted(&mut self, text: &str) {
        self.push(Piece::Text(text.to_owned()));
    }

    /// Unquoted text of the command itself: it may be a pattern, but it is not split.
    pub(super) fn unquoted(&mut self, text: &str) {
        let closes = text.contains(']') && (self.open_bracket || text.contains('['));
        self.open_bracket |= text.contains('[');
        // With `extglob`, the value of a variable may be such a pattern.
        let extended = ["@(", "+(", "!("].iter().any(|start| text.contains(start));
        if text.contains(['*', '?']) || closes || extended {
            self.push(Piece::Pattern(text.to_owned()));
        } else if !text.is_empty() {
            self.push(Piece::Text(text.to_owned()));
        }
    }

    /// The value of an unquoted expansion: split at blanks.
    pub(super) fn split(&mut self, value: &str) {
        let blank = |c: char| matches!(c, ' ' | '\t' | '\n');
        let mut first = true;
        for part in value.split(blank) {
            if !first {
                self.end();
            }
            first = false;
            self.unquoted(part);
        }
    }

    /// A value that is known in part, quoted.
    pub(super) fn value(&mut self, value: &Field) {
        self.push(Piece::Text(String::new()));
        for piece in &value.pieces {
            self.push(piece.clone());
        }
    }

    /// A value that is known in part, unquoted: what is unknown of it may be split.
    pub(super) fn split_value(&mut self, value: &Field) {
        for piece in &value.pieces {
            match piece {
                Piece::Text(text) => self.split(text),
                Piece::Unknown => self.push(Piece::UnknownMany),
                Piece::Pattern(_)
                | Piece::Match(_)
                | Piece::Home(_)
                | Piece::Start
                | Piece::Pipe
                | Piece::Temporary
                | Piece::Name
                | Piece::Names
                | Piece::Below
                | Piece::UnknownMany => self.push(piece.clone()),
            }
        }
    }

    pub(super) fn unknown(&mut self) {
        self.push(Piece::Unknown);
    }

    pub(super) fn unknown_many(&mut self) {
        self.push(Piece::UnknownMany);
    }

    /// Here one argument ends and another may begin.
    pub(super) fn end(&mut self) {
        self.open_bracket = false;
        if let Some(pieces) = self.current.take() {
            self.done.push(Field { pieces });
        }
    }

    pub(super) fn finish(mut self) -> Vec<Field> {
        self.end();
        self.done
    }

    fn push(&mut self, piece: Piece) {
        if let Piece::Text(text) | Piece::Pattern(text) = &piece {
            self.length += text.len() + 1;
        }
        if self.length > MAX_LENGTH {
            self.done.clear();
            self.current = Some(vec![Piece::UnknownMany]);
            return;
        }
        let current = self.current.get_or_insert_default();
        match (current.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            // A quoted empty text makes an argument but adds nothing to one.
            (Some(_), Piece::Text(text)) if text.is_empty() => {}
            (Some(Piece::Text(before)), piece) if before.is_empty() => {
                current.pop();
                current.push(piece);
            }
            (_, piece) => current.push(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(grow: impl Fn(&mut FieldBuilder)) -> Vec<String> {
        let mut builder = FieldBuilder::default();
        grow(&mut builder);
        builder.finish().iter().map(|field| format!("{field}")).collect()
    }

    #[test]
    fn values_are_split_and_joined_like_in_bash() {
        assert_eq!(grown(|g| g.split("a  b ")), ["a", "b"]);
        assert_eq!(
            grown(|g| {
                g.quoted("x");
                g.split("a b");
                g.quoted("y");
            }),
            ["xa", "by"]
        );
        assert_eq!(
            grown(|g| {
                g.quoted("x");
                g.split(" a");
            }),
            ["x", "a"]
        );
        assert_eq!(grown(|g| g.quoted("")), [""]);
        assert!(grown(|g| g.split("")).is_empty());
    }

    #[test]
    fn only_plain_text_is_known() {
        assert_eq!(Field::text("a").known().as_deref(), Some("a"));
        assert_eq!(Field::unknown().known(), None);
        let mut builder = FieldBuilder::default();
        builder.unquoted("g*t");
        let fields = builder.finish();
        assert_eq!(fields.first().and_then(Field::known), None);
        assert!(fields.first().is_some_and(Field::may_be_many));
    }
}
