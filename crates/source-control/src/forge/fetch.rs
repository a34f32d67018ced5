//! Fetching a commit from the forge into the checkout.

use std::path::{Path, PathBuf};

use bailiwick_fleet::ports::ForgeError;
use bailiwick_resources::{ForgeKind, Repository};

use super::client::Api;
use super::open::clone_url;
use super::token::Token;
use super::{gitea, github};
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
    let (wanted, secret) = (wanted.to_owned(), token.clone());
    let fetched = tokio::task::spawn_blocking(move || {
        let source = Remote { url: &url, token: secret.as_ref().map(Token::secret) };
        fetch_commit(&checkout, &state, &source, &wanted)
    })
    .await
    .map_err(|error| ForgeError::Unavailable(error.to_string()))?;
    match fetched {
        Ok(found) => Ok(found),
        Err(RemoteError::Moved) => Err(ForgeError::Unavailable("the branch has moved".to_owned())),
        Err(RemoteError::Refused(why)) => {
            Err(account_problem(repository, token).await.unwrap_or(ForgeError::Refused(why)))
        }
        Err(RemoteError::Unavailable(why)) => {
            Err(account_problem(repository, token).await.unwrap_or(ForgeError::Unavailable(why)))
        }
    }
}

/// What is wrong with the account or the repository, by the forge's API: git does not tell one failure from another.
async fn account_problem(repository: &Repository, token: Option<Token>) -> Option<ForgeError> {
    let style = match repository.forge {
        ForgeKind::Gitea => gitea::API_STYLE,
        ForgeKind::Github => github::API_STYLE,
        ForgeKind::Local | ForgeKind::Generic => return None,
    };
    let api =
        Api::new(repository.api_url.as_deref()?, &repository.full_name, token?, style).ok()?;
    let asked = api.get(&[], &[]).await.and_then(|response| api.require_success(response));
    asked.err().filter(|error| matches!(error, ForgeError::Account(_)))
}
