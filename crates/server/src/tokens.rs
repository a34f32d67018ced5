//! Tokens over the API: made, listed, revoked. The text of one is in the answer that made it and
//! nowhere else.

use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore, TokenRecord, TokenScope, Write};
use bailiwick_resources::Moment;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json as value;

use crate::access::{TokenError, mint};
use crate::app::App;
use crate::asked::{Answer, Asked, json, ok, scope_name};
use crate::problem::Problem;

/// A wish for a token.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenRequest {
    /// The person it stands for.
    pub actor: String,
    /// What it may be used for.
    pub scope: TokenScope,
    /// When it ends; never when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
}

/// What may be known of a token.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenView {
    /// Its id.
    pub id: String,
    /// The person it stands for.
    pub actor: String,
    /// What it may be used for.
    pub scope: TokenScope,
    /// When it was made.
    pub created_at: Moment,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Moment>,
}

/// A token that was just made.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenAnswer {
    /// The token itself: it is not shown again.
    pub token: String,
    /// What may be known of it.
    pub record: TokenView,
}

/// All tokens.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenList {
    /// The tokens.
    pub items: Vec<TokenView>,
}

impl From<TokenRecord> for TokenView {
    fn from(record: TokenRecord) -> Self {
        let TokenRecord { id, actor, scope, digest: _, created_at, expires_at, revoked_at } =
            record;
        Self { id, actor, scope, created_at, expires_at, revoked_at }
    }
}

pub(crate) async fn list<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&[])?;
    let items = app.store.tokens().await?.into_iter().map(TokenView::from).collect();
    ok(&TokenList { items })
}

pub(crate) async fn make<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&[])?;
    let request: TokenRequest = asked.json()?;
    let minted = mint(&request.actor, request.scope, request.expires_at, asked.now);
    let minted = minted.map_err(|error| match error {
        TokenError::Actor => Problem::fault("actor", error.to_string()),
        TokenError::Expired => Problem::fault("expiresAt", error.to_string()),
        TokenError::Random(_) => Problem::unavailable(error.to_string()),
    })?;
    let detail = value!({ "for": request.actor, "scope": scope_name(request.scope) });
    let line = asked.audit("TokenCreated", format!("Token/{}", minted.record.id), detail);
    let writes = vec![Write::Token(minted.record.clone()), Write::Audit(line)];
    app.store.commit(writes, asked.now).await?;
    json(StatusCode::CREATED, &TokenAnswer { token: minted.text, record: minted.record.into() })
}

pub(crate) async fn revoke<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&[])?;
    let id = asked.param("name");
    let known = app.store.tokens().await?.into_iter().find(|token| token.id == id);
    let mut record =
        known.ok_or_else(|| Problem::not_found(format!("there is no token `{id}`")))?;
    if record.revoked_at.is_none() {
        record.revoked_at = Some(asked.now);
        let detail = value!({ "of": record.actor, "scope": scope_name(record.scope) });
        let line = asked.audit("TokenRevoked", format!("Token/{id}"), detail);
        let writes = vec![Write::Token(record.clone()), Write::Audit(line)];
        app.store.commit(writes, asked.now).await?;
    }
    ok(&TokenView::from(record))
}
