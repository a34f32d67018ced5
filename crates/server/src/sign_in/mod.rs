//! Sign-in by OpenID Connect: in a browser (authorization code with PKCE), from a terminal (device flow), or with an
//! ID token. Each gives a token of this server that expires; in a browser it is in a cookie.

mod browser;
mod device_client;
mod terminal;

use std::sync::Arc;

use bailiwick_fleet::ports::{AuditEntry, Fleet, FleetStore, PersonRecord, Write};
use serde_json::json;

use crate::access::{MintedToken, TokenError, TokenUse, mint_signed_in};
use crate::app::App;
use crate::openid::{Claims, SignIn, denied, not_offered, person};
use crate::problem::Problem;
use crate::request::{ApiRequest, scope_name};

pub(crate) use browser::{callback, login, logout};
pub use device_client::{DeviceSignInError, sign_in_by_device};
pub use terminal::{DeviceAnswer, DeviceTokenRequest, IdTokenRequest};
pub(crate) use terminal::{device, device_token, exchange};

/// How a person signs in, for the audit log.
#[derive(Debug, Clone, Copy)]
enum Flow {
    Browser,
    Device,
    IdToken,
}

impl Flow {
    fn as_str(self) -> &'static str {
        match self {
            Self::Browser => "browser",
            Self::Device => "device",
            Self::IdToken => "id-token",
        }
    }

    fn token_use(self) -> TokenUse {
        match self {
            Self::Browser => TokenUse::Cookie,
            Self::Device | Self::IdToken => TokenUse::Header,
        }
    }
}

fn configured<S, F>(app: &App<S, F>) -> Result<&SignIn, Problem> {
    let message = "sign-in is not configured; start the server with --oidc-issuer";
    app.sign_in.as_ref().ok_or_else(|| not_offered(message))
}

/// Creates a token for the person that the claims describe.
async fn complete<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
    claims: &Claims,
    flow: Flow,
) -> Result<MintedToken, Problem> {
    let settings = &configured(app)?.settings;
    let person = person(claims, settings)?;
    let lifetime = u64::try_from(settings.lifetime.as_millis()).unwrap_or(u64::MAX);
    let expires_at = request.now.plus_millis(lifetime);
    let minted =
        mint_signed_in(flow.token_use(), &person.name, person.scope, expires_at, request.now);
    let minted = minted.map_err(|error| match error {
        TokenError::Actor => denied(format!(
            "the claim `{}` names the person `{}`: {error}; choose another claim",
            settings.username_claim, person.name
        )),
        TokenError::Expired | TokenError::Random(_) => Problem::unavailable(error.to_string()),
    })?;
    let mut correlation = request.by().correlation;
    correlation.insert("token".to_owned(), minted.record.id.clone());
    let detail = json!({
        "scope": scope_name(person.scope),
        "groups": person.groups,
        "flow": flow.as_str(),
        "expiresAt": expires_at,
    });
    let entry = AuditEntry {
        at: request.now,
        actor: person.name.clone(),
        event: "SignedIn".to_owned(),
        subject: format!("Token/{}", minted.record.id),
        correlation,
        detail,
    };
    let record = PersonRecord {
        name: person.name,
        groups: person.groups,
        signed_in_at: request.now,
        valid_until: expires_at,
    };
    let writes =
        vec![Write::Token(minted.record.clone()), Write::Person(record), Write::Audit(entry)];
    app.store.commit(writes, request.now).await?;
    Ok(minted)
}

/// Seconds since the Unix epoch.
fn seconds(request: &ApiRequest) -> u64 {
    request.now.millis() / 1_000
}
