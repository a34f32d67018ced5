//! The files of a repository as the detectors see them: names, and the text of a few.

use crate::tree::Tree;

/// The files of a repository: their paths, and a tree to read the few texts that matter.
pub struct Files<'a> {
    paths: Vec<String>,
    tree: &'a dyn Tree,
}

impl<'a> Files<'a> {
    /// `paths` are relative to the root, `/` between the parts, without ignored files.
    pub fn new(mut paths: Vec<String>, tree: &'a dyn Tree) -> Self {
        paths.sort_unstable();
        paths.dedup();
        Self { paths, tree }
    }

    pub(super) fn paths(&self) -> &[String] {
        &self.paths
    }

    pub(super) fn root(&self) -> Directory<'_> {
        Directory { files: self, path: "" }
    }

    pub(super) fn directory<'b>(&'b self, path: &'b str) -> Directory<'b> {
        Directory { files: self, path }
    }
}

/// One directory of [`Files`]; all names are relative to it.
#[derive(Clone, Copy)]
pub(super) struct Directory<'a> {
    files: &'a Files<'a>,
    path: &'a str,
}

impl<'a> Directory<'a> {
    /// Empty for the root.
    pub(super) fn path(self) -> &'a str {
        self.path
    }

    /// The path of an entry, from the root of the repository.
    pub(super) fn join(self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }

    /// Every file at any depth.
    pub(super) fn below(self) -> impl Iterator<Item = &'a str> {
        let prefix = self.join("");
        let start = self.files.paths.partition_point(|path| path.as_str() < prefix.as_str());
        let rest = self.files.paths.get(start..).unwrap_or_default();
        rest.iter().map_while(move |path| path.strip_prefix(prefix.as_str()))
    }

    /// The files that lie directly here.
    pub(super) fn names(self) -> impl Iterator<Item = &'a str> {
        self.below().filter(|path| !path.contains('/'))
    }

    pub(super) fn has(self, name: &str) -> bool {
        self.files.paths.binary_search(&self.join(name)).is_ok()
    }

    /// The first of these names that is a file here.
    pub(super) fn first_of<'n>(self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.has(name))
    }

    /// The text of a file. A file that cannot be read counts as absent: detection never fails.
    pub(super) fn read(self, name: &str) -> Option<String> {
        if !self.has(name) {
            return None;
        }
        self.files.tree.read(&self.join(name)).ok().flatten()
    }

    /// This directory and those above it, the nearest first.
    pub(super) fn and_above(self) -> impl Iterator<Item = Directory<'a>> {
        let mut next = Some(self.path);
        std::iter::from_fn(move || {
            let path = next?;
            next = match path.rsplit_once('/') {
                Some((parent, _)) => Some(parent),
                None if path.is_empty() => None,
                None => Some(""),
            };
            Some(Directory { files: self.files, path })
        })
    }
}

/// The extension of a path's file name, without the dot.
pub(super) fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, extension) = name.rsplit_once('.')?;
    (!stem.is_empty()).then_some(extension)
}
