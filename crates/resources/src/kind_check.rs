//! Maps each kind to its type.

use schemars::{Schema, SchemaGenerator};

use crate::*;

macro_rules! by_kind {
    ($kind:expr, $do:ident) => {
        match $kind {
            Kind::AgentStack => $do!(AgentStack),
            Kind::AgentSubagent => $do!(AgentSubagent),
            Kind::AgentToolProfile => $do!(AgentToolProfile),
            Kind::AgentMcpServer => $do!(AgentMcpServer),
            Kind::AgentSkill => $do!(AgentSkill),
            Kind::AgentServiceAccount => $do!(AgentServiceAccount),
            Kind::AgentRoleBinding => $do!(AgentRoleBinding),
            Kind::AgentSecretGrant => $do!(AgentSecretGrant),
            Kind::AgentConfigGrant => $do!(AgentConfigGrant),
            Kind::AgentCapabilityRequirement => $do!(AgentCapabilityRequirement),
            Kind::AgentTriggerRule => $do!(AgentTriggerRule),
            Kind::AgentDispatchRun => $do!(AgentDispatchRun),
            Kind::AgentDispatchAttempt => $do!(AgentDispatchAttempt),
            Kind::WorkItemSessionLink => $do!(WorkItemSessionLink),
            Kind::WorkItemWorkspaceLink => $do!(WorkItemWorkspaceLink),
            Kind::AgentContextLabel => $do!(AgentContextLabel),
            Kind::AgentWorkspacePolicy => $do!(AgentWorkspacePolicy),
            Kind::AgentWorkspace => $do!(AgentWorkspace),
            Kind::AgentSession => $do!(AgentSession),
            Kind::AgentApproval => $do!(AgentApproval),
            Kind::AgentContextBundle => $do!(AgentContextBundle),
            Kind::AgentArtifact => $do!(AgentArtifact),
            Kind::AgentReviewArtifact => $do!(AgentReviewArtifact),
            Kind::AgentTriggerExecution => $do!(AgentTriggerExecution),
            Kind::WebhookDelivery => $do!(WebhookDelivery),
            Kind::Repository => $do!(Repository),
            Kind::RunnerPool => $do!(RunnerPool),
            Kind::ServiceAccount => $do!(ServiceAccount),
            Kind::Role => $do!(Role),
            Kind::RoleBinding => $do!(RoleBinding),
            Kind::Secret => $do!(Secret),
            Kind::ConfigMap => $do!(ConfigMap),
        }
    };
}

/// Whether an object can be read as its kind.
pub fn readable(object: &AnyObject) -> Result<(), ObjectError> {
    macro_rules! read {
        ($type:ident) => {
            object.typed::<$type>().map(drop)
        };
    }
    by_kind!(object.kind, read)
}

/// The errors in the spec or status of an object, by its kind.
pub(super) fn faults(object: &AnyObject) -> Result<Vec<Fault>, ObjectError> {
    macro_rules! check {
        ($type:ident) => {
            object.typed::<$type>().map(|object| object.spec.faults())
        };
    }
    by_kind!(object.kind, check)
}

/// The spec of an object with all defaults filled in.
pub(super) fn canonical(object: &AnyObject) -> Result<serde_json::Value, ObjectError> {
    macro_rules! canonical {
        ($type:ident) => {
            object
                .typed::<$type>()
                .and_then(|typed| AnyObject::of(&typed))
                .map(|object| object.spec)
        };
    }
    by_kind!(object.kind, canonical)
}

pub fn object_schema(kind: Kind, generator: &mut SchemaGenerator) -> Schema {
    macro_rules! schema {
        ($type:ident) => {
            generator.subschema_for::<Object<$type>>()
        };
    }
    by_kind!(kind, schema)
}
