//! What an agent changed, as git shows it.

use bailiwick_lifecycle::ports::{Work as _, WorkError};

use super::AgentWork;
use crate::failure::Failure;

impl AgentWork {
    /// The agent's change, committed or not, in this shape of `git diff`.
    pub fn diff(&self, shape: &[&str]) -> Result<String, Failure> {
        let failed = |error: WorkError| Failure::general(error.to_string());
        let work = self.git_work()?;
        let base = work.base().map_err(failed)?;
        let snapshot = work.snapshot(&base).map_err(failed)?;
        // Settings of the user must not change what the page reads.
        let common = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--find-renames",
            "--no-color",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            "--submodule=short",
        ];
        let trees = [snapshot.merge_base_tree.as_str(), snapshot.tree.as_str()];
        let text = self.repository.git().run([&common, shape, &trees].concat())?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// How much of which file changed, in lines of this width.
    pub fn diffstat(&self, width: usize) -> Result<String, Failure> {
        self.diff(&[&format!("--stat={width}")])
    }
}
