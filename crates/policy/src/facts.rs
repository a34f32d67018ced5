//! Facts that a decision needs: looked up before, passed in, stored with the decision.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Paths that must be looked up in the file system. All are absolute; `..` is not resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Paths to resolve.
    pub paths: BTreeSet<String>,
    /// Globs to expand, and whether to list what is below the matches.
    pub globs: BTreeMap<String, bool>,
    /// Directories to list recursively.
    pub trees: BTreeSet<String>,
    /// Whether there are links at these paths or below them.
    pub links: BTreeSet<String>,
    /// Programs to identify, by name or absolute path.
    pub programs: BTreeSet<String>,
}

/// What enforces the limits on paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// The gate alone: what it cannot read, it denies.
    #[default]
    TextOnly,
    /// A sandbox holds them for every process: what no text decides is left to it.
    Kernel,
}

impl Enforcement {
    fn is_text_only(&self) -> bool {
        *self == Self::TextOnly
    }
}

/// The results of lookups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Facts {
    /// The root of the workspace, without links in it.
    pub root: String,
    /// The home directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// The working directory of the gate; the default directory of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// What enforces the limits on paths.
    #[serde(skip_serializing_if = "Enforcement::is_text_only")]
    pub enforcement: Enforcement,
    /// The resolved paths.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<String, ResolvedPath>,
    /// The matches of globs; `None` for one with too many.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub globs: BTreeMap<String, Option<Vec<ResolvedPath>>>,
    /// The files below directories, relative to them; `None` if there are too many.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trees: BTreeMap<String, Option<Vec<String>>>,
    /// Whether there are links at paths or below them; true if there is too much to search.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, bool>,
    /// The names of programs that are really another, by a link or as a copy.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
}

/// A resolved path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedPath {
    /// The entry itself: links in its directories followed, the last one not.
    pub entry: String,
    /// The target with all links followed.
    pub real: String,
    /// The kind of file there.
    pub kind: Kind,
}

/// The file type at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It does not exist, but can be created.
    Missing,
    /// A file, or what is written like one.
    File,
    Directory,
    /// It cannot exist: a file is where a directory should be.
    Impossible,
}
