//! AgentDispatchRun: a run of the ledger as the control plane shows it, with its cause.

mod attempt;
mod phase;
mod write_back;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ApprovalPolicy, Condition, EventSource, Fault, Kind, Moment, PodProblem, Resource, TrustTier,
    WriteBackPolicy,
};

pub use attempt::*;
pub use phase::RunPhase;
pub use write_back::{CheckReport, DenialRule, WriteBackRecord, WriteBackState};

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
    #[serde(rename = "agentMuxRunId", skip_serializing_if = "Option::is_none")]
    pub ledger_run_id: Option<String>,
    /// The ID of the session in the agent program.
    #[serde(rename = "agentMuxSessionId", skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<String>,
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
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "write_back::read_records")]
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
