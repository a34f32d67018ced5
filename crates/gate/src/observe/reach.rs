//! Which files a lookup may look at.

/// Which files a lookup may look at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reach<'a> {
    /// Every file, as the gate of an agent has to.
    Everywhere,
    /// Only what is below this directory, whose own path has no links: whoever reads the answer must not learn which
    /// other files exist. A path elsewhere counts as one that leads where it says and is not there yet.
    Below(&'a str),
}

/// What may be known about a path before it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It may be looked at.
    Seen,
    /// A directory around what may be looked at.
    Around,
    /// It may not be looked at.
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
            (false, true) => Place::Around,
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
