//! Why a request to a control plane failed.

use bailiwick_fleet::ports::{ActionError, FleetError};
use bailiwick_fleet::resources::DeclareError;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientError {
    /// The control plane refused the action, here or on a server.
    #[error(transparent)]
    Action(#[from] ActionError),
    /// The control plane refused the documents, here or on a server.
    #[error(transparent)]
    Declare(#[from] DeclareError),
    #[error("cannot reach {server}: {why}")]
    Unreachable { server: String, why: String },
    /// The server does not say which of the three it is.
    #[error("{server} does not accept the token: it is unknown, expired or revoked")]
    TokenRejected { server: String },
    #[error("cannot sign in to {server}: {why}")]
    SignInFailed { server: String, why: String },
    /// The token is valid but its scope is too low; the message names both scopes.
    #[error("{message}")]
    ScopeDenied { message: String },
    #[error("{server} refused the request: {message}")]
    Refused { server: String, message: String },
    #[error("{server} is not compatible with this program (version {client}): {why}")]
    Incompatible { server: String, client: String, why: String },
}

impl From<FleetError> for ClientError {
    fn from(error: FleetError) -> Self {
        Self::Action(error.into())
    }
}
