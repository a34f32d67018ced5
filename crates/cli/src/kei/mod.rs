//! The seed's own binaries: their verbs, arguments, output and exit codes, on the same code.

pub mod agent_runtime;
pub mod capability;
pub mod check;
pub mod ledger;

use std::path::PathBuf;

/// The seed's default: the directory the command is called in, if it holds a kit in its layout.
fn kit_root(given: Option<PathBuf>) -> Option<PathBuf> {
    let here = || {
        let kit = ["_capabilities", "_roles"].iter().any(|name| PathBuf::from(name).is_dir());
        kit.then(|| PathBuf::from("."))
    };
    given.or_else(here)
}
