//! Lines of the audit log, with the ids that correlate them: run, attempt, rule, execution, delivery, digests.

use std::collections::BTreeMap;

use bailiwick_resources::{
    AgentDispatchRun, AgentTriggerExecution, AgentWorkspace, Moment, Object, RunPhase, SourceRefs,
    WriteBackRecord, WriteBackState,
};
use serde_json::{Value, json};

use super::CONTROL_PLANE_ACTOR;
use crate::ports::{AuditEntry, Caller, Write};

/// The ids that correlate a line with others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Correlation(BTreeMap<String, String>);

impl Correlation {
    #[must_use]
    pub(super) fn with(mut self, name: &str, id: Option<&str>) -> Self {
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            self.0.insert(name.to_owned(), id.to_owned());
        }
        self
    }

    pub(super) fn of_run(run: &Object<AgentDispatchRun>) -> Self {
        let (spec, status) = (&run.spec, &run.status);
        Self::default()
            .with("run", Some(run.name()))
            .with("attempt", status.attempts.last().map(String::as_str))
            .with("rule", spec.trigger_rule.as_deref())
            .with("contextBundleDigest", status.context_bundle_digest.as_deref())
            .with("permissionSnapshotDigest", status.permission_snapshot_digest.as_deref())
            .about(&spec.source_event.uid, &spec.source_refs)
    }

    pub(super) fn of_execution(name: &str, execution: &AgentTriggerExecution) -> Self {
        Self::default()
            .with("execution", Some(name))
            .with("rule", Some(&execution.trigger_rule))
            .with("run", execution.dispatch_run.as_deref())
            .with("contextBundleDigest", execution.context_bundle_digest.as_deref())
            .with("stackDigest", execution.stack_digest.as_deref())
            .about(&execution.event_uid, &execution.source_refs)
    }

    /// A workspace with the last attempt and run that used it.
    pub(super) fn of_workspace(workspace: &Object<AgentWorkspace>) -> Self {
        Self::default()
            .with("workspace", Some(workspace.name()))
            .with("attempt", workspace.spec.run.as_deref())
            .with("run", workspace.status.runs.last().map(String::as_str))
    }

    fn about(self, event: &str, refs: &SourceRefs) -> Self {
        self.with("event", Some(event))
            .with("delivery", refs.webhook_delivery.as_deref())
            .with("execution", refs.trigger_execution.as_deref())
            .with("causedBy", refs.caused_by.as_deref())
    }

    /// A line about an action of the control plane.
    pub(super) fn line(self, at: Moment, event: &str, subject: String, detail: Value) -> Write {
        let (actor, correlation) = (CONTROL_PLANE_ACTOR.to_owned(), self.0);
        let event = event.to_owned();
        Write::Audit(AuditEntry { at, actor, event, subject, correlation, detail })
    }

    /// A line about an action of a person.
    pub(super) fn line_of(
        self,
        caller: &Caller,
        event: &str,
        subject: String,
        detail: Value,
    ) -> Write {
        let joined = self.with("correlationId", Some(&caller.correlation));
        let (at, actor, event) = (caller.at, caller.actor.clone(), event.to_owned());
        Write::Audit(AuditEntry { at, actor, event, subject, correlation: joined.0, detail })
    }
}

/// The subject of a line about an object.
pub(super) fn subject<R: bailiwick_resources::Resource>(object: &Object<R>) -> String {
    format!("{}/{}/{}", R::KIND, object.metadata.namespace, object.name())
}

/// A line for each write-back of a run that was denied or failed since `before`.
pub(super) fn unwritten(
    before: &[WriteBackRecord],
    run: &Object<AgentDispatchRun>,
    at: Moment,
) -> Vec<Write> {
    let event = |state: WriteBackState| match state {
        WriteBackState::Denied => Some("AgentWriteBackDenied"),
        WriteBackState::Failed => Some("AgentWriteBackFailed"),
        WriteBackState::Ready | WriteBackState::Waiting | WriteBackState::Written => None,
    };
    let mut lines = Vec::new();
    for (place, record) in run.status.write_backs.iter().enumerate() {
        let was = before.get(place).and_then(|known| event(known.state));
        let Some(event) = event(record.state).filter(|event| was != Some(*event)) else { continue };
        let detail = json!({
            "action": record.action, "target": record.target, "reason": record.detail,
        });
        let joined = Correlation::of_run(run)
            .with("artifactDigest", Some(&record.digest))
            .with("approval", record.approval.as_deref());
        lines.push(joined.line(at, event, subject(run), detail));
    }
    lines
}

/// The line about the end of a run.
pub(super) fn ended(run: &Object<AgentDispatchRun>, at: Moment) -> Write {
    let phase = run.status.phase;
    let event = match phase {
        RunPhase::Succeeded => "AgentDispatchCompleted",
        RunPhase::Cancelled => "AgentDispatchCancelled",
        RunPhase::Pending
        | RunPhase::Queued
        | RunPhase::Running
        | RunPhase::WaitingForApproval
        | RunPhase::Failed => "AgentDispatchFailed",
    };
    let detail = json!({ "phase": phase, "reason": run.status.terminal_reason });
    Correlation::of_run(run).line(at, event, subject(run), detail)
}
