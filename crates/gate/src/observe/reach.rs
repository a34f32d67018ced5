//! The files that a lookup may read.

/// The files that a lookup may read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reach<'a> {
    /// Every file, as the gate of an agent needs.
    Everywhere,
    /// Only what is below this directory, whose path has no links: the reader of the answer must not learn which
    /// other files exist. A path elsewhere counts as a new file at exactly this place.
    Below(&'a str),
}

/// What may be revealed about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It may be read.
    Seen,
    /// A directory above what may be read.
    Ancestor,
    /// It may not be read.
    Unseen,
}

impl Reach<'_> {
    pub(crate) fn place(self, path: &str) -> Place {
        let Self::Below(root) = self else { return Place::Seen };
        let is_below = |path: &str, directory: &str| {
            let rest = path.strip_prefix(directory.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match (is_below(path, root), is_below(root, path)) {
            (true, _) => Place::Seen,
            (false, true) => Place::Ancestor,
            (false, false) => Place::Unseen,
        }
    }

    pub(crate) fn is_limited(self) -> bool {
        matches!(self, Self::Below(_))
    }

    pub(crate) fn sees(self, path: &str) -> bool {
        self.place(path) == Place::Seen
    }
}
