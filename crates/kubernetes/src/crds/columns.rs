//! What `kubectl get` shows of each kind.

use bailiwick_resources::{ConditionType, Kind, expected_conditions};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, JSONSchemaProps,
};

use super::LimitError;

/// The title and the path of a column.
type Column = (&'static str, &'static str);

/// The columns of a kind, with the condition `Ready` and the age at the end.
pub(super) fn of(
    kind: Kind,
    schema: &JSONSchemaProps,
) -> Result<Vec<CustomResourceColumnDefinition>, LimitError> {
    let field = |(title, path): &Column| {
        let field = field(schema, path).ok_or_else(|| LimitError::NoField((*path).to_owned()))?;
        Ok(column(title, path, shown_as(field)))
    };
    let mut columns = fields(kind).iter().map(field).collect::<Result<Vec<_>, _>>()?;
    if expected_conditions(kind).contains(&ConditionType::Ready) {
        let part = |part| format!(r#".status.conditions[?(@.type=="Ready")].{part}"#);
        columns.push(column("Ready", &part("status"), "string"));
        let reason = column("Reason", &part("reason"), "string");
        columns.push(CustomResourceColumnDefinition { priority: Some(1), ..reason });
    }
    columns.push(column("Age", ".metadata.creationTimestamp", "date"));
    Ok(columns)
}

fn field<'a>(schema: &'a JSONSchemaProps, path: &str) -> Option<&'a JSONSchemaProps> {
    let mut names = path.split('.').filter(|name| !name.is_empty());
    names.try_fold(schema, |node, name| node.properties.as_ref()?.get(name))
}

/// The type of a column for a field.
fn shown_as(field: &JSONSchemaProps) -> &'static str {
    match (field.type_.as_deref(), field.format.as_deref()) {
        (Some("integer"), _) => "integer",
        (_, Some("date-time")) => "date",
        _ => "string",
    }
}

fn column(title: &str, path: &str, type_: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: title.to_owned(),
        json_path: path.to_owned(),
        type_: type_.to_owned(),
        ..CustomResourceColumnDefinition::default()
    }
}

fn fields(kind: Kind) -> &'static [Column] {
    match kind {
        Kind::AgentStack => {
            &[("Agent", ".spec.baseAgent"), ("Model", ".spec.model"), ("Role", ".spec.role")]
        }
        Kind::AgentToolProfile => &[("Files", ".spec.filesystemPolicy")],
        Kind::AgentMcpServer => &[
            ("Transport", ".spec.transport"),
            ("Scope", ".spec.scope"),
            ("Health", ".status.health"),
        ],
        Kind::AgentSkill => &[("Format", ".spec.format")],
        Kind::AgentServiceAccount => {
            &[("Account", ".spec.serviceAccountName"), ("Owner", ".spec.owner.name")]
        }
        Kind::AgentRoleBinding => {
            &[("Role", ".spec.roleRef.name"), ("Subject", ".spec.subject.name")]
        }
        Kind::AgentSecretGrant => &[
            ("Secret", ".spec.secretRef.name"),
            ("Subject", ".spec.subject.name"),
            ("Purpose", ".spec.purpose"),
        ],
        Kind::AgentConfigGrant => &[
            ("Config", ".spec.configMapRef.name"),
            ("Subject", ".spec.subject.name"),
            ("Purpose", ".spec.purpose"),
        ],
        Kind::AgentCapabilityRequirement => {
            &[("Kind", ".spec.ownerRef.kind"), ("Owner", ".spec.ownerRef.name")]
        }
        Kind::AgentTriggerRule => &[
            ("State", ".spec.lifecycleState"),
            ("Stack", ".spec.agentStack"),
            ("Last", ".status.lastTriggeredAt"),
        ],
        Kind::AgentDispatchRun => &[
            ("Phase", ".status.phase"),
            ("Reason", ".status.terminalReason"),
            ("Stack", ".spec.agentStack"),
            ("Repository", ".spec.repository"),
        ],
        Kind::AgentDispatchAttempt => &[
            ("Run", ".spec.agentDispatchRun"),
            ("Number", ".spec.number"),
            ("Exit", ".status.exitReason"),
        ],
        Kind::WorkItemSessionLink => {
            &[("Item", ".spec.workItemRef.id"), ("Session", ".spec.sessionRef")]
        }
        Kind::WorkItemWorkspaceLink => {
            &[("Item", ".spec.workItemRef.id"), ("Workspace", ".spec.workspaceRef")]
        }
        Kind::AgentWorkspacePolicy => {
            &[("Mode", ".spec.mode"), ("Kept", ".spec.retentionPolicy.keepFor")]
        }
        Kind::AgentWorkspace => &[
            ("State", ".status.state"),
            ("Repository", ".spec.repository"),
            ("Branch", ".spec.branch"),
        ],
        Kind::AgentSession => &[("Run", ".spec.dispatchRun"), ("Adapter", ".spec.adapter")],
        Kind::AgentApproval => &[
            ("Phase", ".status.phase"),
            ("Run", ".spec.dispatchRun"),
            ("Target", ".spec.action.target"),
            ("By", ".status.decidedBy"),
        ],
        Kind::AgentReviewArtifact => {
            &[("Run", ".spec.dispatchRun"), ("Decision", ".spec.decision")]
        }
        Kind::Repository => &[("Name", ".spec.fullName"), ("Forge", ".spec.forge")],
        Kind::RunnerPool => &[
            ("Tier", ".spec.trustTier"),
            ("Capacity", ".spec.capacity"),
            ("Active", ".status.active"),
            ("Queued", ".status.queued"),
        ],
        Kind::AgentSubagent
        | Kind::AgentContextLabel
        | Kind::AgentContextBundle
        | Kind::AgentArtifact
        | Kind::AgentTriggerExecution
        | Kind::WebhookDelivery
        | Kind::ServiceAccount
        | Kind::Role
        | Kind::RoleBinding
        | Kind::Secret
        | Kind::ConfigMap => &[],
    }
}
