//! Fetching a commit from the forge into the checkout. Where the checkout itself cannot be used, nothing is known
//! about the forge.

use std::path::{Path, PathBuf};

use bailiwick_fleet::ports::{AccountProblem, FetchError, ForgeError, WorldError};
use bailiwick_resources::{ForgeKind, Repository};

use super::client::Api;
use super::open::clone_url;
use super::token::Token;
use super::{gitea, github};
use crate::git::{Refusal, Remote, RemoteError, checkout_problem, fetch as fetch_commit};

/// Fetches a reference or a commit and returns the commit; nothing if the forge does not have it. `state`
/// is the directory of Bailiwick's own files.
pub async fn fetch(
    repository: &Repository,
    token: Option<Token>,
    state: &Path,
    wanted: &str,
) -> Result<Option<String>, FetchError> {
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
            .map_err(|error| (error, checkout_problem(&checkout)))
    })
    .await
    .map_err(|_| FetchError::Local(WorldError::Panicked))?;
    let error = match fetched {
        Ok(found) => return Ok(found),
        Err((_, Some(problem))) => {
            return Err(FetchError::Local(WorldError::Checkout(problem.to_string())));
        }
        Err((error, None)) => error,
    };
    Err(FetchError::from(match error {
        RemoteError::Moved => ForgeError::Unavailable("the branch has moved".to_owned()),
        RemoteError::Refused(refusal) => {
            account_problem(repository, token).await.unwrap_or_else(|| forge_error(refusal))
        }
        RemoteError::Unavailable(why) => {
            account_problem(repository, token).await.unwrap_or(ForgeError::Unavailable(why))
        }
    }))
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

/// What a refusal means where no API tells more.
fn forge_error(refusal: Refusal) -> ForgeError {
    match refusal {
        Refusal::Credential(_) => AccountProblem::TokenRejected.into(),
        Refusal::Forbidden(answer) => {
            let what = "the repository by git".to_owned();
            AccountProblem::RightMissing { what, answer }.into()
        }
        Refusal::NotFound(_) => AccountProblem::RepositoryNotFound.into(),
        Refusal::Other(why) => ForgeError::Refused(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_that_a_person_can_fix_is_an_account_problem() {
        let why = || "why".to_owned();
        assert_eq!(forge_error(Refusal::Credential(why())), AccountProblem::TokenRejected.into());
        let missing = AccountProblem::RightMissing {
            what: "the repository by git".to_owned(),
            answer: why(),
        };
        assert_eq!(forge_error(Refusal::Forbidden(why())), missing.into());
        assert_eq!(
            forge_error(Refusal::NotFound(why())),
            AccountProblem::RepositoryNotFound.into()
        );
        assert_eq!(forge_error(Refusal::Other(why())), ForgeError::Refused(why()));
    }
}
