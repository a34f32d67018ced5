//! Lines of the audit log about declared resources.

use std::collections::BTreeMap;

use bailiwick_resources::{AnyObject, Kind, Metadata, Moment};
use serde_json::json;

use crate::ports::AuditEntry;

/// What was done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditAction {
    /// There was none.
    Created,
    /// It was another.
    Replaced,
    /// It goes.
    Deleted,
}

impl AuditAction {
    /// The event name in the audit log.
    pub fn event(self, kind: Kind) -> String {
        let grants = [Kind::AgentRoleBinding, Kind::AgentSecretGrant, Kind::AgentConfigGrant];
        let what = match self {
            Self::Created | Self::Replaced if grants.contains(&kind) => "Applied",
            Self::Created => "Created",
            Self::Replaced => "Replaced",
            Self::Deleted => "Deleted",
        };
        format!("{kind}{what}")
    }
}

/// Who does it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditActor {
    /// The person.
    pub actor: String,
    /// What joins the line with others, by its name.
    pub correlation: BTreeMap<String, String>,
}

impl AuditActor {
    /// Somebody of whom only the name is known.
    pub fn person(actor: &str) -> Self {
        Self { actor: actor.to_owned(), correlation: BTreeMap::new() }
    }

    /// The line about an action. Of the spec only its digest: it may say more than the log's readers may know.
    pub fn line(&self, action: AuditAction, object: &AnyObject, at: Moment) -> AuditEntry {
        let Metadata { name, namespace, .. } = &object.metadata;
        AuditEntry {
            at,
            actor: self.actor.clone(),
            event: action.event(object.kind),
            subject: format!("{}/{namespace}/{name}", object.kind),
            correlation: self.correlation.clone(),
            detail: json!({ "specDigest": object.spec_digest().as_str() }),
        }
    }
}
