//! Files by path, in any storage.

use thiserror::Error;

/// Why a file of a tree could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{path} cannot be read: {why}")]
pub struct TreeError {
    /// The file or directory.
    pub path: String,
    /// The cause.
    pub why: String,
}

/// Text files by their path, `/` between the parts.
pub trait Tree {
    /// The text of a file; none if it does not exist.
    fn read(&self, path: &str) -> Result<Option<String>, TreeError>;

    /// The sorted names in a directory; none if it does not exist.
    fn list(&self, path: &str) -> Result<Vec<String>, TreeError>;
}
