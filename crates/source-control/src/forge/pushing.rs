//! Pushes, from a checkout of ours to where the repository is.

use std::path::PathBuf;

use bailiwick_control::ports::fleet::{ForgeError, Written};

use super::token::Token;
use crate::git::{Remote, RemoteError, push, remote_branch};

/// Where pushes come from and where they go.
#[derive(Debug, Clone)]
pub(super) struct Pushing {
    /// The checkout that has the commits.
    pub(super) checkout: PathBuf,
    /// Where we keep what only we write.
    pub(super) state: PathBuf,
    /// An address of http, or a path.
    pub(super) url: String,
    /// What the other side wants to see.
    pub(super) token: Option<Token>,
}

impl Pushing {
    /// Pushes a commit to a branch that must be at `from`, or not there; once.
    pub(super) async fn push(
        &self,
        branch: &str,
        commit: &str,
        from: Option<&str>,
    ) -> Result<Written, ForgeError> {
        let written = |was_there| Written { id: commit.to_owned(), url: None, was_there };
        let moved = |found: Option<String>| ForgeError::Moved {
            target: format!("the branch {branch}"),
            expected: from.unwrap_or("not there").to_owned(),
            found: found.unwrap_or_else(|| "not there".to_owned()),
        };
        let found = self.branch(branch).await?;
        if found.as_deref() == Some(commit) {
            return Ok(written(true));
        }
        if found.as_deref() != from {
            return Err(moved(found));
        }
        let (ours, wanted) = (self.clone(), branch.to_owned());
        let (commit_owned, from_owned) = (commit.to_owned(), from.map(str::to_owned));
        let pushed = blocking(move || {
            let destination = ours.destination();
            let from = from_owned.as_deref();
            push(&ours.checkout, &ours.state, &destination, &wanted, &commit_owned, from)
        })
        .await?;
        match pushed {
            Ok(()) => Ok(written(false)),
            // Whatever its words, a refusal may be because somebody else was quicker.
            Err(RemoteError::Moved) => self.after_refusal(branch, commit, None, moved).await,
            Err(RemoteError::Refused(why)) => {
                self.after_refusal(branch, commit, Some((why, from)), moved).await
            }
            Err(RemoteError::Unavailable(why)) => Err(ForgeError::Unavailable(why)),
        }
    }

    /// What a refusal means, by where the branch is now.
    async fn after_refusal(
        &self,
        branch: &str,
        commit: &str,
        refused: Option<(String, Option<&str>)>,
        moved: impl Fn(Option<String>) -> ForgeError,
    ) -> Result<Written, ForgeError> {
        let found = self.branch(branch).await?;
        if found.as_deref() == Some(commit) {
            return Ok(Written { id: commit.to_owned(), url: None, was_there: true });
        }
        match refused {
            Some((why, from)) if found.as_deref() == from => Err(ForgeError::Refused(why)),
            Some(_) | None => Err(moved(found)),
        }
    }

    /// Where a branch is, by git itself.
    pub(super) async fn branch(&self, branch: &str) -> Result<Option<String>, ForgeError> {
        let (ours, wanted) = (self.clone(), branch.to_owned());
        let found =
            blocking(move || remote_branch(&ours.checkout, &ours.state, &ours.destination(), &wanted))
                .await?;
        found.map_err(|error| match error {
            RemoteError::Moved | RemoteError::Unavailable(_) => ForgeError::Unavailable(error.to_string()),
            RemoteError::Refused(why) => ForgeError::Refused(why),
        })
    }

    fn destination(&self) -> Remote<'_> {
        Remote { url: &self.url, token: self.token.as_ref().map(Token::secret) }
    }
}

async fn blocking<T: Send + 'static>(
    what: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ForgeError> {
    let done = tokio::task::spawn_blocking(what).await;
    done.map_err(|_| ForgeError::Unavailable("the push was cut off".to_owned()))
}
