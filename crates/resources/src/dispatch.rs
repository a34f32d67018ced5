//! Runs and attempts as the control plane shows them. The run itself is the one of the ledger: this
//! is its view, with what led to it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ApprovalPolicy, Condition, EventSource, Fault, Kind, Moment, ObjectRef, PodProblem, Resource,
    TrustTier, WriteBackPolicy, WriteBackTarget,
};

/// One piece of delegated work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDispatchRun {
    /// The repository, as `owner/name`.
    pub repository: String,
    /// The ref that it works on, such as `refs/heads/main`.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The branch that it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that it starts from.
    pub sha: String,
    /// The event that caused it.
    pub source_event: SourceEventRef,
    /// The objects on the forge and in the control plane that it is about.
    #[serde(default)]
    pub source_refs: SourceRefs,
    /// The name of the AgentStack.
    pub agent_stack: String,
    /// The kind of task.
    pub task_kind: String,
    /// The name of the AgentTriggerRule that created it. If left out, no rule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_rule: Option<String>,
    /// The task for the agent.
    #[serde(default)]
    pub task: String,
    /// The name of its AgentContextBundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_bundle_ref: Option<String>,
    /// The name of its AgentWorkspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_ref: Option<String>,
    /// The name of the RunnerPool.
    pub runner_pool: String,
    /// The trust tier of its origin.
    pub trust_tier: TrustTier,
    /// The actions that need an approval.
    #[serde(default)]
    pub approval_policy: ApprovalPolicy,
    /// What it may write back.
    #[serde(default)]
    pub write_back_policy: WriteBackPolicy,
    /// For a sub-agent, the run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run: Option<String>,
    /// The concurrency group that it counts in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_group: Option<String>,
}

/// The event that caused a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceEventRef {
    /// The source of the event.
    pub source: EventSource,
    /// The ID of the event: a delivery, a tick of a schedule or a request by a person.
    pub uid: String,
    /// The account that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The person who replayed the event, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
}

/// References to what a run is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SourceRefs {
    /// The number of the pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<u64>,
    /// The number of the issue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issue: Option<u64>,
    /// The name of the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The name of the pipeline or workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// The name of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The ID of the job on the forge. Its log is fetched with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// The commit before the push, or the base commit of the pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_sha: Option<String>,
    /// The run whose work caused the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caused_by: Option<String>,
    /// The name of the WebhookDelivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_delivery: Option<String>,
    /// The schedule that fired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The work item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_item: Option<String>,
    /// The name of the AgentTriggerExecution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_execution: Option<String>,
}

/// The phase of a run.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RunPhase {
    /// The run is being admitted.
    #[default]
    Pending,
    /// The run waits in the queue.
    Queued,
    /// The agent is running.
    Running,
    /// The run waits for an approval.
    WaitingForApproval,
    /// The run succeeded.
    Succeeded,
    /// The run failed.
    Failed,
    /// The run was cancelled by a person or by a later run.
    Cancelled,
}

impl RunPhase {
    /// All phases.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Queued,
        Self::Running,
        Self::WaitingForApproval,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::WaitingForApproval => "waiting-for-approval",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the phase is final: nothing more happens without a request.
    pub fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::Queued | Self::Running | Self::WaitingForApproval => false,
        }
    }

    /// Whether a run may change from this phase to `next`.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Pending => !matches!(next, Self::Pending | Self::Succeeded),
            Self::Queued => matches!(
                next,
                Self::Running | Self::Failed | Self::Cancelled | Self::WaitingForApproval
            ),
            Self::Running => !matches!(next, Self::Pending | Self::Running),
            Self::WaitingForApproval => !matches!(next, Self::Pending | Self::WaitingForApproval),
            // A retry, a resume or a continuation takes it up again.
            Self::Succeeded | Self::Failed | Self::Cancelled => matches!(next, Self::Queued),
        }
    }
}

/// The status of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentDispatchRunStatus {
    /// The current phase.
    pub phase: RunPhase,
    /// The reason why the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_reason: Option<String>,
    /// The ID of the agent run in the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_mux_run_id: Option<String>,
    /// The ID of the session in the agent program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_mux_session_id: Option<String>,
    /// The name of the AgentWorkspace, once it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The names of its attempts.
    pub attempts: Vec<String>,
    /// The runs of its sub-agents.
    pub child_subagent_runs: Vec<ChildRun>,
    /// The names of its artifacts.
    pub artifacts: Vec<String>,
    /// The names of its approvals.
    pub approvals: Vec<String>,
    /// The cost so far.
    pub cost: RunCost,
    /// The cursor of its last event, as a number with leading zeros.
    pub event_cursor: String,
    /// When it entered the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_entered_at: Option<Moment>,
    /// When its agent started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Moment>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Moment>,
    /// The digest of the permissions that it was admitted with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_snapshot_digest: Option<String>,
    /// The digest of its context bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_bundle_digest: Option<String>,
    /// The reason of a cancellation request. The run ends as soon as its agent has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_requested: Option<String>,
    /// Why no worker of its pool has begun it yet, while it waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for_worker: Option<String>,
    /// What is wrong with the pod of its attempt, with `runsOn: jobs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_problem: Option<PodProblem>,
    /// The names of runs that must end before it starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue_behind: Vec<String>,
    /// Its write-backs, in order, each with its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write_backs: Vec<WriteBackRecord>,
    /// The commit status that is reported to the forge. If left out, no policy allows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_report: Option<CheckReport>,
    /// The base commit of later attempts, after a push to the run's branch: the pushed commit, or the head of the
    /// branch when a retry started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed: Option<String>,
    /// The objects that a failed run depends on, as `Kind/name` with a digest of what they said when it failed. A retry
    /// after a change of one of them is a `rerun-after-fix`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failed_with: BTreeMap<String, String>,
    /// The number of the issue that the run has opened. Later attempts comment on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened_issue: Option<u64>,
    /// The contexts that were gathered again, in order. The last one is used by the next attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context_refreshes: Vec<ContextRefresh>,
    /// The conditions of the run.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    pub observed_generation: u64,
}

