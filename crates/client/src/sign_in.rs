//! Sign-in to a server without a token: a person confirms a code at the OpenID provider of the server.

use bailiwick_server::{DeviceAnswer, DeviceSignInError, sign_in_by_device};

use crate::contexts::Token;
use crate::error::ClientError;
use crate::http::transport;
use crate::server_address::ServerAddress;

/// Waits until the person has confirmed the code that `show` gets. None if the server has no such sign-in.
pub async fn sign_in(
    server: &ServerAddress,
    show: impl FnOnce(&DeviceAnswer),
) -> Result<Option<Token>, ClientError> {
    let client = transport::client(server)?;
    let name = || server.to_string();
    let answer = match sign_in_by_device(&client, server.url(), show).await {
        Ok(answer) => answer,
        Err(DeviceSignInError::NotOffered) => return Ok(None),
        Err(DeviceSignInError::Unreachable(why)) => {
            return Err(ClientError::Unreachable { server: name(), why });
        }
        Err(error @ (DeviceSignInError::Refused { .. } | DeviceSignInError::Expired)) => {
            return Err(ClientError::SignInFailed { server: name(), why: error.to_string() });
        }
    };
    let malformed = || ClientError::SignInFailed {
        server: name(),
        why: "it answered with something that is not a token".to_owned(),
    };
    Token::parse(&answer.token).map(Some).ok_or_else(malformed)
}
