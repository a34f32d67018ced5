//! Runs and attempts as the control plane shows them. The run itself is the one of the ledger: this
//! is its view, with what led to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ApprovalPolicy, Condition, EventSource, Fault, Kind, Moment, ObjectRef, Resource, TrustTier,
    WriteBackPolicy, WriteBackTarget,
};

/// One piece of delegated work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDispatchRun {
    /// The repository.
    pub repository: String,
    /// The ref it works on, as `refs/heads/main`.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit it starts from.
    pub sha: String,
    /// Where it came from.
    pub source_event: SourceEventRef,
    /// What it is about.
    #[serde(default)]
    pub source_refs: SourceRefs,
    /// The stack.
    pub agent_stack: String,
    /// What it is for.
    pub task_kind: String,
    /// The rule that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_rule: Option<String>,
    /// What the agent is told to do.
    #[serde(default)]
    pub task: String,
    /// What it is given to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_bundle_ref: Option<String>,
    /// Where it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_ref: Option<String>,
    /// Where it is executed.
    pub runner_pool: String,
    /// How much its origin is trusted.
    pub trust_tier: TrustTier,
    /// Who must be asked for what.
    #[serde(default)]
    pub approval_policy: ApprovalPolicy,
    /// What may be written back.
    #[serde(default)]
    pub write_back_policy: WriteBackPolicy,
    /// The run that started it, for a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run: Option<String>,
    /// The group that counts as one for concurrency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_group: Option<String>,
}

/// The event that led to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceEventRef {
    /// Its source.
    pub source: EventSource,
    /// Its id: a delivery, a tick of a schedule, a request of a person.
    pub uid: String,
    /// Who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The person who had rules look at it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
}

/// What a run is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SourceRefs {
    /// The pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<u64>,
    /// The issue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issue: Option<u64>,
    /// The check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The pipeline or workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// The job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The forge's id of the job, by which its log is fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// The commit before it, or the one that a pull request goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_sha: Option<String>,
    /// The run whose own work it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caused_by: Option<String>,
    /// The delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_delivery: Option<String>,
    /// The schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The work item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_item: Option<String>,
    /// The execution of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_execution: Option<String>,
}

/// How far a run is.
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
    /// It is being admitted.
    #[default]
    Pending,
    /// It waits for its turn.
    Queued,
    /// Its agent runs.
    Running,
    /// It waits for a person.
    WaitingForApproval,
    /// It is done.
    Succeeded,
    /// It failed.
    Failed,
    /// A person or a later run ended it.
    Cancelled,
}

impl RunPhase {
    /// Every one.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Queued,
        Self::Running,
        Self::WaitingForApproval,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// As it is written.
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

    /// Whether nothing more happens unless somebody asks for it.
    pub fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::Queued | Self::Running | Self::WaitingForApproval => false,
        }
    }

    /// Whether `next` may follow.
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

/// What the control plane knows of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentDispatchRunStatus {
    /// How far it is.
    pub phase: RunPhase,
    /// Why it ended as it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_reason: Option<String>,
    /// The run of the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_mux_run_id: Option<String>,
    /// The conversation of the agent program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_mux_session_id: Option<String>,
    /// The workspace that it works in, once that is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Its attempts.
    pub attempts: Vec<String>,
    /// Its sub-agents.
    pub child_subagent_runs: Vec<ChildRun>,
    /// What it has made.
    pub artifacts: Vec<String>,
    /// Who was asked.
    pub approvals: Vec<String>,
    /// What it has cost.
    pub cost: RunCost,
    /// Its last event, as a number with leading zeros.
    pub event_cursor: String,
    /// When it began to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_entered_at: Option<Moment>,
    /// When its agent began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Moment>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Moment>,
    /// The digest of what it was permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_snapshot_digest: Option<String>,
    /// The digest of what it was given to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_bundle_digest: Option<String>,
    /// Why somebody wants it to end; it ends as soon as its agent has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_requested: Option<String>,
    /// Runs that must have ended before it begins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue_behind: Vec<String>,
    /// What of its work was written back, is to be, or was not allowed to be; in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write_backs: Vec<WriteBackRecord>,
    /// What its commit says of it on the forge; nothing where no policy lets it say anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_report: Option<CheckReport>,
    /// The commit that later attempts stand on, once one was pushed to the branch that it is about: that push,
    /// or what the branch was at when a retry began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed: Option<String>,
    /// Why it can or cannot go on.
    pub conditions: Vec<Condition>,
    /// The generation that this speaks of.
    pub observed_generation: u64,
}

