//! The changes of an agent.

use bailiwick_fleet::ports::{LocalFileChange, LocalRunDiff, LocalRunError};
use bailiwick_model::Run;

use super::{LedgerRuns, error};
use crate::running::forbidden_files::left_out;
use crate::verifying::{AgentWork, WorkOptions};

impl LedgerRuns {
    pub(super) fn read_diff(&self, run: &Run) -> Result<LocalRunDiff, LocalRunError> {
        let context = self.beside(run)?;
        let subject =
            AgentWork::of_agent(&context, &run.id, &WorkOptions::default()).map_err(error)?;
        let left_out = left_out(&subject.worktree, &self.directory(run))
            .map_err(|error| LocalRunError::Unavailable(error.to_string()))?;
        let files = changed_files(&subject.diff(&["--numstat", "-z"]).map_err(error)?);
        let patch = subject.diff(&["--patch"]).map_err(error)?;
        Ok(LocalRunDiff { files, left_out, patch })
    }
}

/// Reads `git diff --numstat -z`: a renamed file has no name beside its numbers, and two after them.
pub fn changed_files(text: &str) -> Vec<LocalFileChange> {
    let mut parts = text.split_terminator('\0');
    let mut all = Vec::new();
    while let Some(part) = parts.next() {
        let mut columns = part.splitn(3, '\t');
        let mut number = || columns.next().and_then(|text| text.parse().ok());
        let (added, removed) = (number(), number());
        let (renamed_from, path) = match columns.next() {
            Some("") | None => (parts.next().map(str::to_owned), parts.next().unwrap_or_default()),
            Some(path) => (None, path),
        };
        all.push(LocalFileChange { path: path.to_owned(), renamed_from, added, removed });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_and_binary_files_are_read_from_git_numstat() {
        let file = |path: &str, from: Option<&str>, added, removed| LocalFileChange {
            path: path.to_owned(),
            renamed_from: from.map(str::to_owned),
            added,
            removed,
        };
        assert_eq!(
            changed_files("1\t2\ta\tb\0-\t-\timage.png\x003\t0\t\0old\0new\0"),
            [
                file("a\tb", None, Some(1), Some(2)),
                file("image.png", None, None, None),
                file("new", Some("old"), Some(3), Some(0)),
            ]
        );
        assert_eq!(changed_files(""), []);
    }
}
