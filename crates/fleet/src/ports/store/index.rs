//! The indexes of a store: fields to select objects by, and the digests that protect blobs.

use std::collections::BTreeSet;

use bailiwick_resources::{AnyObject, Kind};
use serde_json::Value;

/// The fields of a kind that can be selected: a name and a JSON pointer.
pub fn indexed_fields(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::AgentDispatchRun => &[
            ("status", "/status/phase"),
            ("source", "/spec/sourceEvent/source"),
            ("stack", "/spec/agentStack"),
            ("taskKind", "/spec/taskKind"),
            ("pool", "/spec/runnerPool"),
            ("repository", "/spec/repository"),
            ("branch", "/spec/branch"),
            ("pullRequest", "/spec/sourceRefs/pullRequest"),
            ("issue", "/spec/sourceRefs/issue"),
            ("rule", "/spec/triggerRule"),
            ("group", "/spec/concurrencyGroup"),
            ("parent", "/spec/parentRun"),
            ("agent", "/status/agentMuxRunId"),
            ("told", "/status/checkReport/told"),
        ],
        Kind::AgentDispatchAttempt => {
            &[("run", "/spec/agentDispatchRun"), ("agent", "/status/agentMuxRunId")]
        }
        Kind::AgentTriggerRule => {
            &[("stack", "/spec/agentStack"), ("state", "/spec/lifecycleState")]
        }
        Kind::AgentTriggerExecution => &[
            ("rule", "/spec/triggerRule"),
            ("decision", "/spec/decision"),
            ("event", "/spec/eventUid"),
            ("dedupeKey", "/spec/dedupeKey"),
            ("failure", "/spec/failureKey"),
            ("run", "/spec/dispatchRun"),
        ],
        Kind::WebhookDelivery => {
            &[("repository", "/spec/repository"), ("evaluated", "/status/evaluated")]
        }
        Kind::AgentApproval => &[("run", "/spec/dispatchRun"), ("phase", "/status/phase")],
        Kind::AgentArtifact => &[
            ("run", "/spec/dispatchRun"),
            ("digest", "/spec/digest"),
            ("commit", "/spec/patch/commit"),
        ],
        Kind::AgentReviewArtifact | Kind::AgentContextBundle => {
            &[("run", "/spec/dispatchRun"), ("digest", "/spec/digest")]
        }
        Kind::AgentSession => {
            &[("run", "/spec/dispatchRun"), ("session", "/spec/agentMuxSessionId")]
        }
        Kind::AgentWorkspace => {
            &[("repository", "/spec/repository"), ("state", "/status/state"), ("run", "/spec/run")]
        }
        Kind::WorkItemSessionLink => &[("session", "/spec/sessionRef")],
        Kind::WorkItemWorkspaceLink => &[("workspace", "/spec/workspaceRef")],
        Kind::AgentStack
        | Kind::AgentSubagent
        | Kind::AgentToolProfile
        | Kind::AgentMcpServer
        | Kind::AgentSkill
        | Kind::AgentServiceAccount
        | Kind::AgentRoleBinding
        | Kind::AgentSecretGrant
        | Kind::AgentConfigGrant
        | Kind::AgentCapabilityRequirement
        | Kind::AgentContextLabel
        | Kind::AgentWorkspacePolicy
        | Kind::Repository
        | Kind::RunnerPool
        | Kind::ServiceAccount
        | Kind::Role
        | Kind::RoleBinding
        | Kind::Secret
        | Kind::ConfigMap => &[],
    }
}

/// The value of an indexed field as text; none if the object does not have it.
pub(super) fn field_value(object: &AnyObject, field: &str) -> Option<String> {
    let (_, pointer) = indexed_fields(object.kind).iter().find(|(name, _)| *name == field)?;
    let value = match pointer.strip_prefix("/spec") {
        Some(inside) => object.spec.pointer(inside)?,
        None => object.status.pointer(pointer.strip_prefix("/status")?)?,
    };
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// All digests in an object: their blobs are stored while it exists.
pub fn named_digests(object: &AnyObject) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut look = |text: &str| {
        let bare = text.strip_prefix("sha256:").unwrap_or(text);
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if bare.len() == 64 && bare.bytes().all(digit) {
            found.insert(bare.to_owned());
        }
    };
    object.metadata.annotations.values().for_each(|text| look(text));
    let mut open = vec![&object.spec, &object.status];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => look(text),
            Value::Array(all) => open.extend(all),
            Value::Object(all) => open.extend(all.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}
