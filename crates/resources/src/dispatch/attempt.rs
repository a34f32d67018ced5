//! AgentDispatchAttempt: one execution of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RunCost, RunPhase};
use crate::{Fault, Kind, LabelRef, Moment, ObjectRef, Resource};

/// One execution of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDispatchAttempt {
    /// The name of the run.
    pub agent_dispatch_run: String,
    /// The number of the attempt, starting at 1.
    pub number: u32,
    /// The reason for the attempt.
    pub attempt_reason: AttemptReason,
    /// The person who requested it by hand, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    /// The message of that person, or the reason for a repair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// With `rerun-after-fix`: the objects that were changed since the last attempt failed, as `Kind/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<String>,
    /// The stack and everything that it refers to, at the time of the attempt.
    pub agent_stack_snapshot: StackSnapshot,
    /// The digest of its context bundle.
    pub context_bundle_digest: String,
    /// The digest of the permissions that it was admitted with.
    pub permission_snapshot_digest: String,
    /// The name of its AgentWorkspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_ref: Option<String>,
    /// The name of the RunnerPool.
    pub runner_pool: String,
}

/// The reason for an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptReason {
    /// The first attempt.
    Initial,
    /// The last attempt failed.
    Retry,
    /// The last attempt was interrupted; its session is resumed.
    Resume,
    /// The work of the last attempt did not pass the checks.
    Repair,
    /// The last attempt failed, and something that it depends on was changed since. Admitted again, with the stack and
    /// the permissions of today.
    RerunAfterFix,
    /// A person sent another message; the session is resumed.
    Continuation,
}

/// A copy of a stack and of everything that it refers to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StackSnapshot {
    /// The digest of the whole snapshot.
    pub digest: String,
    /// The objects, starting with the stack.
    pub objects: Vec<SnapshotObject>,
    /// The context labels with the digests that they were pinned to, starting with those of the stack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelRef>,
}

/// An object in a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnapshotObject {
    /// The reference to the object.
    pub object: ObjectRef,
    /// Its generation at that time.
    pub generation: u64,
    /// The digest of its spec.
    pub digest: String,
    /// Its spec.
    pub spec: serde_json::Value,
}

/// The status of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentDispatchAttemptStatus {
    /// The ID of the agent run in the ledger.
    #[serde(rename = "agentMuxRunId", skip_serializing_if = "Option::is_none")]
    pub ledger_run_id: Option<String>,
    /// The ID of the session in the agent program.
    #[serde(rename = "agentMuxSessionId", skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<String>,
    /// When it entered the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_entered_at: Option<Moment>,
    /// When its agent started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Moment>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Moment>,
    /// The reason why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_reason: Option<String>,
    /// How its agent ended. Nothing if it was never launched, or ended before this was stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_state: Option<ExitState>,
    /// The names of its artifacts.
    pub produced_artifacts: Vec<String>,
    /// The events of its sub-agents.
    pub subagent_events: Vec<SubagentEvent>,
    /// The identity that it ran as. It does not change after the launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_identity: Option<String>,
    /// The identity of its runner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_identity: Option<String>,
    /// The cost of the attempt.
    pub cost: RunCost,
    /// The limits on tools, commands and files, one entry per source. A call must be allowed by all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<serde_json::Value>,
    /// The hosts that it may reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Notes on limits that are narrower than they were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limit_notes: Vec<String>,
}

/// How the agent of an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExitState {
    /// Its work was verified.
    Verified,
    /// Its work did not pass the checks.
    Rejected,
    /// It failed.
    Failed,
    /// It was stopped.
    Stopped,
    /// Its budget is spent.
    BudgetExhausted,
    /// It may have left its limits.
    EnforcementLost,
}

/// An event of a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubagentEvent {
    /// The name of its run.
    pub run: String,
    /// The name of the sub-agent.
    pub subagent: String,
    /// The phase of its run, with the reason.
    pub what: String,
    /// The phase of its run. Nothing if the event was stored before this field existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RunPhase>,
    /// The time of the event.
    pub at: Moment,
}

impl Resource for AgentDispatchAttempt {
    const KIND: Kind = Kind::AgentDispatchAttempt;
    type Status = AgentDispatchAttemptStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
