//! Repeated requests: the same id with the same content is one request, with other content it is an error.

use bailiwick_model::Sha256Hex;
use bailiwick_resources::Metadata;
use serde::Serialize;

use crate::ports::ActionError;

/// The annotation with the digest of the request that created an object.
pub(super) const CONTENT: &str = "bailiwick.dev/request-digest";

pub(super) fn content_digest(content: &impl Serialize) -> String {
    Sha256Hex::of(serde_json::to_vec(content).unwrap_or_default()).to_string()
}

/// Refuses a request id that was used with other content. Objects without a digest are not compared.
pub(super) fn require_same(kept: &Metadata, content: &str, id: &str) -> Result<(), ActionError> {
    match kept.annotations.get(CONTENT) {
        Some(known) if known != content => Err(ActionError::Conflict {
            code: "RequestIdTaken".to_owned(),
            message: format!(
                "the requestId `{id}` stands for another request, of which `{}` came; send this one \
                 with an id of its own, or with none",
                kept.name
            ),
        }),
        Some(_) | None => Ok(()),
    }
}
