//! Why a job has no outcome.

use bailiwick_verify::JobOutcome;
use thiserror::Error;

use super::tree_settings::SettingsError;
use crate::sandbox::{SandboxError, SandboxErrorKind};

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum JobError {
    #[error("{0}")]
    CouldNotRun(String),
    /// Directories cannot be laid over each other on this machine.
    #[error("{0}")]
    LayersUnsupported(String),
    /// A program changed files of the tree that is measured.
    #[error("`{line}` changed tracked files: {}", paths.join(", "))]
    TreeChanged { line: String, paths: Vec<String> },
}

impl From<String> for JobError {
    fn from(why: String) -> Self {
        Self::CouldNotRun(why)
    }
}

impl From<SettingsError> for JobError {
    fn from(error: SettingsError) -> Self {
        Self::CouldNotRun(error.to_string())
    }
}

impl From<SandboxError> for JobError {
    fn from(error: SandboxError) -> Self {
        match error.kind {
            SandboxErrorKind::LayersUnsupported => Self::LayersUnsupported(error.to_string()),
            SandboxErrorKind::Other => Self::CouldNotRun(error.to_string()),
        }
    }
}

impl From<JobError> for JobOutcome {
    fn from(error: JobError) -> Self {
        match error {
            JobError::CouldNotRun(why) | JobError::LayersUnsupported(why) => {
                Self::CouldNotRun { why }
            }
            JobError::TreeChanged { line, paths } => Self::TreeChanged { line, paths },
        }
    }
}
