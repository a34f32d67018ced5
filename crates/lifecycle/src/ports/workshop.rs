//! Where checks run untrusted code: a directory for the tree, a sandbox around it, limits.

use std::path::Path;

use bailiwick_verify::{Job, JobOutcome};
use thiserror::Error;

use super::Preparation;

/// Why no check environment could be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what}: {why}")]
pub struct WorkshopError {
    /// What was tried.
    pub what: String,
    /// What went wrong.
    pub why: String,
    /// Whether the tree may be why: a command ran on it and failed, or found what it may not have.
    pub caused_by_work: bool,
}

/// Who sees what a setup has installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetUp {
    /// Every tree after it.
    Shared,
    /// Nobody: without a sandbox each tree is set up by itself.
    EachTree,
}

/// Runs the jobs of checks, one tree at a time.
pub trait CheckEnvironment {
    /// An empty directory for the next tree; what was there before is gone.
    fn clear(&mut self) -> Result<&Path, WorkshopError>;

    /// Makes the tree ready: copies files, fetches its dependencies with a network, then runs its setup
    /// without. What was fetched stays for the trees after it.
    fn make_ready(
        &mut self,
        how: &Preparation,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), WorkshopError>;

    /// Runs the setup on the tree that is there, unless its result is known for these dependencies. The
    /// tree must have nothing of the agent's making but what a person has allowed.
    fn set_up(
        &mut self,
        how: &Preparation,
        tell: &mut dyn FnMut(&str),
    ) -> Result<SetUp, WorkshopError>;

    /// Hears which paths of the tree the agent changed, so that nothing of its making is kept for
    /// later trees.
    fn changed(&mut self, paths: &[String]);

    /// Runs a job on the tree; `tell` hears what is running.
    fn run(&mut self, job: &Job, tell: &mut dyn FnMut(&str)) -> JobOutcome;
}
