//! What a project needs besides its tracked files: installed packages, package caches, interpreters. Agents and
//! checks see it; their writes to it are discarded.
//!
//! ```text
//!  prepared    the setup of a task, run once per set of dependencies and kept
//!  checkout    directories of installed packages that git ignores in the person's checkout
//!  caches      what package managers keep in the person's home; never their credentials
//! ```

mod advice;
mod caches;
mod gateway;
mod prepared;
mod registries;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use crate::sandbox::Bind;

pub(crate) use advice::advice;
pub(crate) use gateway::Gateway;
pub(crate) use prepared::{Prepared, UseLock, key, place};
pub use prepared::{is_setup_in_use, kept_setups, remove_setup};
pub(crate) use registries::Registries;

/// Restores our own permissions on a directory tree: a program may have removed them.
pub(crate) fn open_up(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    fs::read_dir(path)?.try_for_each(|entry| open_up(&entry?.path()))
}

/// The path of the tree inside a setup: absolute paths in installed files refer to it.
pub const SETUP_TREE: &str = "/bailiwick/tree";
/// The home inside a setup.
pub const SETUP_HOME: &str = "/bailiwick/home";

/// Directories of installed packages, by name.
const INSTALLED: [&str; 6] =
    ["node_modules", ".venv", "venv", "vendor", "__pypackages__", "bower_components"];

/// Whether a directory of this name holds installed packages.
pub fn is_installed_packages(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| INSTALLED.contains(&name))
}

/// Who wrote the base commit of a setup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BaseTrust {
    /// People with write access to the repository: it configures package sources.
    #[default]
    Trusted,
    /// Anyone, as in a fork: it opens no host, and its result is not shared.
    Untrusted,
}

/// A directory that is shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// On the host.
    pub source: PathBuf,
    /// Its path, below the tree or the home.
    pub place: PathBuf,
}

/// What agents and checks see besides a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectEnvironment {
    /// Directories in the tree.
    pub in_tree: Vec<Share>,
    /// Single files in the tree, which are copied.
    pub files: Vec<Share>,
    /// Directories in the home.
    pub in_home: Vec<Share>,
    /// The home of the setup, seen at [`SETUP_HOME`].
    pub setup_home: Option<PathBuf>,
    /// Directories at which the tree is seen as well: absolute paths in installed packages lead there.
    pub aliases: Vec<PathBuf>,
    /// Protects the result of the setup from removal.
    pub(crate) in_use: Option<UseLock>,
}

impl ProjectEnvironment {
    /// The directory with the result of its setup.
    pub fn setup(&self) -> Option<&Path> {
        self.setup_home.as_deref().and_then(Path::parent)
    }

    /// A person's environment: caches, and directories of the checkout that git ignores.
    pub fn of_person(home: &Path, checkout: &Path, installed: &[String]) -> Self {
        let share = |path: &String| {
            let source = checkout.join(path);
            let plain = fs::symlink_metadata(&source).is_ok_and(|found| found.is_dir());
            plain.then(|| Share { source, place: PathBuf::from(path) })
        };
        let in_tree: Vec<Share> = installed.iter().filter_map(share).collect();
        // A virtual environment has the path of the project in it.
        let refers = in_tree.iter().any(|share| share.source.join("pyvenv.cfg").is_file());
        Self {
            in_tree,
            in_home: caches::of(home),
            aliases: if refers { vec![checkout.to_owned()] } else { Vec::new() },
            ..Self::default()
        }
    }

    /// The same with the result of a task's setup in place of the checkout's directories.
    pub(crate) fn with_setup(&self, prepared: &Prepared) -> Self {
        let home = prepared.home();
        let mut in_home: Vec<Share> = self.in_home.clone();
        for share in caches::below(&home) {
            in_home.retain(|other| other.place != share.place);
            in_home.push(share);
        }
        Self {
            in_tree: prepared.directories(),
            files: prepared.files(),
            in_home,
            setup_home: Some(home),
            aliases: vec![PathBuf::from(SETUP_TREE)],
            in_use: Some(prepared.in_use()),
        }
    }

