//! Fetching a commit from the forge into the checkout. Where the checkout itself cannot be used, nothing is known
//! about the forge.

use std::path::{Path, PathBuf};

use bailiwick_fleet::ports::{AccountProblem, FetchError, ForgeError, WorldError};
use bailiwick_resources::{ForgeKind, Repository};

use super::client::Api;
use super::open::clone_url;
use super::token::Token;
use super::{gitea, github};
use crate::git::{Remote, RemoteError, checkout_problem, fetch as fetch_commit};

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
        RemoteError::Refused(why) => {
            account_problem(repository, token).await.unwrap_or_else(|| refusal(why))
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

/// What a refusal means where no API tells more. Git has only its message.
fn refusal(why: String) -> ForgeError {
    let has = |texts: &[&str]| texts.iter().any(|text| why.contains(text));
    if has(&["does not accept the credential", "Authentication failed", "returned error: 401"]) {
        return AccountProblem::TokenRejected.into();
    }
    if has(&["returned error: 403"]) {
        let what = "the repository by git".to_owned();
        return AccountProblem::RightMissing { what, answer: why }.into();
    }
    if has(&["returned error: 404", "not found"]) {
        return AccountProblem::RepositoryNotFound.into();
    }
    ForgeError::Refused(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_that_a_person_can_fix_is_an_account_problem() {
        for why in [
            "fatal: Authentication failed for 'http://127.0.0.1/a.git/'",
            "the remote does not accept the credential",
            "fatal: unable to access 'https://a/': The requested URL returned error: 401",
        ] {
            assert_eq!(refusal(why.to_owned()), AccountProblem::TokenRejected.into(), "{why}");
        }
        let why = "fatal: unable to access 'https://a/': The requested URL returned error: 403";
        let missing = AccountProblem::RightMissing {
            what: "the repository by git".to_owned(),
            answer: why.to_owned(),
        };
        assert_eq!(refusal(why.to_owned()), missing.into());
        let why = "fatal: repository 'https://a/b.git/' not found";
        assert_eq!(refusal(why.to_owned()), AccountProblem::RepositoryNotFound.into());
        let why = "`main` is not the full name of a reference or a commit".to_owned();
        assert_eq!(refusal(why.clone()), ForgeError::Refused(why));
    }
}
