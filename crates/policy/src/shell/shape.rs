//! Fields as paths: their shapes, and how they are joined and split.

use super::field::{Field, PIPE, Piece, Shape};

impl Field {
    /// The shape of it as a path.
    pub fn shape(&self) -> Shape {
        if let Some(text) = self.known() {
            return Shape::Known(text);
        }
        if self.pieces() == [Piece::Pipe] {
            return Shape::Known(PIPE.to_owned());
        }
        let Some((first, rest)) = self.pieces().split_first() else { return Shape::Unknown };
        match first {
            Piece::Home(user) => match Self::of(rest.to_vec()).known() {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                    Shape::UnderHome { user: user.clone(), rest }
                }
                _ => Shape::Unknown,
            },
            Piece::Temporary => match tame(rest) {
                true => Shape::Temporary,
                false => Shape::Unknown,
            },
            Piece::Text(_)
            | Piece::Pattern(_)
            | Piece::Match(_)
            | Piece::Start
            | Piece::Pipe
            | Piece::Name
            | Piece::Names
            | Piece::Below
            | Piece::Unknown
            | Piece::UnknownMany => self.glob().or_else(|| self.within()).unwrap_or(Shape::Unknown),
        }
    }

    fn glob(&self) -> Option<Shape> {
        let mut glob = String::new();
        for piece in self.pieces() {
            match piece {
                Piece::Text(text) => {
                    for c in text.chars() {
                        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
                            glob.push('\\');
                        }
                        glob.push(c);
                    }
                }
                Piece::Pattern(text) | Piece::Match(text) => {
                    let whole = text.matches('[').count() == text.matches(']').count();
                    if text.contains('\\') || !whole {
                        return None;
                    }
                    glob.push_str(text);
                }
                Piece::Home(_)
                | Piece::Start
                | Piece::Pipe
                | Piece::Temporary
                | Piece::Name
                | Piece::Names
                | Piece::Below
                | Piece::Unknown
                | Piece::UnknownMany => return None,
            }
        }
        Some(Shape::Glob(glob))
    }

    /// The directory that is known, if what follows does not lead out of it.
    fn within(&self) -> Option<Shape> {
        let (head, rest) = match self.pieces().split_first()? {
            (Piece::Text(text), rest) => (text.as_str(), rest),
            _ => ("", self.pieces()),
        };
        // A name that is begun continues in what follows; a directory above which all is, does not.
        let whole = matches!(rest.first(), Some(Piece::Below)) && !head.is_empty();
        let (directory, begun) = match head.rsplit_once('/') {
            _ if whole => (head, ""),
            Some(("", begun)) => ("/", begun),
            Some((directory, begun)) => (directory, begun),
            None => (".", head),
        };
        let dots = !begun.is_empty() && begun.chars().all(|c| c == '.');
        let free = matches!(rest.first(), Some(Piece::Name | Piece::Names | Piece::Below));
        (free && !dots && tame(rest)).then(|| Shape::Within(directory.to_owned()))
    }

    /// Whether it names the same file wherever the command is.
    pub(super) fn is_absolute(&self) -> bool {
        match self.pieces().first() {
            Some(Piece::Text(text) | Piece::Pattern(text) | Piece::Match(text)) => {
                text.starts_with('/')
            }
            Some(Piece::Home(_) | Piece::Start | Piece::Pipe | Piece::Temporary) => true,
            Some(
                Piece::Name | Piece::Names | Piece::Below | Piece::Unknown | Piece::UnknownMany,
            )
            | None => false,
        }
    }

    /// Whether it may be absolute without being known to be so.
    pub(super) fn may_be_absolute(&self) -> bool {
        matches!(self.pieces().first(), Some(Piece::Unknown | Piece::UnknownMany | Piece::Below))
    }

    /// A path below this one, which is a directory.
    pub(super) fn below(&self, path: &Self) -> Self {
        let ours = self.pieces().to_vec();
        let ends = match ours.last() {
            Some(Piece::Text(text) | Piece::Pattern(text) | Piece::Match(text)) => {
                text.ends_with('/') || (ours.len() == 1 && text.is_empty())
            }
            Some(_) => false,
            None => true,
        };
        let slash = (!ends).then(|| Piece::Text("/".to_owned()));
        Self::of(ours.into_iter().chain(slash).chain(path.pieces().iter().cloned()).collect())
    }

    /// The text that it begins with.
    pub(super) fn leading_text(&self) -> &str {
        match self.pieces().first() {
            Some(Piece::Text(text)) => text,
            _ => "",
        }
    }

    /// Both in one word.
    pub(super) fn joined(&self, more: &Self) -> Self {
        Self::of(self.pieces().iter().chain(more.pieces()).cloned().collect())
    }

    /// The same with a text appended.
    pub(super) fn followed_by(&self, text: &str) -> Self {
        let more = Piece::Text(text.to_owned());
        Self::of(self.pieces().iter().cloned().chain([more]).collect())
    }

    /// One of its possible arguments.
    pub(super) fn single(&self) -> Self {
        let single = |piece: &Piece| match piece {
            Piece::Pattern(text) => Piece::Match(text.clone()),
            Piece::Names => Piece::Name,
            Piece::UnknownMany => Piece::Unknown,
            Piece::Text(_)
            | Piece::Match(_)
            | Piece::Home(_)
            | Piece::Start
            | Piece::Pipe
            | Piece::Temporary
            | Piece::Name
            | Piece::Below
            | Piece::Unknown => piece.clone(),
        };
        Self::of(self.pieces().iter().map(single).collect())
    }

    /// The last component, as a name in some other directory.
    pub(super) fn base_name(&self) -> Self {
        self.split_name().map_or_else(|| Self::of(vec![Piece::Name]), |(_, name)| name)
    }

    /// The directory it is in; `None` if that is not known.
    pub(super) fn parent(&self) -> Option<Self> {
        self.split_name().map(|(parent, _)| parent.unwrap_or_else(|| Self::text(".")))
    }

    /// The directory, if one is named, and the last component.
    pub(super) fn split_name(&self) -> Option<(Option<Self>, Self)> {
        if let Some(text) = self.known() {
            let text = text.trim_end_matches('/');
            return match text.rsplit_once('/') {
                Some(("", name)) => Some((Some(Self::text("/")), Self::text(name))),
                Some((parent, name)) => Some((Some(Self::text(parent)), Self::text(name))),
                None => Some((None, Self::text(text))),
            };
        }
        let (mut before, mut behind) = (self.pieces().to_vec(), Vec::new());
        while let Some(piece) = before.pop() {
            let (text, make): (&str, fn(String) -> Piece) = match &piece {
                Piece::Text(text) => (text, Piece::Text),
                Piece::Pattern(text) => (text, Piece::Pattern),
                Piece::Match(text) => (text, Piece::Match),
                Piece::Name | Piece::Names => {
                    behind.insert(0, piece);
                    continue;
                }
                Piece::Home(_)
                | Piece::Start
                | Piece::Pipe
                | Piece::Temporary
                | Piece::Below
                | Piece::Unknown
                | Piece::UnknownMany => return None,
            };
            let Some((parent, name)) = text.rsplit_once('/') else {
                behind.insert(0, piece);
                continue;
            };
            if name.is_empty() && behind.is_empty() {
                return None;
            }
            behind.insert(0, part(name, make));
            let root = before.is_empty() && parent.is_empty();
            before.push(if root { Piece::Text("/".to_owned()) } else { part(parent, make) });
            return Some((Some(Self::of(before)), Self::of(behind)));
        }
        Some((None, Self::of(behind)))
    }

    /// Without this text at its end; `None` if it is not sure to end so.
    pub(super) fn without_suffix(&self, suffix: &str) -> Option<Self> {
        let mut pieces = self.pieces().to_vec();
        let (text, make): (String, fn(String) -> Piece) = match pieces.pop()? {
            Piece::Text(text) => (text, Piece::Text),
            Piece::Pattern(text) => (text, Piece::Pattern),
            Piece::Match(text) => (text, Piece::Match),
            Piece::Home(_)
            | Piece::Start
            | Piece::Pipe
            | Piece::Temporary
            | Piece::Name
            | Piece::Names
            | Piece::Below
            | Piece::Unknown
            | Piece::UnknownMany => return None,
        };
        let plain = !suffix.contains(['*', '?', '[', ']', '\\', '$', '"', '\'']);
        let text = text.strip_suffix(suffix).filter(|_| plain)?;
        pieces.push(part(text, make));
        Some(Self::of(pieces))
    }
}

/// A part of a pattern may be plain text.
fn part(text: &str, make: fn(String) -> Piece) -> Piece {
    if text.contains(['*', '?', '[', ']']) {
        make(text.to_owned())
    } else {
        Piece::Text(text.to_owned())
    }
}

/// Whether these pieces lead downwards only.
fn tame(pieces: &[Piece]) -> bool {
    pieces.iter().all(|piece| match piece {
        // A dot at the end may become `..` with what follows.
        Piece::Text(text) => {
            !text.split('/').any(|part| part == "..") && !text.ends_with("/.") && text != "."
        }
        Piece::Pattern(text) | Piece::Match(text) => {
            let wild = |part: &str| part.starts_with('.') || part.starts_with('[');
            !text.contains('\\') && !text.split('/').any(wild)
        }
        Piece::Name | Piece::Names | Piece::Below => true,
        Piece::Home(_)
        | Piece::Start
        | Piece::Pipe
        | Piece::Temporary
        | Piece::Unknown
        | Piece::UnknownMany => false,
    })
}
