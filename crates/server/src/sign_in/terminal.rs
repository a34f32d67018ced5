//! Sign-in from a terminal: the device flow, which this server starts and asks for, and the exchange of an ID token.

use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Flow, complete, configured, seconds};
use crate::access::MintedToken;
use crate::app::App;
use crate::request::{ApiRequest, HandlerResult, json, ok};
use crate::tokens::TokenAnswer;

/// The default of the standard.
const DEFAULT_INTERVAL_SECONDS: u64 = 5;

/// A sign-in that a person confirms in a browser.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceAnswer {
    /// Send it to `/auth/device/token` until the person has confirmed; it is a secret.
    pub device_code: String,
    /// The code that the person enters.
    pub user_code: String,
    /// The address that the person opens.
    pub verification_uri: String,
    /// The address with the code in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_uri_complete: Option<String>,
    /// The lifetime of the codes in seconds.
    pub expires_in: u64,
    /// How many seconds to wait between two requests for the token.
    pub interval: u64,
}

/// A request for the token of a device flow.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceTokenRequest {
    /// The device code.
    pub device_code: String,
}

/// A request to exchange an ID token.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IdTokenRequest {
    /// An ID token of the provider for this client.
    pub id_token: String,
}

/// Starts a device flow at the provider.
pub(crate) async fn device<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let sign_in = configured(app)?;
    let code = sign_in.provider.start_device_flow(&sign_in.scope()).await?;
    ok(&DeviceAnswer {
        device_code: code.device_code,
        user_code: code.user_code,
        verification_uri: code.verification_uri,
        verification_uri_complete: code.verification_uri_complete,
        expires_in: code.expires_in,
        interval: code.interval.unwrap_or(DEFAULT_INTERVAL_SECONDS).max(1),
    })
}

/// Gives a token once the person has confirmed the device flow.
pub(crate) async fn device_token<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let sign_in = configured(app)?;
    let body: DeviceTokenRequest = request.json()?;
    let claims = sign_in.provider.redeem_device_code(&body.device_code, seconds(request)).await?;
    answer(complete(app, request, &claims, Flow::Device).await?)
}

/// Gives a token for an ID token.
pub(crate) async fn exchange<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let sign_in = configured(app)?;
    let body: IdTokenRequest = request.json()?;
    let claims = sign_in.provider.verify(&body.id_token, None, seconds(request)).await?;
    answer(complete(app, request, &claims, Flow::IdToken).await?)
}

fn answer(minted: MintedToken) -> HandlerResult {
    json(StatusCode::CREATED, &TokenAnswer { token: minted.text, record: minted.record.into() })
}
