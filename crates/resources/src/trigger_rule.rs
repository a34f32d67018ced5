//! A rule from events to runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ApprovalPolicy, Condition, Fault, Globs, Kind, LabelRef, Moment, Resource, Span,
    WriteBackPolicy,
};

/// A rule that starts a stack for matching events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentTriggerRule {
    /// The lifecycle state. Only an active rule starts runs. The default is `draft`.
    #[serde(default)]
    pub lifecycle_state: LifecycleState,
    /// The event sources that the rule listens to.
    pub sources: Vec<EventSource>,
    /// The conditions that an event must meet.
    #[serde(default, rename = "match")]
    pub matcher: Matcher,
    /// The schedule, for the source `schedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// The name of the AgentStack that is started.
    pub agent_stack: String,
    /// The kind of task, such as `review`.
    pub task_kind: String,
    /// A template for the prompt. Texts from the event are inserted as fenced data, not as instructions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt_template: String,
    /// Context labels whose text is added to the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_labels: Vec<LabelRef>,
    /// What is attached to the context.
    #[serde(default)]
    pub context_bundle_template: ContextBundleTemplate,
    /// The name of the RunnerPool. Untrusted work always goes to an untrusted pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_pool: Option<String>,
    /// The actions that need an approval.
    #[serde(default)]
    pub approval_policy: ApprovalPolicy,
    /// How duplicate events are detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_policy: Option<DedupePolicy>,
    /// How many runs may be active at the same time.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// What may be written back. It can only narrow the policy of the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_back_policy: Option<WriteBackPolicy>,
    /// Whether work items are created or linked.
    #[serde(default)]
    pub work_item: WorkItemMode,
    /// If true, a label event may start a run: everybody who may set labels can then start it. The default is false.
    #[serde(default)]
    pub allow_label_dispatch: bool,
    /// How many runs in a row may be caused by the work of earlier runs or by our own account. The default is 0, the
    /// maximum 8.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own_work_depth: u32,
}

/// The maximum of `ownWorkDepth`.
pub const MAX_OWN_WORK_DEPTH: u32 = 8;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields over by reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The lifecycle state of a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LifecycleState {
    /// The rule can be tested but starts nothing. This is the default.
    #[default]
    Draft,
    /// The rule starts runs.
    Active,
    /// The rule is stopped for now. Events are recorded as rejected.
    Paused,
    /// The rule is switched off until it is enabled again.
    Disabled,
    /// The rule is kept for the record. It cannot be enabled again.
    Archived,
}

/// The source of an event.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EventSource {
    /// A check, job, step or workflow of CI.
    Ci,
    /// Any webhook.
    Webhook,
    /// A comment on an issue.
    IssueComment,
    /// A comment on a pull request, or a review.
    PrComment,
    /// A label that was added or removed.
    Label,
    /// A push to a branch.
    Push,
    /// A new tag.
    Tag,
    /// A schedule.
    Schedule,
    /// A request by a person.
    Manual,
    /// A `repository_dispatch` event.
    RepositoryDispatch,
}

impl EventSource {
    /// All sources.
    pub const ALL: [Self; 10] = [
        Self::Ci,
        Self::Webhook,
        Self::IssueComment,
        Self::PrComment,
        Self::Label,
        Self::Push,
        Self::Tag,
        Self::Schedule,
        Self::Manual,
        Self::RepositoryDispatch,
    ];

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ci => "ci",
            Self::Webhook => "webhook",
            Self::IssueComment => "issue-comment",
            Self::PrComment => "pr-comment",
            Self::Label => "label",
            Self::Push => "push",
            Self::Tag => "tag",
            Self::Schedule => "schedule",
            Self::Manual => "manual",
            Self::RepositoryDispatch => "repository-dispatch",
        }
    }
}

/// Conditions on an event. All fields that are given must match; in a list, one entry is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Matcher {
    /// Repositories, as globs of `owner/name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repository: Vec<String>,
    /// Event types or actions, as the forge names them: `completed`, `opened` or `issues.opened`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub event_types: Vec<String>,
    /// Conclusions of a check, such as `failure`. Case is ignored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conclusion: Vec<String>,
    /// Names of workflows, as globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workflow: Vec<String>,
    /// Names of jobs, as globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub job: Vec<String>,
    /// Names of steps, as globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub step: Vec<String>,
    /// Names of checks, as globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<String>,
    /// Branches, as globs.
    #[serde(skip_serializing_if = "Globs::is_empty")]
    pub branches: Globs,
    /// Changed paths, as globs. One matching path is enough.
    #[serde(skip_serializing_if = "Globs::is_empty")]
    pub paths: Globs,
    /// Labels, as globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The accounts that caused the event, as globs.
    #[serde(skip_serializing_if = "Globs::is_empty")]
    pub actors: Globs,
    /// Words such as `@bailiwick`. The comment or body must contain one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mention: Vec<String>,
    /// Regular expressions. One of them must match the comment or body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<String>,
    /// JSONPath queries (RFC 9535) on the payload. All of them must match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub payload: Vec<PayloadMatch>,
    /// Regular expressions. One of them must match the log of the failed job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_signature: Vec<String>,
    /// If true, the event must belong to a pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_request_required: Option<bool>,
}

