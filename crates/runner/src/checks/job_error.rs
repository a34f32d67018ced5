//! Why a job has no outcome of its own.

use bailiwick_verify::Outcome;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum JobError {
    #[error("{0}")]
    CouldNotRun(String),
    /// A program changed files of the tree that is measured.
    #[error("`{line}` changed tracked files: {}", paths.join(", "))]
    TreeChanged { line: String, paths: Vec<String> },
}

impl From<String> for JobError {
    fn from(why: String) -> Self {
        Self::CouldNotRun(why)
    }
}

impl From<JobError> for Outcome {
    fn from(error: JobError) -> Self {
        match error {
            JobError::CouldNotRun(why) => Self::CouldNotRun { why },
            JobError::TreeChanged { line, paths } => Self::TreeChanged { line, paths },
        }
    }
}
