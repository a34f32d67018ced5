//! What a decision has to know of the world: looked up before, passed in, kept with the decision.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Paths that must be looked up in the file system. All are absolute; `..` is not resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Where these paths lead.
    pub paths: BTreeSet<String>,
    /// What these globs match, and whether what lies below the matches counts too.
    pub globs: BTreeMap<String, bool>,
    /// What lies below these directories.
    pub trees: BTreeSet<String>,
    /// Whether there are links at these paths or below them.
    pub links: BTreeSet<String>,
    /// What these programs really are; as they are named, or absolute.
    pub programs: BTreeSet<String>,
}

/// What enforces the limits on paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// Nobody but the gate: what it cannot read, it denies.
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
    /// Where the gate itself was started; the directory of a call that names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// What enforces the limits on paths.
    #[serde(skip_serializing_if = "Enforcement::is_text_only")]
    pub enforcement: Enforcement,
    /// Where paths lead.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<String, ResolvedPath>,
    /// What globs match; `None` for one that matches too much.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub globs: BTreeMap<String, Option<Vec<ResolvedPath>>>,
    /// The files below directories, relative to them; `None` if there are too many.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trees: BTreeMap<String, Option<Vec<String>>>,
    /// Whether there are links at paths or below them; so it is said where there is too much to tell.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, bool>,
    /// The names of programs that are really another, by a link or as a copy.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedPath {
    /// The entry itself: links in its directories followed, the last one not.
    pub entry: String,
    /// What it leads to: all links followed.
    pub real: String,
    /// What is there.
    pub kind: Kind,
}

/// The file type at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Nothing, yet it could be made.
    Missing,
    /// A file, or what is written like one.
    File,
    Directory,
    /// Nothing, and nothing can be made there: a file stands where a directory should.
    Impossible,
}
