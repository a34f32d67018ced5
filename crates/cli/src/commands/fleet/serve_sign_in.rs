//! The options of `bailiwick serve` for sign-in by OpenID Connect.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bailiwick_fleet::ports::TokenScope;
use bailiwick_resources::Span;
use bailiwick_server::SignInSettings;
use clap::{Args, ValueEnum as _};

use super::tokens::Scope;
use crate::failure::Failure;

/// The variable with the client's secret, which does not belong on a command line.
const SECRET_VARIABLE: &str = "BAILIWICK_OIDC_CLIENT_SECRET";

#[derive(Debug, Args)]
#[command(next_help_heading = "Sign-in by OpenID Connect")]
pub(super) struct SignInOptions {
    /// Issuer of the OpenID provider; without it, people use tokens only
    #[arg(long, value_name = "URL", requires = "oidc_client_id")]
    oidc_issuer: Option<String>,
    /// Client ID at the provider
    #[arg(long, value_name = "ID", requires = "oidc_issuer")]
    oidc_client_id: Option<String>,
    /// File with the client secret; default: BAILIWICK_OIDC_CLIENT_SECRET, or none
    #[arg(long, value_name = "FILE", requires = "oidc_issuer")]
    oidc_client_secret_file: Option<PathBuf>,
    /// Claim with the name of a person
    #[arg(long, value_name = "NAME", default_value = "sub")]
    oidc_username_claim: String,
    /// Claim with the groups of a person
    #[arg(long, value_name = "NAME", default_value = "groups")]
    oidc_groups_claim: String,
    /// Scope to request of the provider, besides openid
    #[arg(long = "oidc-request-scope", value_name = "NAME", default_value = "profile")]
    oidc_request_scopes: Vec<String>,
    /// Scope of the members of a group, as platform=admin
    #[arg(long = "oidc-group-scope", value_name = "GROUP=SCOPE", value_parser = group_scope)]
    oidc_group_scopes: Vec<(String, TokenScope)>,
    /// Scope of people in none of these groups; default: they cannot sign in
    #[arg(long, value_enum, value_name = "SCOPE")]
    oidc_default_scope: Option<Scope>,
    /// Lifetime of a sign-in
    #[arg(long, value_name = "TIME", default_value = "12h")]
    oidc_lifetime: Span,
    /// Address of this server in browsers; default: the address that it listens on
    #[arg(long, value_name = "URL", requires = "oidc_issuer")]
    public_url: Option<String>,
}

/// The name of a group can have an `=`, the name of a scope cannot.
fn group_scope(text: &str) -> Result<(String, TokenScope), String> {
    let (group, scope) = text
        .rsplit_once('=')
        .filter(|(group, _)| !group.is_empty())
        .ok_or_else(|| "write GROUP=SCOPE, as platform=admin".to_owned())?;
    let unknown = |_| format!("`{scope}` is not a scope: viewer, operator, approver or admin");
    let scope = Scope::from_str(scope, false).map_err(unknown)?;
    Ok((group.to_owned(), scope.into()))
}

impl SignInOptions {
    /// The settings; none if no provider is named.
    pub(super) fn settings(self, listen: SocketAddr) -> Result<Option<SignInSettings>, Failure> {
        let (Some(issuer), Some(client_id)) = (self.oidc_issuer, self.oidc_client_id) else {
            return Ok(None);
        };
        let client_secret = match &self.oidc_client_secret_file {
            None => std::env::var(SECRET_VARIABLE).ok(),
            Some(path) => {
                let failed =
                    |error| Failure::usage(format!("{} cannot be read: {error}", path.display()));
                Some(std::fs::read_to_string(path).map_err(failed)?)
            }
        };
        let client_secret = client_secret.map(|secret| secret.trim_end().to_owned());
        let public_url = match self.public_url {
            Some(url) => url,
            None if listen.ip().is_loopback() && listen.port() != 0 => format!("http://{listen}"),
            None => {
                return Err(Failure::usage("browsers need the address of this server")
                    .help("add --public-url https://…"));
            }
        };
        Ok(Some(SignInSettings {
            issuer,
            client_id,
            client_secret: client_secret.filter(|secret| !secret.is_empty()),
            public_url,
            username_claim: self.oidc_username_claim,
            groups_claim: self.oidc_groups_claim,
            requested_scopes: self.oidc_request_scopes,
            group_scopes: self.oidc_group_scopes,
            default_scope: self.oidc_default_scope.map(TokenScope::from),
            lifetime: Duration::from_millis(self.oidc_lifetime.millis()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::ports::TokenScope;

    use super::group_scope;

    #[test]
    fn group_and_scope_are_parsed() {
        assert_eq!(group_scope("platform=admin"), Ok(("platform".to_owned(), TokenScope::Admin)));
        assert_eq!(group_scope("cn=devs=viewer"), Ok(("cn=devs".to_owned(), TokenScope::Viewer)));
        for text in ["platform", "=admin", "platform=root", "platform=Admin", ""] {
            assert!(group_scope(text).is_err(), "{text}");
        }
    }
}
