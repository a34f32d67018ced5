//! A repository with nothing around it: branches can be pushed, and that is all.

use bailiwick_fleet::ports::{CheckRun, Forge, ForgeError, PullRequestState, WriteBack, Written};

use super::pushing::Pushing;

/// A repository on this machine.
#[derive(Debug, Clone)]
pub struct Local {
    pub(super) pushing: Pushing,
}

impl Forge for Local {
    async fn write(&self, _key: &str, what: &WriteBack) -> Result<Written, ForgeError> {
        match what {
            WriteBack::Push { branch, commit, from } => {
                self.pushing.push(branch, commit, from.as_deref()).await
            }
            WriteBack::Comment { .. } => no("be commented on"),
            WriteBack::Review(_) => no("be reviewed"),
            WriteBack::OpenPullRequest { .. } => no("have pull requests"),
            WriteBack::CheckStatus { .. } => no("keep statuses of commits"),
            WriteBack::Rerun { .. } => no("run checks"),
            WriteBack::ReleaseNote { .. } => no("keep releases"),
            WriteBack::DeploymentApproval { .. } => no("approve deployments"),
        }
    }

    async fn pull_request(&self, _: u64) -> Result<PullRequestState, ForgeError> {
        no("have pull requests")
    }

    async fn branch(&self, name: &str) -> Result<Option<String>, ForgeError> {
        self.pushing.branch(name).await
    }

    async fn issue(&self, _: u64) -> Result<(String, String), ForgeError> {
        no("have issues")
    }

    async fn job_log(&self, _: &str, _: usize) -> Result<String, ForgeError> {
        no("keep logs")
    }

    /// It runs nothing, so nothing was missed.
    async fn checks_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
        Ok((Vec::new(), cursor.map(str::to_owned)))
    }
}

fn no<T>(what: &str) -> Result<T, ForgeError> {
    Err(ForgeError::Unsupported(format!("{what}: it is a repository on this machine")))
}
