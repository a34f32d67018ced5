//! Records in a store besides objects: deliveries, tokens, saved filters and the audit log.

use std::collections::BTreeMap;

use bailiwick_resources::{Moment, WebhookDelivery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A received webhook with a valid signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingDelivery {
    /// The name of its object, derived from repository and delivery id.
    pub name: String,
    pub spec: WebhookDelivery,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// The result of storing a webhook, which is durable then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// It was stored.
    New,
    /// It was already stored with the same bytes.
    Redelivered,
    /// A delivery with the same id and other bytes is stored.
    ConflictingBytes,
}

/// The rights of a token; each includes those before it, except `approver`, which is `operator` plus decisions.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TokenScope {
    /// Looking.
    Viewer,
    /// And starting, cancelling, retrying.
    Operator,
    /// And deciding approvals.
    Approver,
    /// And declaring resources, secrets and tokens.
    Admin,
}

/// The beginning of the id of a token that a sign-in has created.
pub const SESSION_ID_PREFIX: &str = "session-";

/// A token, without itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenRecord {
    /// Its ID, which is not secret.
    pub id: String,
    /// Its person.
    pub actor: String,
    /// Its rights.
    pub scope: TokenScope,
    /// The digest of the token.
    pub digest: String,
    /// When it was created.
    pub created_at: Moment,
    /// When it ends.
    pub expires_at: Option<Moment>,
    /// When it was revoked.
    pub revoked_at: Option<Moment>,
}

impl TokenRecord {
    /// The id of a session that was started with another token, and ends with it.
    pub fn session_id(own: &str, parent: &Self) -> String {
        format!("{SESSION_ID_PREFIX}{own}.{}", parent.digest)
    }

    /// The digest of the token that started this session; none if it was started in another way, or is not a
    /// session.
    pub fn parent(&self) -> Option<&str> {
        let (_, digest) = self.id.strip_prefix(SESSION_ID_PREFIX)?.split_once('.')?;
        Some(digest)
    }
}

/// A filter of the list of runs that a person has saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedFilter {
    /// The person, as in tokens.
    pub owner: String,
    /// Its name, which the person has once.
    pub name: String,
    /// The query of the list, such as `group=ended&stack=mender`.
    pub query: String,
}

/// A line of the audit log: it is written together with the change, or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// When.
    pub at: Moment,
    /// A person, an identity, or `bailiwick` itself.
    pub actor: String,
    /// The event, such as `AgentApprovalDecision`.
    pub event: String,
    /// To what, as `AgentApproval/default/x`.
    pub subject: String,
    /// The ids that join it with others.
    pub correlation: BTreeMap<String, String>,
    /// More; never a secret.
    pub detail: Value,
}
