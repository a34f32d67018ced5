//! The OpenID provider of this server: what it is asked, what its tokens say, and who a person is.

mod cookies;
mod id_token;
mod person;
mod provider;

use crate::problem::Problem;
use crate::sign_in_settings::{SignInSettings, SignInSettingsError};

pub(crate) use cookies::{Cookie, session_text};
pub(crate) use id_token::Claims;
use person::PersonError;
pub(crate) use person::person;
use provider::{Provider, ProviderError};

/// The configured sign-in.
pub(crate) struct SignIn {
    pub(crate) provider: Provider,
    pub(crate) settings: SignInSettings,
}

impl SignIn {
    pub(crate) fn new(settings: SignInSettings) -> Result<Self, SignInSettingsError> {
        Ok(Self { provider: Provider::new(settings.clone())?, settings })
    }

    /// The requested scopes, separated by spaces.
    pub(crate) fn scope(&self) -> String {
        let mut all = vec!["openid".to_owned()];
        all.extend(self.settings.requested_scopes.iter().cloned());
        all.join(" ")
    }
}

/// The code of the answer if this server, or its provider, has no such sign-in; people use tokens then.
pub(crate) const SIGN_IN_NOT_OFFERED: &str = "SIGN_IN_NOT_OFFERED";

pub(crate) fn not_offered(message: impl Into<String>) -> Problem {
    Problem { code: SIGN_IN_NOT_OFFERED, ..Problem::unavailable(message) }
}

pub(crate) fn denied(message: impl Into<String>) -> Problem {
    Problem::forbidden("SIGN_IN_DENIED", message)
}

impl From<PersonError> for Problem {
    fn from(error: PersonError) -> Self {
        denied(error.to_string())
    }
}

impl From<ProviderError> for Problem {
    fn from(error: ProviderError) -> Self {
        let message = error.to_string();
        match &error {
            ProviderError::Token(_) => Self::unauthorized(message),
            ProviderError::Unsupported(_) => not_offered(message),
            ProviderError::Refused(code) => match code.as_str() {
                "authorization_pending" => Self {
                    code: "AUTHORIZATION_PENDING",
                    ..Self::bad_request("the person has not confirmed the code yet")
                },
                "slow_down" => Self {
                    code: "SLOW_DOWN",
                    ..Self::bad_request("ask less often: 5 seconds more")
                },
                "access_denied" => Self::unauthorized("the person refused the sign-in"),
                "expired_token" | "invalid_grant" => {
                    Self::unauthorized("the sign-in has expired or was already used; start again")
                }
                _ => {
                    tracing::error!(code, "the OpenID provider refused a request");
                    Self::unavailable("the OpenID provider refused a request (see the server log)")
                }
            },
            ProviderError::Unreachable(why) => {
                tracing::error!(why, "the OpenID provider is unavailable");
                Self::unavailable("the OpenID provider is unavailable (see the server log)")
            }
        }
    }
}
