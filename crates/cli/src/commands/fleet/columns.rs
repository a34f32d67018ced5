//! The columns of the tables of each kind.

use bailiwick_resources::{AnyObject, Kind, Moment, Standing};
use serde_json::Value;

use super::ago;
use crate::output::Column;

/// A field of a kind: its title, the path of its value, and whether it is only for wide tables.
type Field = (&'static str, &'static str, bool);

fn columns(kind: Kind) -> &'static [Field] {
    match kind {
        Kind::AgentStack => &[
            ("AGENT", "/spec/baseAgent", false),
            ("MODEL", "/spec/model", false),
            ("ROLE", "/spec/role", false),
            ("POOL", "/spec/runnerPool", true),
            ("VALIDATION", "/status/validation", true),
        ],
        Kind::AgentTriggerRule => &[
            ("STATE", "/spec/lifecycleState", false),
            ("SOURCES", "/spec/sources", false),
            ("STACK", "/spec/agentStack", false),
            ("TASK", "/spec/taskKind", true),
            ("RUNS", "/status/executionSummary/created", false),
            ("REJECTED", "/status/executionSummary/rejected", true),
            ("LAST", "/status/lastTriggeredAt", true),
        ],
        Kind::AgentDispatchRun => &[
            ("PHASE", "/status/phase", false),
            ("STACK", "/spec/agentStack", false),
            ("TASK", "/spec/taskKind", false),
            ("SOURCE", "/spec/sourceEvent/source", false),
            ("REPOSITORY", "/spec/repository", true),
            ("BRANCH", "/spec/branch", true),
            ("PR", "/spec/sourceRefs/pullRequest", true),
            ("ISSUE", "/spec/sourceRefs/issue", true),
            ("POOL", "/spec/runnerPool", true),
            ("TRUST", "/spec/trustTier", true),
            ("TOKENS", "/status/cost/tokens", true),
            ("RULE", "/spec/triggerRule", true),
            ("PARENT", "/spec/parentRun", true),
            ("WORKSPACE", "/status/workspace", true),
        ],
        Kind::AgentDispatchAttempt => &[
            ("RUN", "/spec/agentDispatchRun", false),
            ("REASON", "/spec/attemptReason", false),
            ("EXIT", "/status/exitReason", false),
        ],
        Kind::AgentApproval => &[
            ("PHASE", "/status/phase", false),
            ("RUN", "/spec/dispatchRun", true),
            ("TARGET", "/spec/action/target", false),
            ("BY", "/status/decidedBy", false),
            ("EXPIRES", "/spec/expiresAt", true),
        ],
        Kind::AgentTriggerExecution => &[
            ("DECISION", "/spec/decision", false),
            ("RULE", "/spec/triggerRule", false),
            ("RUN", "/spec/dispatchRun", true),
            ("REASON", "/spec/reason", false),
        ],
        Kind::WebhookDelivery => &[
            ("EVENT", "/spec/event", false),
            ("REPOSITORY", "/spec/repository", false),
            ("EVALUATED", "/status/evaluated", false),
        ],
        Kind::Repository => &[
            ("FULL NAME", "/spec/fullName", false),
            ("FORGE", "/spec/forge", false),
            ("BRANCH", "/spec/defaultBranch", true),
            ("CHECKOUT", "/spec/checkout", true),
        ],
        Kind::RunnerPool => &[
            ("CAPACITY", "/spec/capacity", false),
            ("ACTIVE", "/status/active", false),
            ("QUEUED", "/status/queued", false),
            ("TRUST", "/spec/trustTier", false),
        ],
        Kind::AgentWorkspace => &[
            ("STATE", "/status/state", false),
            ("BRANCH", "/spec/branch", false),
            ("DIRTY", "/status/git/dirty", false),
            ("PATH", "/spec/workspacePath", true),
        ],
        Kind::AgentMcpServer => &[
            ("TRANSPORT", "/spec/transport", false),
            ("SCOPE", "/spec/scope", false),
            ("HEALTH", "/status/health", false),
        ],
        Kind::AgentSkill => &[
            ("FORMAT", "/spec/format", false),
            ("VERSION", "/spec/version", false),
            ("VALIDATION", "/status/validation", false),
        ],
        Kind::AgentSecretGrant => &[
            ("SUBJECT", "/spec/subject/name", false),
            ("SECRET", "/spec/secretRef/name", false),
            ("PURPOSE", "/spec/purpose", false),
        ],
        Kind::AgentConfigGrant => &[
            ("SUBJECT", "/spec/subject/name", false),
            ("CONFIG", "/spec/configMapRef/name", false),
            ("PURPOSE", "/spec/purpose", false),
        ],
        Kind::AgentArtifact => &[
            ("KIND", "/spec/kind", false),
            ("RUN", "/spec/dispatchRun", false),
            ("DIGEST", "/spec/digest", true),
        ],
        Kind::AgentSubagent => &[
            ("TASKS", "/spec/taskKinds", false),
            ("MODEL", "/spec/modelOverride", false),
            ("AT ONCE", "/spec/maxParallelTasks", false),
            ("OUTPUT", "/spec/outputContract", true),
        ],
        Kind::AgentToolProfile => &[
            ("FILES", "/spec/filesystemPolicy", false),
            ("NETWORK", "/spec/networkPolicy/mode", false),
            ("AUDIT", "/spec/auditLevel", true),
        ],
        Kind::AgentServiceAccount => &[
            ("ACCOUNT", "/spec/serviceAccountName", false),
            ("OWNER", "/spec/owner/name", false),
            ("POOLS", "/spec/allowedRunnerPools", true),
            ("SYNCED", "/status/syncedServiceAccount", true),
        ],
        Kind::AgentRoleBinding => &[
            ("SUBJECT", "/spec/subject/name", false),
            ("ROLE", "/spec/roleRef/name", false),
            ("ESCALATION", "/spec/escalationPolicy", true),
        ],
        Kind::AgentCapabilityRequirement => {
            &[("OWNER", "/spec/ownerRef/kind", false), ("OF", "/spec/ownerRef/name", false)]
        }
        Kind::WorkItemSessionLink => &[
            ("ITEM", "/spec/workItemRef/id", false),
            ("KIND", "/spec/workItemRef/kind", false),
            ("SESSION", "/spec/sessionRef", false),
            ("SOURCE", "/spec/linkSource", true),
        ],
        Kind::WorkItemWorkspaceLink => &[
            ("ITEM", "/spec/workItemRef/id", false),
            ("KIND", "/spec/workItemRef/kind", false),
            ("WORKSPACE", "/spec/workspaceRef", false),
            ("SOURCE", "/spec/linkSource", true),
        ],
        Kind::AgentContextLabel => &[
            ("TITLE", "/spec/displayName", false),
            ("SOURCES", "/spec/allowedSources", false),
            ("REVIEWED BY", "/spec/reviewedBy", false),
            ("DIGEST", "/status/digest", true),
        ],
        Kind::AgentWorkspacePolicy => &[("MODE", "/spec/mode", false)],
        Kind::AgentSession => &[
            ("RUN", "/spec/dispatchRun", false),
            ("ADAPTER", "/spec/adapter", false),
            ("LIVE", "/status/live", false),
            ("RESUMABLE", "/status/resumable", false),
            ("LAST", "/status/lastActivityAt", true),
        ],
        Kind::AgentContextBundle => &[
            ("RUN", "/spec/dispatchRun", false),
            ("BYTES", "/spec/totalBytes", false),
            ("DIGEST", "/spec/digest", true),
        ],
        Kind::AgentReviewArtifact => &[
            ("RUN", "/spec/dispatchRun", false),
            ("TARGET", "/spec/targetRef", false),
            ("DECISION", "/spec/decision", false),
        ],
        Kind::ServiceAccount | Kind::Role | Kind::RoleBinding | Kind::Secret | Kind::ConfigMap => {
            &[]
        }
    }
}

