//! The tips of the branches that workspaces are to be merged into, as the forge has them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bailiwick_fleet::ports::{FetchError, WorkspaceError, WorkspaceOperation, World as _};
use bailiwick_resources::Repository;

use super::LocalWorld;

/// How long an operation waits for the forge only to compare a workspace with its target.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a rebase waits for the commit that it needs.
const REBASE_TIMEOUT: Duration = Duration::from_secs(60);

/// The tips that the forges gave last, by repository and branch.
#[derive(Debug, Default)]
pub(super) struct TargetTips(Mutex<BTreeMap<(String, String), String>>);

impl TargetTips {
    fn last(&self, key: &(String, String)) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn store(&self, key: (String, String), tip: Option<&String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match tip {
            Some(tip) => all.insert(key, tip.clone()),
            None => all.remove(&key),
        };
    }
}

impl LocalWorld {
    /// The tip of a target branch; nothing if the forge does not have it. Only a rebase fails if the forge does not
    /// answer: everything else compares with the last known tip.
    pub(super) async fn target_tip(
        &self,
        repository: &Repository,
        target: &str,
        operation: &WorkspaceOperation,
    ) -> Result<Option<String>, WorkspaceError> {
        let is_rebase = *operation == WorkspaceOperation::RebaseStart;
        let timeout = if is_rebase { REBASE_TIMEOUT } else { COMPARE_TIMEOUT };
        let key = (repository.full_name.clone(), target.to_owned());
        let branch = format!("refs/heads/{target}");
        let why = match tokio::time::timeout(timeout, self.fetch_commit(repository, &branch, None))
            .await
        {
            Ok(Ok(tip)) => {
                self.target_tips.store(key, tip.as_ref());
                return Ok(tip);
            }
            Ok(Err(FetchError::Missing(_))) => {
                self.target_tips.store(key, None);
                return Ok(None);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} seconds", timeout.as_secs()),
        };
        if is_rebase {
            let why = format!("its target branch {target} cannot be fetched: {why}");
            return Err(WorkspaceError::Failed(why));
        }
        Ok(self.target_tips.last(&key))
    }
}
