//! Where checks run untrusted code: a directory for the tree, a sandbox around it, limits.

use std::path::Path;

use bailiwick_verify::{Job, JobOutcome};
use thiserror::Error;

use super::Preparation;

/// Why a check environment could not be created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what}: {why}")]
pub struct CheckEnvironmentError {
    /// The operation.
    pub what: String,
    /// The cause.
    pub why: String,
    /// Whether the tree may be the cause: a command failed on it, or found something forbidden.
    pub caused_by_agent: bool,
}

/// Who can use the result of a setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetUp {
    /// Every tree after it.
    Shared,
    /// Nobody: without a sandbox, each tree is set up separately.
    EachTree,
}

/// Runs the jobs of checks, one tree at a time.
pub trait CheckEnvironment {
    /// An empty directory for the next tree; the previous content is removed.
    fn clear(&mut self) -> Result<&Path, CheckEnvironmentError>;

    /// Prepares the tree: copies files, fetches its dependencies with a network, then runs its setup without one.
    /// Fetched files stay for later trees.
    fn make_ready(
        &mut self,
        preparation: &Preparation,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), CheckEnvironmentError>;

    /// Runs the setup on the current tree, unless its result is cached for these dependencies. The tree must not
    /// contain work of the agent, except what a person allowed.
    fn set_up(
        &mut self,
        preparation: &Preparation,
        tell: &mut dyn FnMut(&str),
    ) -> Result<SetUp, CheckEnvironmentError>;

    /// Receives the paths that the agent changed, so that nothing built from them is cached for later trees.
    fn changed(&mut self, paths: &[String]);

    /// Runs a job on the tree; `tell` receives what is running.
    fn run(&mut self, job: &Job, tell: &mut dyn FnMut(&str)) -> JobOutcome;
}
