//! Fetching a commit from the forge into the checkout.

use std::path::{Path, PathBuf};

use bailiwick_control::ports::fleet::ForgeError;
use bailiwick_model::fleet::{ForgeKind, Repository};

use super::open::clone_url;
use super::token::Token;
use crate::git::{Remote, RemoteError, fetch as fetch_commit};

/// Fetches a reference or a commit and returns the commit; nothing if the forge does not have it. `state`
/// is the directory of Bailiwick's own files.
pub async fn fetch(
    repository: &Repository,
    token: Option<Token>,
    state: &Path,
    wanted: &str,
) -> Result<Option<String>, ForgeError> {
    let url = match repository.forge {
        ForgeKind::Gitea => {
            clone_url(repository, repository.api_url.as_deref().unwrap_or_default(), "/api/v1")?
        }
        ForgeKind::Github => {
            clone_url(repository, repository.api_url.as_deref().unwrap_or_default(), "/api/v3")?
        }
        ForgeKind::Local | ForgeKind::Generic => {
            repository.clone_url.clone().unwrap_or_else(|| repository.checkout.clone())
        }
    };
    let (checkout, state) = (PathBuf::from(&repository.checkout), state.to_owned());
    let wanted = wanted.to_owned();
    let fetched = tokio::task::spawn_blocking(move || {
        let source = Remote { url: &url, token: token.as_ref().map(Token::secret) };
        fetch_commit(&checkout, &state, &source, &wanted)
    })
    .await
    .map_err(|error| ForgeError::Unavailable(error.to_string()))?;
    fetched.map_err(|error| match error {
        RemoteError::Moved => ForgeError::Unavailable("the branch has moved".to_owned()),
        RemoteError::Refused(why) => ForgeError::Refused(why),
        RemoteError::Unavailable(why) => ForgeError::Unavailable(why),
    })
}
