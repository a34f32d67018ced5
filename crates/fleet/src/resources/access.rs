//! Records what the operator of a cluster reports of a binding. Only the operator that leads may: its report names the
//! fence as it has written it, and the commit requires exactly that version.

use bailiwick_resources::{
    AccessReport, AgentRoleBinding, AnyObject, ConfigMap, Kind, Moment, OPERATOR_FENCE,
    RecordedAccess, Resource as _,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;

use super::{AuditActor, require};
use crate::admission::ownership::APPLIED_BY;
use crate::ports::{AuditEntry, FleetError, FleetStore, Requirement, Target, Write};

/// The longest list of missing rights, and the longest text.
const MAX_MISSING: usize = 64;
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// A report of the operator, with its fence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessRequest {
    /// What it reports.
    pub report: AccessReport,
    /// The fence, at the version that this operator has written.
    pub fence: Requirement,
}

/// Why a report is not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AccessError {
    /// The requirement is about another object.
    #[error("`fence` must name the ConfigMap `bailiwick-operator` of the namespace of the binding")]
    NotTheFence,
    /// Somebody else leads.
    #[error("only the operator that leads records what its cluster allows")]
    NotTheLeader,
    /// It is larger than any real one.
    #[error("the report is too long")]
    TooLong,
    /// The status of the binding cannot be read.
    #[error("the status of the binding cannot be read: {0}")]
    Malformed(String),
    #[error(transparent)]
    Store(#[from] FleetError),
}

/// Records a report in the status of a binding. The answer is the binding.
pub async fn record_access<S: FleetStore>(
    store: &S,
    binding: &Target,
    request: AccessRequest,
    by: &AuditActor,
    now: Moment,
) -> Result<AnyObject, AccessError> {
    let AccessRequest { report, fence } = request;
    let is_fence = fence.kind == Kind::ConfigMap
        && fence.name == OPERATOR_FENCE
        && fence.namespace == binding.namespace
        && fence.resource_version != 0;
    if !is_fence {
        return Err(AccessError::NotTheFence);
    }
    let texts = [&report.remedy, &report.detail, &report.spec_digest];
    let texts = texts.into_iter().chain(&report.account).chain(&report.missing);
    if report.missing.len() > MAX_MISSING || texts.map(String::len).sum::<usize>() > MAX_TEXT_BYTES
    {
        return Err(AccessError::TooLong);
    }
    require(store, &fence).await?;
    let leader = store.get(ConfigMap::KIND, &fence.namespace, &fence.name).await?;
    let leader = leader.and_then(|fence| fence.metadata.annotations.get(APPLIED_BY).cloned());
    if leader.as_ref() != Some(&by.actor) {
        return Err(AccessError::NotTheLeader);
    }
    let kind = AgentRoleBinding::KIND;
    let Target { namespace, name } = binding;
    let Some(mut object) = store.get(kind, namespace, name).await? else {
        let (namespace, name) = (namespace.clone(), name.clone());
        return Err(FleetError::NotFound { kind, namespace, name }.into());
    };
    let mut typed = object
        .typed::<AgentRoleBinding>()
        .map_err(|error| AccessError::Malformed(error.to_string()))?;
    let before = typed.status.access.replace(RecordedAccess { report: report.clone(), at: now });
    object.status = serde_json::to_value(&typed.status)
        .map_err(|error| AccessError::Malformed(error.to_string()))?;
    let mut writes = vec![Write::Require(fence), Write::Status(object.clone())];
    // A repetition of the same answer is no news.
    if before.is_none_or(|before| before.report != report) {
        writes.push(Write::Audit(AuditEntry {
            at: now,
            actor: by.actor.clone(),
            event: "AccessReviewRecorded".to_owned(),
            subject: format!("{kind}/{namespace}/{name}"),
            correlation: by.correlation.clone(),
            detail: json!({ "answer": report.answer, "missing": report.missing }),
        }));
    }
    let applied = store.commit(writes, now).await?;
    Ok(applied.objects.into_iter().next().unwrap_or(object))
}
