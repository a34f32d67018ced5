//! What a line of a list says about an object: its state, and the first thing to do about it.

use bailiwick_fleet::explanation::{RelatedObjects, explain};
use bailiwick_resources::{AnyObject, Kind, Standing, expected_conditions};
use serde_json::Value;

use super::MAX_LINE;
use crate::text::line;

/// How an object is, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectState {
    pub(crate) label: String,
    /// The class that colours the label.
    pub(crate) class: &'static str,
    /// What is wrong, and what to do about it.
    pub(crate) note: String,
    pub(crate) needs_attention: bool,
}

/// Fields that say the state of a kind without conditions.
const STATES: [&str; 6] = [
    "/status/phase",
    "/status/state",
    "/spec/decision",
    "/status/health",
    "/status/validation",
    "/spec/lifecycleState",
];

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Array(all) => {
            let all: Vec<String> = all.iter().filter_map(scalar).collect();
            Some(all.join(", ")).filter(|text| !text.is_empty())
        }
        Value::Null | Value::Object(_) => None,
    }
}

fn field(object: &AnyObject, pointer: &str) -> Option<String> {
    let (part, rest) = match pointer.strip_prefix("/spec") {
        Some(rest) => (&object.spec, rest),
        None => (&object.status, pointer.strip_prefix("/status")?),
    };
    part.pointer(rest).and_then(scalar).filter(|text| !text.is_empty())
}

impl ObjectState {
    pub(crate) fn of(object: &AnyObject) -> Self {
        let explained = explain(object, &RelatedObjects::default());
        let is = |standing| explained.conditions.iter().find(move |one| one.status == standing);
        let words = STATES.into_iter().find_map(|pointer| field(object, pointer));
        let failing = is(Standing::False).or_else(|| is(Standing::Unknown));
        // A rule says its lifecycle; a run that waits for a later condition is not broken.
        let is_definition = object.kind.author() == bailiwick_resources::Author::People;
        if let Some(failing) = failing.filter(|_| is_definition) {
            let advice = failing.advice.map(|advice| format!(" {advice}")).unwrap_or_default();
            let note = format!("{}: {}{advice}", failing.reason, failing.message);
            let label = if failing.status == Standing::False { "not ready" } else { "unknown" };
            return Self {
                label: words.map_or_else(|| label.to_owned(), |words| format!("{words}, {label}")),
                class: "needs-you",
                note: line(&note, MAX_LINE),
                needs_attention: true,
            };
        }
        let unchecked =
            explained.conditions.is_empty() && !expected_conditions(object.kind).is_empty();
        let label = match words {
            Some(words) => words,
            None if unchecked && is_definition => "not checked".to_owned(),
            None if explained.conditions.is_empty() => String::new(),
            None => "ready".to_owned(),
        };
        let class = match label.as_str() {
            "ready" | "active" | "running" | "succeeded" | "created" | "approved" => "working",
            "failed" | "waiting-for-approval" | "pending" | "rejected" | "missing" => "needs-you",
            _ => "",
        };
        Self { label: line(&label, MAX_LINE), class, note: String::new(), needs_attention: false }
    }
}

/// Fields of a kind that tell objects apart.
fn telling(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::AgentStack => &["/spec/displayName", "/spec/baseAgent", "/spec/model", "/spec/role"],
        Kind::AgentSubagent | Kind::AgentSkill => &["/spec/description"],
        Kind::AgentMcpServer => &["/spec/transport", "/spec/command", "/spec/url"],
        Kind::AgentServiceAccount => &["/spec/serviceAccountName"],
        Kind::AgentRoleBinding => &["/spec/roleRef/name", "/spec/subject/name"],
        Kind::AgentSecretGrant => &["/spec/secretRef/name", "/spec/subject/name", "/spec/purpose"],
        Kind::AgentConfigGrant => {
            &["/spec/configMapRef/name", "/spec/subject/name", "/spec/purpose"]
        }
        Kind::AgentTriggerRule => &["/spec/sources", "/spec/agentStack", "/spec/taskKind"],
        Kind::AgentDispatchRun => &["/spec/agentStack", "/spec/repository", "/spec/taskKind"],
        Kind::AgentDispatchAttempt => &["/spec/agentDispatchRun"],
        Kind::WorkItemSessionLink => &["/spec/workItemRef/id", "/spec/sessionRef"],
        Kind::WorkItemWorkspaceLink => &["/spec/workItemRef/id", "/spec/workspaceRef"],
        Kind::AgentContextLabel => &["/spec/displayName", "/spec/owner"],
        Kind::AgentWorkspacePolicy => &["/spec/mode", "/spec/retentionPolicy/keepFor"],
        Kind::AgentWorkspace => &["/spec/repository", "/spec/branch", "/spec/ownership"],
        Kind::AgentSession => &["/spec/dispatchRun", "/spec/adapter"],
        Kind::AgentApproval => &["/spec/action/target", "/spec/dispatchRun"],
        Kind::AgentContextBundle | Kind::AgentArtifact | Kind::AgentReviewArtifact => {
            &["/spec/dispatchRun", "/spec/digest"]
        }
        Kind::AgentTriggerExecution => &["/spec/triggerRule", "/spec/source", "/spec/reason"],
        Kind::WebhookDelivery => &["/spec/repository", "/spec/event", "/status/fault"],
        Kind::Repository => &["/spec/fullName", "/spec/forge", "/spec/trustTier"],
        Kind::RunnerPool => &["/spec/trustTier", "/spec/capacity"],
        Kind::AgentToolProfile
        | Kind::AgentCapabilityRequirement
        | Kind::ServiceAccount
        | Kind::Role
        | Kind::RoleBinding
        | Kind::Secret
        | Kind::ConfigMap => &[],
    }
}

/// An object in a few words.
pub(crate) fn brief(object: &AnyObject) -> String {
    let words = telling(object.kind).iter().filter_map(|pointer| field(object, pointer));
    line(&words.collect::<Vec<_>>().join(" · "), MAX_LINE)
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::{API_VERSION, Metadata};
    use serde_json::json;

    use super::*;

    fn object(kind: Kind, spec: Value, status: Value) -> AnyObject {
        let metadata = Metadata { generation: 1, ..Metadata::named("a") };
        AnyObject { api_version: API_VERSION.to_owned(), kind, metadata, spec, status }
    }

    #[test]
    fn failing_condition_is_shown_with_its_advice() {
        let status = json!({ "conditions": [
            { "type": "Ready", "status": "False", "reason": "MissingSecretGrant", "message": "no key",
              "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z" },
        ] });
        let state = ObjectState::of(&object(Kind::AgentStack, json!({}), status));
        assert_eq!(state.label, "not ready");
        assert!(state.needs_attention);
        assert!(state.note.starts_with("MissingSecretGrant: no key "), "{}", state.note);
    }

    #[test]
    fn unchecked_object_is_not_shown_as_ready() {
        let state = ObjectState::of(&object(Kind::AgentStack, json!({}), Value::Null));
        assert_eq!(state.label, "not checked");
        let rule =
            object(Kind::AgentTriggerExecution, json!({ "decision": "created" }), Value::Null);
        assert_eq!(ObjectState::of(&rule).label, "created");
    }

    #[test]
    fn rule_summary_has_sources_stack_and_task_kind() {
        let spec = json!({ "sources": ["push", "tag"], "agentStack": "fixer", "taskKind": "mend" });
        assert_eq!(
            brief(&object(Kind::AgentTriggerRule, spec, Value::Null)),
            "push, tag · fixer · mend"
        );
    }
}
