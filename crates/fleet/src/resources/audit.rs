//! Lines of the audit log about declared resources.

use std::collections::BTreeMap;

use bailiwick_resources::{AnyObject, Kind, Metadata, Moment};
use serde_json::json;

use crate::ports::AuditEntry;

/// The action on an object.
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

/// The actor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditActor {
    /// The person.
    pub actor: String,
    /// The IDs that connect the line with others, by name.
    pub correlation: BTreeMap<String, String>,
}

impl AuditActor {
    /// An actor with only a name.
    pub fn person(actor: &str) -> Self {
        Self { actor: actor.to_owned(), correlation: BTreeMap::new() }
    }

    /// The line for an action. It contains only the digest of the spec, which may be confidential.
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
