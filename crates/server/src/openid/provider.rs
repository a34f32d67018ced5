//! Requests to the OpenID provider: its description and keys, tokens, the device flow, and a person's claims.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::Mutex;

use super::id_token::{Claims, Expected, IdTokenError, Key, verify};
use crate::sign_in_settings::{SignInSettings, SignInSettingsError, secure_url};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// How long the description and the keys are used before they are read again.
const DESCRIPTION_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// How soon they are read again for a token with an unknown key.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(30);
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ProviderError {
    #[error("{0}")]
    Unreachable(String),
    /// An error code of OAuth, for example `authorization_pending`.
    #[error("the provider answered `{0}`")]
    Refused(String),
    #[error(transparent)]
    Token(#[from] IdTokenError),
    #[error("the provider has no {0}")]
    Unsupported(&'static str),
}

/// What the provider says about itself.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Description {
    issuer: String,
    pub(crate) authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    device_authorization_endpoint: Option<String>,
    #[serde(default)]
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct TokenResponse {
    id_token: Option<String>,
    access_token: Option<String>,
}

/// The start of a device flow, as the provider answers it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct DeviceCode {
    pub(crate) device_code: String,
    pub(crate) user_code: String,
    pub(crate) verification_uri: String,
    #[serde(default)]
    pub(crate) verification_uri_complete: Option<String>,
    pub(crate) expires_in: u64,
    #[serde(default)]
    pub(crate) interval: Option<u64>,
}

#[derive(Deserialize)]
struct OAuthError {
    error: String,
}

#[derive(Clone)]
struct Known {
    description: Arc<Description>,
    keys: Arc<Vec<Key>>,
    read_at: Instant,
}

pub(crate) struct Provider {
    client: Client,
    settings: SignInSettings,
    known: Mutex<Option<Known>>,
}

fn unreachable(what: &str, error: impl std::fmt::Display) -> ProviderError {
    ProviderError::Unreachable(format!("{what}: {error}"))
}

async fn body(response: Response) -> Result<Vec<u8>, ProviderError> {
    let mut bytes = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| unreachable("the provider stopped answering", error))?;
        if bytes.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(unreachable("the provider", "the answer is too large"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

async fn send<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, ProviderError> {
    let response = request
        .send()
        .await
        .map_err(|error| unreachable("the provider cannot be reached", error.without_url()))?;
    let status = response.status();
    let bytes = body(response).await?;
    if !status.is_success() {
        return Err(match serde_json::from_slice::<OAuthError>(&bytes) {
            Ok(refused) => ProviderError::Refused(refused.error.chars().take(100).collect()),
            Err(_) => unreachable("the provider", format!("status {status}")),
        });
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| unreachable("the answer of the provider is invalid", error))
}

impl Provider {
    pub(crate) fn new(settings: SignInSettings) -> Result<Self, SignInSettingsError> {
        settings.check()?;
        // An earlier call has installed the same provider of cryptography.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .redirect(Policy::none())
            .timeout(REQUEST_TIMEOUT)
            .user_agent("bailiwick")
            .referer(false);
        if settings.issuer.starts_with("http://") {
            client = client.no_proxy();
        }
        let client =
            client.build().map_err(|error| SignInSettingsError::Client(error.to_string()))?;
        Ok(Self { client, settings, known: Mutex::new(None) })
    }

    pub(crate) async fn description(&self) -> Result<Arc<Description>, ProviderError> {
        Ok(self.known(DESCRIPTION_LIFETIME).await?.description)
    }

    /// The description and the keys, read again if they are older than this.
    async fn known(&self, max_age: Duration) -> Result<Known, ProviderError> {
        // The lock is held while they are read, so that concurrent requests read them once.
        let mut known = self.known.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.read_at.elapsed() < max_age) {
            return Ok(known.clone());
        }
        let issuer = &self.settings.issuer;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let description: Description = send(self.client.get(url)).await?;
        if description.issuer != *issuer {
            let other = &description.issuer;
            return Err(unreachable("the provider", format!("its issuer is `{other}`")));
        }
        let endpoints = [
            Some(&description.authorization_endpoint),
            Some(&description.token_endpoint),
            Some(&description.jwks_uri),
            description.device_authorization_endpoint.as_ref(),
            description.userinfo_endpoint.as_ref(),
        ];
        for endpoint in endpoints.into_iter().flatten() {
            secure_url(endpoint).map_err(|error| unreachable("the provider", error))?;
        }
        let set: KeySet = send(self.client.get(&description.jwks_uri)).await?;
        // Keys of unknown types are skipped, as the standard says.
        let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        let new = Known {
            description: Arc::new(description),
            keys: Arc::new(keys.collect()),
            read_at: Instant::now(),
        };
        *known = Some(new.clone());
        Ok(new)
    }

    /// The claims of a valid ID token. The keys are read again if the provider has changed them.
    pub(crate) async fn verify(
        &self,
        token: &str,
        nonce: Option<&str>,
        now_seconds: u64,
    ) -> Result<Claims, ProviderError> {
        let SignInSettings { issuer, client_id, .. } = &self.settings;
        let expected = Expected { issuer, client_id, nonce, now: now_seconds };
        let known = self.known(DESCRIPTION_LIFETIME).await?;
        match verify(token, &known.keys, expected) {
            Err(IdTokenError::UnknownKey | IdTokenError::Signature) => {
                let known = self.known(MIN_REFRESH_INTERVAL).await?;
                Ok(verify(token, &known.keys, expected)?)
            }
            checked => Ok(checked?),
        }
    }

    /// Exchanges the code of the browser flow.
    pub(crate) async fn redeem_code(
        &self,
        code: &str,
        verifier: &str,
        nonce: &str,
        now_seconds: u64,
    ) -> Result<Claims, ProviderError> {
        let redirect_uri = self.settings.redirect_uri();
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect_uri),
            ("code_verifier", verifier),
        ];
        self.redeem(&form, Some(nonce), now_seconds).await
    }

    /// Exchanges the code of a device flow.
    pub(crate) async fn redeem_device_code(
        &self,
        device_code: &str,
        now_seconds: u64,
    ) -> Result<Claims, ProviderError> {
        let form = [("grant_type", DEVICE_GRANT), ("device_code", device_code)];
        self.redeem(&form, None, now_seconds).await
    }

    pub(crate) async fn start_device_flow(&self, scope: &str) -> Result<DeviceCode, ProviderError> {
        let description = self.description().await?;
        let endpoint = description.device_authorization_endpoint.as_ref();
        let endpoint = endpoint.ok_or(ProviderError::Unsupported("device flow"))?;
        let code: DeviceCode = self.post(endpoint, &[("scope", scope)], &description).await?;
        // It is shown to people, who open it.
        Url::parse(&code.verification_uri)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| unreachable("the provider", "its verification address is invalid"))?;
        Ok(code)
    }

    async fn redeem(
        &self,
        form: &[(&str, &str)],
        nonce: Option<&str>,
        now_seconds: u64,
    ) -> Result<Claims, ProviderError> {
        let description = self.description().await?;
        let response: TokenResponse =
            self.post(&description.token_endpoint, form, &description).await?;
        let token = response.id_token.ok_or(ProviderError::Unsupported("ID token"))?;
        let mut claims = self.verify(&token, nonce, now_seconds).await?;
        let SignInSettings { username_claim, groups_claim, .. } = &self.settings;
        let is_complete =
            [username_claim, groups_claim].iter().all(|name| claims.contains_key(*name));
        if let (false, Some(access), Some(endpoint)) =
            (is_complete, response.access_token, &description.userinfo_endpoint)
        {
            let more: Claims = send(self.client.get(endpoint).bearer_auth(access)).await?;
            // The standard demands this check: the access token could be another person's.
            if more.get("sub") != claims.get("sub") {
                return Err(unreachable("the provider", "its claims are of another person"));
            }
            for (name, value) in more {
                claims.entry(name).or_insert(value);
            }
        }
        Ok(claims)
    }

    /// Sends a form as the client.
    async fn post<T: DeserializeOwned>(
        &self,
        endpoint: &str,
        form: &[(&str, &str)],
        description: &Description,
    ) -> Result<T, ProviderError> {
        let SignInSettings { client_id, client_secret, .. } = &self.settings;
        let encode =
            |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let mut form = form.to_vec();
        let mut request = self.client.post(endpoint);
        let methods = description.token_endpoint_auth_methods_supported.as_ref();
        let basic = methods.is_none_or(|all| all.iter().any(|one| one == "client_secret_basic"));
        match client_secret {
            Some(secret) if basic => {
                request = request.basic_auth(encode(client_id), Some(encode(secret)));
            }
            Some(secret) => {
                form.extend([("client_id", client_id.as_str()), ("client_secret", secret)]);
            }
            None => form.push(("client_id", client_id)),
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let kind = "application/x-www-form-urlencoded";
        send(request.header("content-type", kind).body(body)).await
    }
}
