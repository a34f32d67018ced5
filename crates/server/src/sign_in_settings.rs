//! The settings of the sign-in: the provider, the client, and which claims say who a person is.

use std::time::Duration;

use bailiwick_fleet::ports::TokenScope;
use reqwest::Url;
use thiserror::Error;

/// Sign-in by OpenID Connect.
#[derive(Clone)]
pub struct SignInSettings {
    /// The issuer, exactly as the provider writes it.
    pub issuer: String,
    pub client_id: String,
    /// None for a public client.
    pub client_secret: Option<String>,
    /// The address of this server for browsers; the redirect URI is below it.
    pub public_url: String,
    /// The claim with the name of the person.
    pub username_claim: String,
    /// The claim with the groups of the person.
    pub groups_claim: String,
    /// The scopes that are requested in addition to `openid`.
    pub requested_scopes: Vec<String>,
    /// Which scope the members of a group have; the highest counts.
    pub group_scopes: Vec<(String, TokenScope)>,
    /// The scope of everybody else; none if they cannot sign in.
    pub default_scope: Option<TokenScope>,
    /// How long a session, a token and the groups of a person are valid.
    pub lifetime: Duration,
}

impl std::fmt::Debug for SignInSettings {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SignInSettings").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignInSettingsError {
    #[error("`{0}` is not an https:// address; only a loopback address may use http://")]
    Insecure(String),
    #[error("nobody could sign in: give a group a scope, or everybody a default scope")]
    NoScope,
    #[error("the HTTP client of the sign-in cannot be created: {0}")]
    Client(String),
}

/// An address that is safe to send secrets to.
pub(crate) fn secure_url(text: &str) -> Result<Url, SignInSettingsError> {
    let insecure = || SignInSettingsError::Insecure(text.to_owned());
    let url = Url::parse(text).map_err(|_| insecure())?;
    if url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url)) {
        return Ok(url);
    }
    Err(insecure())
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl SignInSettings {
    pub(crate) fn check(&self) -> Result<(), SignInSettingsError> {
        secure_url(&self.issuer)?;
        secure_url(&self.public_url)?;
        if self.group_scopes.is_empty() && self.default_scope.is_none() {
            return Err(SignInSettingsError::NoScope);
        }
        Ok(())
    }

    /// Whether cookies need TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.public_url.starts_with("https://")
    }

    pub(crate) fn redirect_uri(&self) -> String {
        format!("{}/auth/callback", self.public_url.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::secure_url;

    #[test]
    fn secrets_are_sent_over_tls_or_on_loopback_only() {
        for text in
            ["https://id.example", "http://127.0.0.1:1", "http://localhost", "http://[::1]:9"]
        {
            assert!(secure_url(text).is_ok(), "{text}");
        }
        for text in ["http://id.example", "ftp://127.0.0.1", "id.example", "", "http://10.0.0.1"] {
            assert!(secure_url(text).is_err(), "{text}");
        }
    }
}