/// A context that was gathered again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextRefresh {
    /// The name of the AgentContextBundle. Earlier bundles are kept.
    pub bundle: String,
    /// The digest of the bundle.
    pub digest: String,
    /// The reason that the person gave.
    pub reason: String,
    /// The person who requested it.
    pub requested_by: String,
    /// When it was gathered.
    pub at: Moment,
    /// The name of the first attempt that uses it. If left out, the next one will.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
}

/// A write-back of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteBackRecord {
    /// The kind of write-back.
    pub action: WriteBackTarget,
    /// The target of the write-back, such as `owner/name#7`.
    pub target: String,
    /// The digest of exactly what is sent.
    pub digest: String,
    /// The digest of the write-back that must be written first. If that one is not written, neither is this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_on: Option<String>,
    /// The name of the AgentApproval, if one is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The state of the write-back.
    pub state: WriteBackState,
    /// The reason for the state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The URL of the result on the forge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The number or ID of the result on the forge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How often the forge did not respond.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// When it was first tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_since: Option<Moment>,
    /// The earliest time of the next try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Moment>,
    /// The commit that the target branch has moved to. The change is rebased onto it, verified and requested again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// How often the change was rebased.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rebases: u32,
    /// When the forge rejected the credential. The write-back is tried again when the credential has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_rejected_at: Option<Moment>,
}

fn is_zero(tries: &u32) -> bool {
    *tries == 0
}

/// The commit status of a run on the forge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CheckReport {
    /// The phase that was last reported; `pending` if none was.
    pub told: RunPhase,
    /// The name of the AgentApproval for reporting the final phase, if one is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The reason why the phase is not shown on the commit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How often the forge did not respond.
    #[serde(skip_serializing_if = "is_never")]
    pub misses: u32,
    /// The earliest time of the next try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Moment>,
}

fn is_never(times: &u32) -> bool {
    *times == 0
}

/// The state of a write-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackState {
    /// It will be written.
    Ready,
    /// It waits for an approval.
    Waiting,
    /// It was written.
    Written,
    /// It was denied.
    Denied,
    /// The forge did not accept it.
    Failed,
}

/// The run of a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChildRun {
    /// The name of its run.
    pub run: String,
    /// The name of the sub-agent.
    pub subagent: String,
    /// The digest of the input that it received.
    pub context_digest: String,
    /// Its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<String>,
    /// Whether the output meets its contract. If left out, this was not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_fulfilled: Option<bool>,
}

/// The cost of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RunCost {
    /// The number of tokens.
    pub tokens: u64,
    /// The cost in millionths of a US dollar.
    pub micro_usd: u64,
    /// The number of model responses.
    pub turns: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The number of denied tool calls.
    pub denied: u64,
}

impl Resource for AgentDispatchRun {
    const KIND: Kind = Kind::AgentDispatchRun;
    type Status = AgentDispatchRunStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.repository.is_empty() {
            faults.push(Fault::new("spec.repository", "say which one"));
        }
        if !self.reference.starts_with("refs/") {
            faults.push(Fault::new("spec.ref", "write it in full, as refs/heads/main"));
        }
        faults
    }
}

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
    pub labels: Vec<super::LabelRef>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_mux_run_id: Option<String>,
    /// The ID of the session in the agent program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_mux_session_id: Option<String>,
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

#[cfg(test)]
mod tests {
    use super::RunPhase;

    #[test]
    fn a_final_phase_is_left_only_for_the_queue() {
        for phase in RunPhase::ALL.into_iter().filter(|phase| phase.is_final()) {
            for next in RunPhase::ALL {
                assert_eq!(phase.may_become(next), next == RunPhase::Queued, "{phase:?} {next:?}");
            }
        }
    }

    #[test]
    fn every_phase_but_the_final_ones_can_be_cancelled() {
        for phase in RunPhase::ALL {
            assert_eq!(phase.may_become(RunPhase::Cancelled), !phase.is_final(), "{phase:?}");
        }
    }
}
