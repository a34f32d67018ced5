//! Files by path, wherever they are kept.

use thiserror::Error;

/// Why a file of a tree could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{path} cannot be read: {why}")]
pub struct TreeError {
    /// The file or directory.
    pub path: String,
    /// What stood in the way.
    pub why: String,
}

/// Text files by their path, `/` between the parts.
pub trait Tree {
    /// The text of a file; nothing if there is no such file.
    fn read(&self, path: &str) -> Result<Option<String>, TreeError>;

    /// The names in a directory, sorted; none if there is no such directory.
    fn list(&self, path: &str) -> Result<Vec<String>, TreeError>;
}
