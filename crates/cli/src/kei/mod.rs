//! The seed's own binaries: their verbs, arguments, output and exit codes, on the same code.

pub mod agent_runtime;
pub mod capability;
pub mod check;
pub mod facade;
pub mod ledger;
pub mod verify;

use std::path::{Path, PathBuf};

/// The seed's default: the directory the command is called in, if it holds a kit in its layout.
fn kit_root(given: Option<PathBuf>) -> Option<PathBuf> {
    given.or_else(|| kit_root_in(Path::new(".")))
}

/// A directory, if it holds a kit in the seed's layout.
fn kit_root_in(directory: &Path) -> Option<PathBuf> {
    let kit = ["_capabilities", "_roles"].iter().any(|name| directory.join(name).is_dir());
    kit.then(|| directory.to_path_buf())
}
