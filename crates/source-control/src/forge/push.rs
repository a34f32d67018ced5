//! Pushing from a checkout to the repository on the forge.

use std::path::PathBuf;

use bailiwick_fleet::ports::{ForgeError, Written};

use super::token::Token;
use crate::git::{Refusal, Remote, RemoteError, push, remote_branch};

/// Source and destination of pushes.
#[derive(Debug, Clone)]
pub(super) struct PushTarget {
    /// The checkout that has the commits.
    pub(super) checkout: PathBuf,
    /// The directory of Bailiwick's own files.
    pub(super) state: PathBuf,
    /// An http(s) URL or a path.
    pub(super) url: String,
    pub(super) token: Option<Token>,
}

impl PushTarget {
    /// Pushes a commit to a branch, which must be at `from`, or must not exist.
    pub(super) async fn push(
        &self,
        branch: &str,
        commit: &str,
        from: Option<&str>,
    ) -> Result<Written, ForgeError> {
        let written = |was_there| Written { id: commit.to_owned(), url: None, was_there };
        let moved = |found: Option<String>| ForgeError::Moved {
            target: format!("the branch {branch}"),
            expected: from.unwrap_or("missing").to_owned(),
            found: found.unwrap_or_else(|| "missing".to_owned()),
        };
        let found = self.branch(branch).await?;
        if found.as_deref() == Some(commit) {
            return Ok(written(true));
        }
        if found.as_deref() != from {
            return Err(moved(found));
        }
        let (target, wanted) = (self.clone(), branch.to_owned());
        let (commit_owned, from_owned) = (commit.to_owned(), from.map(str::to_owned));
        let pushed = blocking(move || {
            let remote = target.remote();
            let from = from_owned.as_deref();
            push(&target.checkout, &target.state, &remote, &wanted, &commit_owned, from)
        })
        .await?;
        match pushed {
            Ok(()) => Ok(written(false)),
            // A refusal may mean that somebody else moved the branch.
            Err(RemoteError::Moved) => self.after_refusal(branch, commit, None, moved).await,
            Err(RemoteError::Refused(refusal)) => {
                self.after_refusal(branch, commit, Some((refusal, from)), moved).await
            }
            Err(RemoteError::Unavailable(why)) => Err(ForgeError::Unavailable(why)),
        }
    }

    /// What a refusal means: it depends on the commit of the branch now.
    async fn after_refusal(
        &self,
        branch: &str,
        commit: &str,
        refused: Option<(Refusal, Option<&str>)>,
        moved: impl Fn(Option<String>) -> ForgeError,
    ) -> Result<Written, ForgeError> {
        let found = self.branch(branch).await?;
        if found.as_deref() == Some(commit) {
            return Ok(Written { id: commit.to_owned(), url: None, was_there: true });
        }
        match refused {
            Some((refusal, from)) if found.as_deref() == from => {
                Err(ForgeError::Refused(refusal.to_string()))
            }
            Some(_) | None => Err(moved(found)),
        }
    }

    /// The commit of a branch on the remote.
    pub(super) async fn branch(&self, branch: &str) -> Result<Option<String>, ForgeError> {
        let (target, wanted) = (self.clone(), branch.to_owned());
        let found = blocking(move || {
            remote_branch(&target.checkout, &target.state, &target.remote(), &wanted)
        })
        .await?;
        found.map_err(|error| match error {
            RemoteError::Moved | RemoteError::Unavailable(_) => {
                ForgeError::Unavailable(error.to_string())
            }
            RemoteError::Refused(refusal) => ForgeError::Refused(refusal.to_string()),
        })
    }

    pub(super) fn remote(&self) -> Remote<'_> {
        Remote { url: &self.url, token: self.token.as_ref().map(Token::secret) }
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    what: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ForgeError> {
    let done = tokio::task::spawn_blocking(what).await;
    done.map_err(|_| ForgeError::Unavailable("the push was interrupted".to_owned()))
}
