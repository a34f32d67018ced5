//! Looks up the facts that a decision needs: where paths lead, what globs match, what programs are.

mod listing;
mod programs;
mod reach;
mod walk;

use std::path::{Path, PathBuf};

use bailiwick_policy::call::Call;
use bailiwick_policy::facts::{Enforcement, Facts, Lookups};

use reach::Reach;

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
    /// With this root, or the repository around the gate's own directory.
    pub fn here(root: Option<&Path>) -> Result<Self, HostError> {
        let directory = std::env::current_dir().map_err(HostError::WorkingDirectory)?;
        let root = match root {
            Some(root) => root.to_path_buf(),
            None => repository_around(&directory).unwrap_or_else(|| directory.clone()),
        };
        Self::at(&root, &directory)
    }

    /// As if started in this directory, which is the root: by its name if it does not exist.
    pub fn rooted_at(directory: &Path) -> Result<Self, HostError> {
        if directory.exists() {
            return Self::at(directory, directory);
        }
        let named = directory.to_str();
        let named = named.and_then(|named| walk::resolve_path(named, Reach::Everywhere));
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

    /// The same if something else enforces the limits on paths.
    #[must_use]
    pub fn with_enforcement(mut self, enforcement: Enforcement) -> Self {
        self.enforcement = enforcement;
        self
    }

    /// The facts that are known without a lookup.
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

/// Looks up these facts. What cannot be found is left out, and then denied.
pub fn look_up(lookups: &Lookups, call: &Call, facts: &mut Facts) {
    look_up_in(lookups, call, facts, Reach::Everywhere);
}

/// The same for a reader who must not learn which files exist outside the root: none of them is read.
pub fn look_up_in_root(lookups: &Lookups, call: &Call, facts: &mut Facts) {
    let root = facts.root.clone();
    look_up_in(lookups, call, facts, Reach::Below(&root));
}

fn look_up_in(lookups: &Lookups, call: &Call, facts: &mut Facts, reach: Reach<'_>) {
    for path in &lookups.paths {
        if let Some(resolved) = walk::resolve_path(path, reach) {
            facts.paths.insert(path.clone(), resolved);
        }
    }
    for (glob, trees) in &lookups.globs {
        let matches = listing::expand(glob, reach);
        for resolved in matches.iter().flatten().filter(|_| *trees) {
            facts.trees.insert(resolved.entry.clone(), listing::tree(&resolved.entry, reach));
        }
        facts.globs.insert(glob.clone(), matches);
    }
    for tree in &lookups.trees {
        let entry = match walk::resolve_path(tree, reach) {
            Some(resolved) => resolved.entry,
            None if reach.is_limited() => {
                facts.trees.insert(tree.clone(), None);
                continue;
            }
            None => tree.clone(),
        };
        facts.trees.insert(tree.clone(), listing::tree(&entry, reach));
    }
    for path in &lookups.links {
        facts.links.insert(path.clone(), listing::has_links(path, reach));
    }
    let directory = match (&call.directory, &facts.directory) {
        (Some(own), Some(started)) => Some(bailiwick_policy::paths::join(started, own)),
        (own, started) => own.clone().or_else(|| started.clone()),
    };
    for name in &lookups.programs {
        if let Some(real_name) = programs::real_name(name, directory.as_deref(), &facts.root, reach)
        {
            facts.programs.insert(name.clone(), real_name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use bailiwick_policy::Effects;
    use bailiwick_policy::call::Action;
    use bailiwick_policy::decide::lookups;

    use super::*;

    type LookUp = fn(&Lookups, &Call, &mut Facts);

    /// The facts about a command in this directory.
    fn known(command: &str, root: &Path, look_up: LookUp) -> Facts {
        let mut facts = HostContext::at(root, root).unwrap().facts();
        let call = Call {
            cli_tool_name: "Bash".to_owned(),
            tools: Vec::new(),
            action: Action::Shell(command.to_owned()),
            directory: root.to_str().map(str::to_owned),
            ungated_terminal_input: false,
            id: None,
            agent: None,
        };
        let effects = Effects::of(&call);
        look_up(&lookups(&call, &effects, &facts), &call, &mut facts);
        facts
    }

    #[test]
    fn changes_outside_of_the_root_do_not_change_the_facts() {
        let place = tempfile::tempdir().unwrap();
        let place = fs::canonicalize(place.path()).unwrap();
        let (root, outside) = (place.join("root"), place.join("beside"));
        fs::create_dir_all(root.join("src")).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        let commands: Vec<String> = [
            "echo x > BESIDE/secret",
            "echo x > BESIDE/dir/../secret/x",
            "echo x > ../beside/link/x",
            "cp src/a BESIDE/dir",
            "rm BESIDE/*",
            "rm ../beside/s*",
            "rm ../*/secret",
            "rm link/*",
            "rm -rf BESIDE/dir",
            "rm -rf link/dir",
            "echo x > link/dir",
            "cp -r BESIDE/dir src/copy && echo x > src/copy/a",
            "cp -r link/dir src/copy && echo x > src/copy/a",
            "BESIDE/tool push",
            "link/tool push",
        ]
        .map(|command| command.replace("BESIDE", outside.to_str().unwrap()))
        .into();
        let all_facts = |look_up: LookUp| -> Vec<Facts> {
            commands.iter().map(|command| known(command, &root, look_up)).collect()
        };
        let (before, before_everywhere) = (all_facts(look_up_in_root), all_facts(look_up));
        fs::create_dir_all(outside.join("dir")).unwrap();
        fs::write(outside.join("secret"), "s").unwrap();
        fs::write(outside.join("dir/file"), "s").unwrap();
        symlink("/etc", outside.join("link")).unwrap();
        symlink("/usr/bin/git", outside.join("tool")).unwrap();
        for (command, before) in commands.iter().zip(&before) {
            assert_eq!(known(command, &root, look_up_in_root), *before, "{command}");
        }
        for (command, before) in commands.iter().zip(&before_everywhere) {
            assert_ne!(known(command, &root, look_up), *before, "positive control: {command}");
        }
    }

    #[test]
    fn everything_within_the_root_is_known() {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::write(root.join("src/deep/a"), "a").unwrap();
        symlink("deep", root.join("src/link")).unwrap();
        symlink("/usr/bin/git", root.join("tool")).unwrap();
        for command in [
            "rm src/*",
            "rm -rf src",
            "echo x > src/link/a",
            "rm ../*/src/x",
            "cp -r src copy && echo x > copy/link/a",
            "vi x",
            "./tool push",
        ] {
            let within = known(command, &root, look_up_in_root);
            match command {
                // The matches would reveal the names of its neighbours.
                "rm ../*/src/x" => assert!(within.globs.values().all(Option::is_none)),
                _ => assert_eq!(within, known(command, &root, look_up), "{command}"),
            }
        }
    }
}
