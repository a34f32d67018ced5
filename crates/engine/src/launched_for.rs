//! Which checkout a run of the control plane works for, noted beside the run.

use std::io;
use std::path::{Path, PathBuf};

use bailiwick_model::AgentId;
use bailiwick_runner::supervisor::RunDirectory;

const CHECKOUT: &str = "checkout";

fn file(state: &Path, id: &AgentId) -> PathBuf {
    RunDirectory::new(state, id.as_str()).path().join(CHECKOUT)
}

/// Notes the checkout of a run.
pub fn note(state: &Path, id: &AgentId, checkout: &str) -> io::Result<()> {
    let file = file(state, id);
    std::fs::create_dir_all(file.parent().unwrap_or(state))?;
    std::fs::write(&file, checkout)
}

/// The checkout that the control plane launched a run for; `None` for a run that a person started.
pub fn checkout(state: &Path, id: &AgentId) -> Option<PathBuf> {
    std::fs::read_to_string(file(state, id)).ok().map(PathBuf::from)
}
