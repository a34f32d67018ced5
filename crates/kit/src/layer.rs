//! One layer of a kit: the source and layout of its files.

use std::fmt;

use bailiwick_model::{CapabilityName, Problem, RoleName, Source};
use serde::Serialize;

use crate::tree::{Tree, TreeError};

/// The source of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Compiled in.
    Embedded,
    /// The user's own.
    User,
    /// The repository's.
    Repository,
    /// A directory named on the command line.
    KitRoot,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Embedded => "embedded",
            Self::User => "user",
            Self::Repository => "repository",
            Self::KitRoot => "kit-root",
        })
    }
}

/// The directory names of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `capabilities/` and `roles/`.
    Plain,
    /// `_capabilities/` and `_roles/`, as in a kit of the kei tools.
    Underscore,
}

impl Layout {
    /// The directory of capabilities.
    pub fn capabilities(self) -> &'static str {
        match self {
            Self::Plain => "capabilities",
            Self::Underscore => "_capabilities",
        }
    }

    /// The directory of roles.
    pub fn roles(self) -> &'static str {
        match self {
            Self::Plain => "roles",
            Self::Underscore => "_roles",
        }
    }

    /// The directory of one capability.
    pub fn capability(self, name: &CapabilityName) -> String {
        format!("{}/{}/{}", self.capabilities(), name.category(), name.slug())
    }

    /// The file of one role.
    pub fn role(self, name: &RoleName) -> String {
        format!("{}/{name}.toml", self.roles())
    }
}

/// One set of files.
pub struct Layer {
    pub origin: Origin,
    /// Its directory names.
    pub layout: Layout,
    shown_as: String,
    tree: Box<dyn Tree>,
}

impl Layer {
    /// A layer whose files are shown to people behind the prefix `shown_as`.
    pub fn new(origin: Origin, layout: Layout, shown_as: &str, tree: Box<dyn Tree>) -> Self {
        Self { origin, layout, shown_as: shown_as.to_owned(), tree }
    }

    /// A file of this layer; none if it does not exist.
    pub fn source(&self, path: &str) -> Result<Option<Source>, Vec<Problem>> {
        let text = self.tree.read(path).map_err(|error| vec![self.unreadable(&error)])?;
        Ok(text.map(|text| Source::new(self.shown(path), text)))
    }

    /// The names in one of its directories.
    pub fn list(&self, path: &str) -> Result<Vec<String>, Vec<Problem>> {
        self.tree.list(path).map_err(|error| vec![self.unreadable(&error)])
    }

    /// A path as people are shown it.
    pub fn shown(&self, path: &str) -> String {
        format!("{}{path}", self.shown_as)
    }

    fn unreadable(&self, error: &TreeError) -> Problem {
        let place = Source::new(self.shown(&error.path), "").whole();
        Problem::error("unreadable", place, format!("the file cannot be read: {}", error.why))
    }
}