    /// The search path for programs, with those that the setup installed into its home.
    pub fn path(&self, path: &str) -> String {
        let installed = self.setup_home.as_ref().filter(|home| home.join(".local/bin").is_dir());
        match installed {
            Some(_) => format!("{SETUP_HOME}/.local/bin:{path}"),
            None => path.to_owned(),
        }
    }

    /// The shares that fit into a tree: what the tree itself has at a place stays.
    pub(crate) fn fitting(&self, tree: &Path) -> Vec<Share> {
        let free = |share: &&Share| is_free(tree, &share.place);
        self.in_tree.iter().filter(free).cloned().collect()
    }

    /// Binds that show a tree at each alias: its plain entries, and the shares at its top.
    pub(crate) fn alias_binds(&self, tree: &Path, shares: &[Share]) -> Vec<Bind> {
        let entries: Vec<PathBuf> = fs::read_dir(tree)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| {
                // A link could lead anywhere.
                let plain = |kind: fs::FileType| kind.is_dir() || kind.is_file();
                entry.file_name() != ".git" && entry.file_type().is_ok_and(plain)
            })
            .map(|entry| PathBuf::from(entry.file_name()))
            .collect();
        let shared = |name: &PathBuf| shares.iter().any(|share| share.place == *name);
        self.aliases
            .iter()
            .filter(|alias| *alias != tree)
            .flat_map(|alias| {
                let own = entries.iter().filter(|name| !shared(name));
                let own = own.map(|name| Bind::new(tree.join(name), alias.join(name)));
                let top = shares.iter().filter(|share| share.place.components().count() == 1);
                own.chain(top.map(|share| Bind::new(&share.source, alias.join(&share.place))))
            })
            .collect()
    }
}

/// Creates the mount point of a share. Fails if a link is on the way.
pub fn make_place(root: &Path, place: &Path) -> io::Result<()> {
    let mut path = root.to_owned();
    for part in place.components() {
        path.push(part);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(&path)?.is_dir() {
                    return Err(io::Error::other(format!("{} is not a directory", path.display())));
                }
            }
            result => result?,
        }
    }
    Ok(())
}

/// Whether a tree has nothing at a place, or an empty directory.
fn is_free(tree: &Path, place: &Path) -> bool {
    let mut path = tree.to_owned();
    for part in place.components() {
        let Component::Normal(name) = part else { return false };
        path.push(name);
        match fs::symlink_metadata(&path) {
            Err(_) => return true,
            Ok(found) if !found.is_dir() => return false,
            Ok(_) => {}
        }
    }
    fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_tree_are_not_covered_and_links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (tree, checkout) = (place.path().join("tree"), place.path().join("checkout"));
        for directory in ["tree/vendor", "tree/empty", "checkout/vendor", "checkout/.venv"] {
            fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        fs::write(tree.join("vendor/own"), "").unwrap();
        fs::write(tree.join("setup.py"), "").unwrap();
        fs::write(checkout.join(".venv/pyvenv.cfg"), "").unwrap();
        std::os::unix::fs::symlink("/etc", tree.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc", checkout.join("node_modules")).unwrap();
        let named = ["vendor", ".venv", "node_modules"].map(str::to_owned);
        let environment = ProjectEnvironment::of_person(place.path(), &checkout, &named);
        let shares = environment.fitting(&tree);
        let places: Vec<&Path> = shares.iter().map(|share| share.place.as_path()).collect();
        assert_eq!(places, [Path::new(".venv")]);
        let mut found: Vec<PathBuf> =
            environment.alias_binds(&tree, &shares).into_iter().map(|bind| bind.target).collect();
        found.sort();
        let expected = [".venv", "empty", "setup.py", "vendor"].map(|name| checkout.join(name));
        assert_eq!(found, expected);
    }
}
