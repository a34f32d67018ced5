//! The cookies of the sign-in: the session, and a sign-in that is pending.

use hyper::HeaderMap;
use hyper::header::HeaderValue;

use super::SignIn;
use crate::browsers::{self, CookieRules, SameSite};

/// A cookie of the sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cookie {
    Session,
    /// It must come back with the redirect of the provider, which is another site.
    Pending,
}

impl Cookie {
    fn name(self) -> &'static str {
        match self {
            Self::Session => "bailiwick_session",
            Self::Pending => "bailiwick_sign_in",
        }
    }

    fn same_site(self) -> SameSite {
        match self {
            Self::Session => SameSite::Strict,
            Self::Pending => SameSite::Lax,
        }
    }
}

impl SignIn {
    pub(crate) fn cookie<'a>(&self, headers: &'a HeaderMap, cookie: Cookie) -> Option<&'a str> {
        let name = browsers::cookie_name(cookie.name(), self.settings.is_secure());
        browsers::cookie(headers, &name)
    }

    /// Zero seconds delete it.
    pub(crate) fn set_cookie(
        &self,
        cookie: Cookie,
        value: &str,
        seconds: u64,
    ) -> Option<HeaderValue> {
        let (same_site, secure) = (cookie.same_site(), self.settings.is_secure());
        let rules = CookieRules { same_site, secure, max_age: Some(seconds) };
        browsers::set_cookie(cookie.name(), value, rules)
    }
}

/// The token of a session cookie.
pub(crate) fn session_text<'a>(
    sign_in: Option<&SignIn>,
    headers: &'a HeaderMap,
) -> Option<&'a str> {
    sign_in?.cookie(headers, Cookie::Session)
}
