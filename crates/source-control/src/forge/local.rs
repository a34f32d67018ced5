//! A repository on this machine without a forge: it only has branches.

use bailiwick_fleet::ports::{CheckRun, Forge, ForgeError, PullRequestState, WriteBack, Written};

use super::push::PushTarget;

/// A repository on this machine.
#[derive(Debug, Clone)]
pub struct Local {
    pub(super) push_target: PushTarget,
}

impl Forge for Local {
    async fn write(&self, _key: &str, what: &WriteBack) -> Result<Written, ForgeError> {
        match what {
            WriteBack::Push { branch, commit, from } => {
                self.push_target.push(branch, commit, from.as_deref()).await
            }
            WriteBack::OpenIssue { .. } => unsupported("have issues"),
            WriteBack::Comment { .. } => unsupported("be commented on"),
            WriteBack::Review(_) => unsupported("be reviewed"),
            WriteBack::OpenPullRequest { .. } => unsupported("have pull requests"),
            WriteBack::CheckStatus { .. } => unsupported("keep statuses of commits"),
            WriteBack::Rerun { .. } => unsupported("run checks"),
            WriteBack::ReleaseNote { .. } => unsupported("keep releases"),
            WriteBack::DeploymentApproval { .. } => unsupported("approve deployments"),
        }
    }

    async fn pull_request(&self, _: u64) -> Result<PullRequestState, ForgeError> {
        unsupported("have pull requests")
    }

    async fn branch(&self, name: &str) -> Result<Option<String>, ForgeError> {
        self.push_target.branch(name).await
    }

    async fn issue(&self, _: u64) -> Result<(String, String), ForgeError> {
        unsupported("have issues")
    }

    async fn job_log(&self, _: &str, _: usize) -> Result<String, ForgeError> {
        unsupported("keep logs")
    }

    /// It has no CI runs.
    async fn checks_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
        Ok((Vec::new(), cursor.map(str::to_owned)))
    }
}

fn unsupported<T>(what: &str) -> Result<T, ForgeError> {
    Err(ForgeError::Unsupported(format!("{what}: it is a repository on this machine")))
}
