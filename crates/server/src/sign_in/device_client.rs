//! The other side of the device flow, for programs that sign in to a server.

use std::time::Duration;

use reqwest::{Client, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::Instant;

use super::terminal::{DeviceAnswer, DeviceTokenRequest};
use crate::openid::SIGN_IN_NOT_OFFERED;
use crate::problem::ErrorBody;
use crate::tokens::TokenAnswer;

/// The standard demands this much more patience after `slow_down`.
const SLOW_DOWN: Duration = Duration::from_secs(5);
/// A person who is at the provider's page must not start again because one request failed.
const MAX_FAILURES: u32 = 5;
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// Longer than the time that the server gives its provider.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_LIFETIME: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeviceSignInError {
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("{message}")]
    Refused { code: String, message: String },
    #[error("nobody confirmed the code in time; start again")]
    Expired,
    /// The server has no OpenID provider, or the provider has no device flow.
    #[error("the server has no sign-in for terminals")]
    NotOffered,
}

/// Why one request gave no answer.
enum RequestError {
    /// The server or its provider may answer a later request.
    Transient(DeviceSignInError),
    Pending,
    SlowDown,
    Final(DeviceSignInError),
}

impl From<RequestError> for DeviceSignInError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Transient(error) | RequestError::Final(error) => error,
            // The server says these only of a code that it has given.
            RequestError::Pending | RequestError::SlowDown => Self::Expired,
        }
    }
}

/// Signs in to the server at this address. `show` tells the person which address to open and which code to enter.
/// The client must not follow redirects.
pub async fn sign_in_by_device(
    client: &Client,
    server: &Url,
    show: impl FnOnce(&DeviceAnswer),
) -> Result<TokenAnswer, DeviceSignInError> {
    let started: DeviceAnswer = post(client, server, "auth/device", None::<&()>).await?;
    let addresses = started.verification_uri_complete.iter().chain([&started.verification_uri]);
    if !addresses.into_iter().all(|address| is_web_address(address)) {
        return Err(DeviceSignInError::Refused {
            code: "INVALID_ADDRESS".to_owned(),
            message: "the address of its sign-in is not that of a web page".to_owned(),
        });
    }
    show(&started);
    let lifetime = Duration::from_secs(started.expires_in).min(MAX_LIFETIME);
    let end = Instant::now() + lifetime;
    let mut interval = Duration::from_secs(started.interval.max(1)).min(MAX_LIFETIME);
    let mut failures = 0;
    let body = DeviceTokenRequest { device_code: started.device_code };
    while Instant::now() + interval < end {
        tokio::time::sleep(interval).await;
        match post(client, server, "auth/device/token", Some(&body)).await {
            Ok(answer) => return Ok(answer),
            Err(RequestError::Pending) => failures = 0,
            Err(RequestError::SlowDown) => interval += SLOW_DOWN,
            Err(RequestError::Transient(_)) if failures < MAX_FAILURES => {
                failures += 1;
                interval += SLOW_DOWN;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(DeviceSignInError::Expired)
}

/// What a person may be told to open.
fn is_web_address(text: &str) -> bool {
    let is_web = |url: Url| ["http", "https"].contains(&url.scheme()) && url.has_host();
    !text.contains(char::is_whitespace) && Url::parse(text).is_ok_and(is_web)
}

fn unreachable(error: reqwest::Error) -> RequestError {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    RequestError::Transient(DeviceSignInError::Unreachable(cause.to_string()))
}

fn invalid(why: impl ToString) -> RequestError {
    RequestError::Final(DeviceSignInError::Unreachable(why.to_string()))
}

async fn read(mut response: Response) -> Result<Vec<u8>, RequestError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(invalid("its answer is too large"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

async fn post<T: DeserializeOwned>(
    client: &Client,
    server: &Url,
    path: &str,
    body: Option<&impl Serialize>,
) -> Result<T, RequestError> {
    let mut base = server.clone();
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", server.path()));
    }
    let url = base.join(path).map_err(invalid)?;
    let mut request = client.post(url).timeout(REQUEST_TIMEOUT);
    if let Some(body) = body {
        let bytes = serde_json::to_vec(body).map_err(invalid)?;
        request = request.header("content-type", "application/json").body(bytes);
    }
    let response: Response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let bytes = read(response).await?;
    if status.is_success() {
        return serde_json::from_slice(&bytes)
            .map_err(|error| invalid(format!("its answer has another shape: {error}")));
    }
    let Ok(ErrorBody { error }) = serde_json::from_slice::<ErrorBody>(&bytes) else {
        return Err(invalid(format!("it answered with status {status}")));
    };
    Err(match error.code.as_str() {
        "AUTHORIZATION_PENDING" => RequestError::Pending,
        "SLOW_DOWN" => RequestError::SlowDown,
        SIGN_IN_NOT_OFFERED | "NO_SUCH_PATH" => RequestError::Final(DeviceSignInError::NotOffered),
        code => {
            let refused =
                DeviceSignInError::Refused { code: code.to_owned(), message: error.message };
            match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                true => RequestError::Transient(refused),
                false => RequestError::Final(refused),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::is_web_address;

    #[test]
    fn people_are_sent_to_web_pages_only() {
        for address in ["https://id.example/device?user_code=A-B", "http://127.0.0.1:9/device"] {
            assert!(is_web_address(address), "{address}");
        }
        for address in
            ["file:///etc/passwd", "javascript:alert(1)", "https://a b", "", "id.example"]
        {
            assert!(!is_web_address(address), "{address}");
        }
    }
}