/// Something that a run wants written to the forge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteBackRecord {
    /// What.
    pub action: WriteBackTarget,
    /// To what.
    pub target: String,
    /// The digest under which exactly what is sent is kept.
    pub digest: String,
    /// The digest of what must be written before it: if that is not, neither is this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_on: Option<String>,
    /// The question to a person, if one is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// How it stands.
    pub state: WriteBackState,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Where people see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How often it was tried and the forge did not answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// When it was first tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_since: Option<Moment>,
    /// Before when it is not tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Moment>,
}

fn is_zero(tries: &u32) -> bool {
    *tries == 0
}

/// The run status that the forge shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CheckReport {
    /// The phase that it was told last; `pending` while it was told nothing.
    pub told: RunPhase,
    /// The question to a person about the end of the run, if one is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Why that phase does not stand at the commit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How often the forge did not answer.
    #[serde(skip_serializing_if = "is_never")]
    pub misses: u32,
    /// Before when it is not asked again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Moment>,
}

fn is_never(times: &u32) -> bool {
    *times == 0
}

/// How a write-back stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackState {
    /// It is to be written.
    Ready,
    /// A person is asked.
    Waiting,
    /// It is there.
    Written,
    /// It may not be written.
    Denied,
    /// The forge did not take it.
    Failed,
}

/// A sub-agent of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChildRun {
    /// Its run.
    pub run: String,
    /// The sub-agent's name.
    pub subagent: String,
    /// The digest of what it was given.
    pub context_digest: String,
    /// What it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<String>,
    /// Whether that is what its contract asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_fulfilled: Option<bool>,
}

/// What a run has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RunCost {
    /// Tokens.
    pub tokens: u64,
    /// Millionths of a United States dollar.
    pub micro_usd: u64,
    /// Answers of the model.
    pub turns: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Those that were denied.
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
    /// The run.
    pub agent_dispatch_run: String,
    /// Which one, from one.
    pub number: u32,
    /// Why there is one.
    pub attempt_reason: AttemptReason,
    /// The person who asked for it by hand, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    /// What a person said with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The stack, with all that it names, as it was.
    pub agent_stack_snapshot: StackSnapshot,
    /// The digest of what the agent is given to read.
    pub context_bundle_digest: String,
    /// The digest of what it was permitted.
    pub permission_snapshot_digest: String,
    /// Where it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_ref: Option<String>,
    /// Where it is executed.
    pub runner_pool: String,
}

/// Why an attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptReason {
    /// It is the first.
    Initial,
    /// The last one failed.
    Retry,
    /// The last one was interrupted; its conversation goes on.
    Resume,
    /// Its work did not pass.
    Repair,
    /// What it depends on was mended.
    RerunAfterFix,
    /// A person has more to say.
    Continuation,
}

/// A stack and all that it names, frozen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StackSnapshot {
    /// The digest over all of them.
    pub digest: String,
    /// The objects, the stack first.
    pub objects: Vec<SnapshotObject>,
    /// The labels that were asked for, the stack's first, with the digests they were pinned to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<super::LabelRef>,
}

/// One object of a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnapshotObject {
    /// Which one.
    pub object: ObjectRef,
    /// Its generation then.
    pub generation: u64,
    /// The digest of its spec.
    pub digest: String,
    /// Its spec.
    pub spec: serde_json::Value,
}

/// What the control plane knows of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentDispatchAttemptStatus {
    /// The run of the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_mux_run_id: Option<String>,
    /// The conversation of the agent program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_mux_session_id: Option<String>,
    /// When it began to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_entered_at: Option<Moment>,
    /// When its agent began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Moment>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Moment>,
    /// Why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_reason: Option<String>,
    /// What it has made.
    pub produced_artifacts: Vec<String>,
    /// What its sub-agents did.
    pub subagent_events: Vec<SubagentEvent>,
    /// The identity it ran as; it does not change once it was launched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_identity: Option<String>,
    /// The identity of its runner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_identity: Option<String>,
    /// What it has cost.
    pub cost: RunCost,
    /// Which tools, commands and files it may use at the most: one entry for each who has a say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<serde_json::Value>,
    /// The hosts that it may reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Where its limits came out narrower than they were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limit_notes: Vec<String>,
}

/// Something that a sub-agent did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubagentEvent {
    /// Its run.
    pub run: String,
    /// The sub-agent's name.
    pub subagent: String,
    /// What happened.
    pub what: String,
    /// When.
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
