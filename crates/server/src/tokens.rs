//! Tokens in the API: create, list, revoke. The text of a token is only in the response that creates it.

use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore, TokenRecord, TokenScope, Write};
use bailiwick_resources::{API_VERSION, Moment};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json as value;

use crate::access::{TokenError, mint};
use crate::app::App;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, json, ok, scope_name};

/// A request for a token.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenRequest {
    /// The person who uses it.
    pub actor: String,
    /// Its permissions.
    pub scope: TokenScope,
    /// When it expires; never if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
}

/// A token without its secret.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenView {
    /// Its id.
    pub id: String,
    /// The person who uses it.
    pub actor: String,
    /// Its permissions.
    pub scope: TokenScope,
    /// When it was created.
    pub created_at: Moment,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Moment>,
}

/// A new token.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenAnswer {
    /// The token itself; it is not shown again.
    pub token: String,
    /// The token without its secret.
    pub record: TokenView,
}

/// All tokens.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenList {
    /// The tokens.
    pub items: Vec<TokenView>,
}

/// The person and the scope of a token, and the server that answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhoAmI {
    /// The person who uses the token.
    pub actor: String,
    /// The permissions of the token.
    pub scope: TokenScope,
    /// The id of the token.
    pub token: String,
    /// When the token expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
    /// The version of the server program.
    pub server_version: String,
    /// The version of the API, for example `bailiwick.dev/v1alpha1`.
    pub api_version: String,
}

impl From<TokenRecord> for TokenView {
    fn from(record: TokenRecord) -> Self {
        let TokenRecord { id, actor, scope, digest: _, created_at, expires_at, revoked_at } =
            record;
        Self { id, actor, scope, created_at, expires_at, revoked_at }
    }
}

pub(crate) fn who_am_i(request: &ApiRequest) -> HandlerResult {
    request.allow_query(&[])?;
    let token = request.token.as_ref().ok_or_else(|| Problem::unauthorized("send a token"))?;
    ok(&WhoAmI {
        actor: token.actor.clone(),
        scope: token.scope,
        token: token.id.clone(),
        expires_at: token.expires_at,
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        api_version: API_VERSION.to_owned(),
    })
}

pub(crate) async fn list<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let items = app.store.tokens().await?.into_iter().map(TokenView::from).collect();
    ok(&TokenList { items })
}

pub(crate) async fn create<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let body: TokenRequest = request.json()?;
    let minted = mint(&body.actor, body.scope, body.expires_at, request.now);
    let minted = minted.map_err(|error| match error {
        TokenError::Actor => Problem::invalid_field("actor", error.to_string()),
        TokenError::Expired => Problem::invalid_field("expiresAt", error.to_string()),
        TokenError::Random(_) => Problem::unavailable(error.to_string()),
    })?;
    let detail = value!({ "for": body.actor, "scope": scope_name(body.scope) });
    let entry = request.audit("TokenCreated", format!("Token/{}", minted.record.id), detail);
    let writes = vec![Write::Token(minted.record.clone()), Write::Audit(entry)];
    app.store.commit(writes, request.now).await?;
    json(StatusCode::CREATED, &TokenAnswer { token: minted.text, record: minted.record.into() })
}

pub(crate) async fn revoke<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let id = request.param("name");
    let all = app.store.tokens().await?;
    let known = all.iter().find(|token| token.id == id).cloned();
    let mut record =
        known.ok_or_else(|| Problem::not_found(format!("there is no token `{id}`")))?;
    if record.revoked_at.is_none() {
        record.revoked_at = Some(request.now);
        let detail = value!({ "of": record.actor, "scope": scope_name(record.scope) });
        let entry = request.audit("TokenRevoked", format!("Token/{id}"), detail);
        let writes = vec![Write::Token(record.clone()), Write::Audit(entry)];
        app.store.commit(writes, request.now).await?;
        app.open_tokens.end(&record.digest);
        for session in all.iter().filter(|token| token.parent() == Some(&record.digest)) {
            app.open_tokens.end(&session.digest);
        }
    }
    ok(&TokenView::from(record))
}