/// A condition on the payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PayloadMatch {
    /// The JSONPath query.
    pub json_path: String,
    /// The accepted values. If left out, any result of the query is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<serde_json::Value>>,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Schedule {
    /// A cron expression with five fields: minute, hour, day of the month, month, day of the week.
    pub cron: String,
    /// The time zone, such as `Europe/Berlin`. The default is UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The repository, as `owner/name`.
    pub repository: String,
    /// The ref. If left out, the default branch.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// How late a missed run may still start, such as `1h`. If left out, missed runs are not made up for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<Span>,
}

/// What is attached to the context of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ContextBundleTemplate {
    /// The sources that are attached.
    pub include: Vec<ContextSource>,
    /// The maximum size of the whole context in bytes. The default and the maximum are 768000.
    pub max_bytes: u64,
    /// Secrets are always redacted. Only `true` is accepted; it may be left out.
    pub redact_secrets: bool,
}

impl Default for ContextBundleTemplate {
    fn default() -> Self {
        Self { include: Vec::new(), max_bytes: 750 * 1024, redact_secrets: true }
    }
}

/// A source that can be attached to the context.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ContextSource {
    /// The list of changed files.
    ChangedFiles,
    /// The diff.
    Diff,
    /// The end of the log of the failed job.
    FailingJobLog,
    /// Title, description and state of the pull request.
    PullRequestSummary,
    /// Title and description of the issue.
    IssueSummary,
    /// The most recent commits.
    RecentCommits,
    /// The instructions in the repository.
    RepositoryInstructions,
    /// The payload of the event.
    EventPayload,
}

/// How duplicate events are detected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DedupePolicy {
    /// A template for the key. Events with the same key are duplicates.
    pub key: String,
    /// The time window in which a duplicate is detected, such as `1h`.
    pub window: Span,
}

/// How many runs of a rule may be active at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ConcurrencyPolicy {
    /// What happens to an event whose group is full. The default is `queue`.
    pub mode: ConcurrencyMode,
    /// A template for the name of the group. If left out, the rule and the pull request, issue, tag or branch of the
    /// event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The maximum number of active runs in a group. If left out: no limit with `queue`, otherwise 1.
    #[serde(alias = "maxActivePerPullRequest", skip_serializing_if = "Option::is_none")]
    pub max_active: Option<u32>,
}

/// What happens to an event whose group is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConcurrencyMode {
    /// The event is added to the newest active run.
    Coalesce,
    /// A new run waits until the active runs have ended. This is the default.
    #[default]
    Queue,
    /// The oldest active runs are cancelled and a new one is started.
    CancelPrevious,
    /// The event is rejected.
    Reject,
}

/// Whether a rule creates or links work items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkItemMode {
    /// It links the issue, pull request, check or release of the event. This is the default.
    #[default]
    Link,
    /// It creates a work item if the event has none.
    Create,
    /// Like `create`. If its run succeeds, it also opens an issue, if the write-back policy allows `open-issue`.
    OpenIssue,
    /// It does neither.
    None,
}

/// The results of a rule, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExecutionSummary {
    /// Runs that were created.
    pub created: u64,
    /// Events that were added to an active run.
    pub coalesced: u64,
    /// Events that were rejected.
    pub rejected: u64,
    /// Events that were duplicates.
    pub deduplicated: u64,
    /// Events whose run waits for an approval.
    pub waiting: u64,
    /// Work items that were created without a run.
    pub materialized: u64,
}

/// The status of a trigger rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentTriggerRuleStatus {
    /// The last time that the rule created a run or a work item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_triggered_at: Option<Moment>,
    /// The next time that its schedule fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_fire_at: Option<Moment>,
    /// The results of the rule, counted.
    pub execution_summary: ExecutionSummary,
    /// The conditions of the rule.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    pub observed_generation: u64,
}

impl Resource for AgentTriggerRule {
    const KIND: Kind = Kind::AgentTriggerRule;
    type Status = AgentTriggerRuleStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.sources.is_empty() {
            faults.push(Fault::new("spec.sources", "name at least one"));
        }
        if self.sources.contains(&EventSource::Schedule) != self.schedule.is_some() {
            let message = "the source `schedule` and a schedule belong together";
            faults.push(Fault::new("spec.schedule", message));
        }
        if !super::is_object_name(&self.agent_stack) {
            faults.push(Fault::new("spec.agentStack", "it must be the name of a stack"));
        }
        if !super::is_object_name(&self.task_kind) {
            faults.push(Fault::new("spec.taskKind", "write a word such as `diagnose`"));
        }
        if !self.context_bundle_template.redact_secrets {
            let message = "secrets are always taken out; leave it out or write true";
            faults.push(Fault::new("spec.contextBundleTemplate.redactSecrets", message));
        }
        if self.own_work_depth > MAX_OWN_WORK_DEPTH {
            let message = format!("at most {MAX_OWN_WORK_DEPTH} runs in a row are allowed");
            faults.push(Fault::new("spec.ownWorkDepth", message));
        }
        faults
    }
}
