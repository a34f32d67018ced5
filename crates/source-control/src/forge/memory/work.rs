//! The files that a run leaves to the next agent of its issue: a commit on a reference of the issue.

use bailiwick_memory::MemoryError;

use super::super::push::blocking;
use super::{ForgeIssues, failed, transfer_failed};
use crate::git::{fetch, set_reference};

/// Before the number of an issue. No branch, so it starts no CI and no rule.
const WORK_REFS: &str = "refs/bailiwick/work/";

impl ForgeIssues {
    pub(crate) async fn keep_work(&self, number: u64, commit: &str) -> Result<(), MemoryError> {
        let (target, commit) = (self.push_target.clone(), commit.to_owned());
        let name = format!("{WORK_REFS}{number}");
        let kept = blocking(move || {
            set_reference(&target.checkout, &target.state, &target.remote(), &name, &commit)
        });
        kept.await.map_err(failed)?.map_err(transfer_failed)
    }

    pub(crate) async fn fetch_work(&self, number: u64, commit: &str) -> Result<bool, MemoryError> {
        let target = self.push_target.clone();
        let name = format!("{WORK_REFS}{number}");
        let fetched =
            blocking(move || fetch(&target.checkout, &target.state, &target.remote(), &name));
        let found = fetched.await.map_err(failed)?.map_err(transfer_failed)?;
        // Somebody else can move the reference; the commit that was recorded counts.
        Ok(found.as_deref() == Some(commit))
    }
}
