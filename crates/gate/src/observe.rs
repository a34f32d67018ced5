//! Looking up what a decision has to know: where paths lead, what globs match, what programs are.

mod listing;
mod programs;
mod walk;

use std::path::{Path, PathBuf};

use bailiwick_policy::call::Call;
use bailiwick_policy::facts::{Enforcement, Facts, Lookups};

use crate::error::HostError;

/// The root, home and working directory of a call.
#[derive(Debug, Clone)]
pub struct HostContext {
    root: String,
    home: Option<String>,
    directory: Option<String>,
    enforcement: Enforcement,
}

impl HostContext {
    /// With this root; the repository around the gate's own directory if none is given.
    pub fn here(root: Option<&Path>) -> Result<Self, HostError> {
        let directory = std::env::current_dir().map_err(HostError::WorkingDirectory)?;
        let root = match root {
            Some(root) => root.to_path_buf(),
            None => repository_around(&directory).unwrap_or_else(|| directory.clone()),
        };
        Self::at(&root, &directory)
    }

    /// As if started in this directory, which is the root: by its name if it does not exist.
    pub fn alone_in(directory: &Path) -> Result<Self, HostError> {
        if directory.exists() {
            return Self::at(directory, directory);
        }
        let named = directory.to_str().and_then(walk::resolve_path);
        let resolved = named.ok_or(HostError::CallDirectory)?;
        let here = Self::at(Path::new("/"), directory)?;
        Ok(Self { root: resolved.real, ..here })
    }

    /// With this root, as if started in this directory.
    pub fn at(root: &Path, directory: &Path) -> Result<Self, HostError> {
        let root = std::fs::canonicalize(root)
            .map_err(|error| HostError::Root { path: root.to_owned(), error })?;
        let text = |path: PathBuf| path.into_os_string().into_string().ok();
        Ok(Self {
            root: text(root).ok_or(HostError::RootNotUtf8)?,
            home: std::env::var_os("HOME").and_then(|home| home.into_string().ok()),
            directory: text(directory.to_path_buf()),
            enforcement: Enforcement::TextOnly,
        })
    }

    /// The same with another home: that of an agent, whose calls are judged from outside.
    #[must_use]
    pub fn with_home(mut self, home: &Path) -> Self {
        self.home = home.to_str().map(str::to_owned);
        self
    }

    /// The same where somebody else holds the limits on paths.
    #[must_use]
    pub fn with_enforcement(mut self, enforcement: Enforcement) -> Self {
        self.enforcement = enforcement;
        self
    }

    /// The facts that are known before anything is asked.
    pub fn facts(&self) -> Facts {
        Facts {
            root: self.root.clone(),
            home: self.home.clone().filter(|home| home.starts_with('/')),
            directory: self.directory.clone(),
            enforcement: self.enforcement,
            ..Facts::default()
        }
    }
}

/// The nearest directory upwards that has a `.git`, links followed.
pub fn repository_around(directory: &Path) -> Option<PathBuf> {
    let real = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    real.ancestors()
        .find(|place| place.join(".git").symlink_metadata().is_ok())
        .map(Path::to_path_buf)
}

/// Looks up these facts. What cannot be found out is left out, and then denied.
pub fn look_up(lookups: &Lookups, call: &Call, facts: &mut Facts) {
    for path in &lookups.paths {
        if let Some(resolved) = walk::resolve_path(path) {
            facts.paths.insert(path.clone(), resolved);
        }
    }
    for (glob, trees) in &lookups.globs {
        let matches = listing::expand(glob);
        for resolved in matches.iter().flatten().filter(|_| *trees) {
            facts.trees.insert(resolved.entry.clone(), listing::tree(&resolved.entry));
        }
        facts.globs.insert(glob.clone(), matches);
    }
    for tree in &lookups.trees {
        let entry =
            walk::resolve_path(tree).map_or_else(|| tree.clone(), |resolved| resolved.entry);
        facts.trees.insert(tree.clone(), listing::tree(&entry));
    }
    for path in &lookups.links {
        facts.links.insert(path.clone(), listing::has_links(path));
    }
    let directory = match (&call.directory, &facts.directory) {
        (Some(own), Some(started)) => Some(bailiwick_policy::paths::join(started, own)),
        (own, started) => own.clone().or_else(|| started.clone()),
    };
    for name in &lookups.programs {
        if let Some(real_name) = programs::real_name(name, directory.as_deref(), &facts.root) {
            facts.programs.insert(name.clone(), real_name);
        }
    }
}
