//! What a claim is on, and which of these exclude each other.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    File,
    /// A directory with all that is below it.
    Module,
    /// The files of a directory whose names begin with one version, such as `db/migrations/20261119050001`. A version
    /// is used once in a repository, in whichever directory.
    Migration,
}

/// What a claim is on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resource {
    #[serde(rename = "type")]
    pub kind: ResourceKind,
    pub key: String,
}

impl Resource {
    pub fn file(key: &str) -> Self {
        Self { kind: ResourceKind::File, key: key.to_owned() }
    }

    /// A directory with all that is below it.
    pub fn module(directory: &str) -> Self {
        Self { kind: ResourceKind::Module, key: directory.to_owned() }
    }

    /// Whether a path is this one or below it.
    pub(crate) fn contains(&self, path: &Self, fold_case: bool) -> bool {
        overlap(self, path, fold_case) && self.prefix().len() <= path.prefix().len()
    }

    /// The version of a migration.
    pub(crate) fn version(&self) -> Option<&str> {
        match self.kind {
            ResourceKind::Migration => self.prefix().last().copied(),
            ResourceKind::File | ResourceKind::Module => None,
        }
    }

    /// The parts of the path that every file of it begins with. What cannot be a path of the repository is the whole
    /// repository, so that it excludes rather too much than too little.
    fn prefix(&self) -> Vec<&str> {
        let is_glob = |part: &str| part.contains(['*', '?', '[', '{']);
        let mut parts = Vec::new();
        for part in self.key.split('/').filter(|part| !part.is_empty() && *part != ".") {
            if part == ".." {
                return Vec::new();
            }
            if is_glob(part) {
                break;
            }
            parts.push(part);
        }
        parts
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ResourceKind::File => "file",
            ResourceKind::Module => "module",
            ResourceKind::Migration => "migration",
        };
        write!(out, "{kind} {}", self.key)
    }
}

/// Whether two resources cannot be claimed by different agents at once. `fold_case` is for repositories on file
/// systems that do not distinguish `A` and `a`.
pub fn overlap(one: &Resource, other: &Resource, fold_case: bool) -> bool {
    let same = |one: &str, other: &str| {
        one == other || fold_case && one.to_lowercase() == other.to_lowercase()
    };
    match (one.kind, other.kind) {
        (ResourceKind::Migration, ResourceKind::Migration) => {
            match (one.version(), other.version()) {
                (Some(one), Some(other)) => same(one, other),
                // It names no version, so it may be any.
                (None, _) | (_, None) => true,
            }
        }
        (ResourceKind::Migration, ResourceKind::File | ResourceKind::Module) => {
            is_file_of(one, other, same)
        }
        (ResourceKind::File | ResourceKind::Module, ResourceKind::Migration) => {
            is_file_of(other, one, same)
        }
        // One is the other, or above it.
        (ResourceKind::File | ResourceKind::Module, ResourceKind::File | ResourceKind::Module) => {
            let (one, other) = (one.prefix(), other.prefix());
            one.iter().zip(&other).all(|(one, other)| same(one, other))
        }
    }
}

/// Whether a path can be a file of the migration, or a directory above one.
fn is_file_of(migration: &Resource, path: &Resource, same: impl Fn(&str, &str) -> bool) -> bool {
    let (parts, path) = (migration.prefix(), path.prefix());
    let Some((version, directory)) = parts.split_last() else { return true };
    let is_above = directory.iter().zip(&path).all(|(one, other)| same(one, other));
    let is_of_version = |name: &&str| {
        let rest = name.strip_prefix(version);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    is_above && path.get(directory.len()).is_none_or(is_of_version)
}