/// The titles of a table.
pub fn header(kind: Kind, wide: bool) -> Vec<Column> {
    let mut titles = vec![Column::fixed("NAME")];
    let ready = !bailiwick_resources::expected_conditions(kind).is_empty();
    let shown = columns(kind).iter().filter(|(_, _, only)| wide || !only);
    titles.extend(shown.map(|(title, _, _)| match *title {
        "PATH" | "CHECKOUT" => Column::path(title),
        _ => Column::text(title),
    }));
    if ready {
        titles.push(Column::text("READY"));
    }
    titles.push(Column::fixed("AGE"));
    titles
}

/// An object as a row.
pub fn row(object: &AnyObject, wide: bool, now: Moment) -> Vec<String> {
    let whole = serde_json::to_value(object).unwrap_or_default();
    let mut cells = vec![object.metadata.name.clone()];
    for (_, pointer, _) in columns(object.kind).iter().filter(|(_, _, only)| wide || !only) {
        cells.push(whole.pointer(pointer).map_or_else(|| "-".to_owned(), cell));
    }
    if !bailiwick_resources::expected_conditions(object.kind).is_empty() {
        cells.push(ready(object));
    }
    let born = object.metadata.creation_timestamp;
    cells.push(born.map_or_else(|| "-".to_owned(), |born| ago(born, now)));
    cells
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(cell).collect::<Vec<_>>().join(","),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// Whether all conditions are met; else the first one that is not.
fn ready(object: &AnyObject) -> String {
    let conditions = object.conditions();
    if conditions.is_empty() {
        return "?".to_owned();
    }
    let fails = conditions.iter().find(|condition| condition.status != Standing::True);
    match fails {
        None => "yes".to_owned(),
        Some(condition) => format!("no: {}", condition.reason.as_str()),
    }
}
