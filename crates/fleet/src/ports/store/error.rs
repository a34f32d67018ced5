//! Why a request to the store failed.

use bailiwick_resources::Kind;
use thiserror::Error;

/// Why a request to the store failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FleetError {
    #[error("there is no {kind} `{namespace}/{name}`")]
    NotFound { kind: Kind, namespace: String, name: String },
    #[error("there is a {kind} `{namespace}/{name}` already")]
    AlreadyExists { kind: Kind, namespace: String, name: String },
    /// Another writer has changed the object.
    #[error(
        "{kind} `{namespace}/{name}` was changed meanwhile (version {found}, yours is {given}); \
         read it again"
    )]
    Conflict { kind: Kind, namespace: String, name: String, given: u64, found: u64 },
    #[error("changes before {oldest} are not kept any more; list again")]
    Gone { oldest: u64 },
    #[error("`{0}` is not a continuation token; use `continue` of the page before")]
    InvalidContinuation(String),
    /// A secret value cannot be decrypted. The store itself works.
    #[error("{value} cannot be opened: {why}")]
    Undecryptable {
        /// Its key and the name of its secret.
        value: String,
        /// The reason, which may name files.
        why: String,
    },
    #[error("{0}")]
    Unavailable(String),
}
