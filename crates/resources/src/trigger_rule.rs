//! A rule from events to runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ApprovalPolicy, Condition, Fault, Globs, Kind, LabelRef, Moment, Resource, Span,
    WriteBackPolicy,
};

/// Which events start which stack, with what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentTriggerRule {
    /// Whether it is active.
    #[serde(default)]
    pub lifecycle_state: LifecycleState,
    /// The sources of events.
    pub sources: Vec<EventSource>,
    /// Which of them.
    #[serde(default, rename = "match")]
    pub matcher: Matcher,
    /// When, for the source `schedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// The stack that is started.
    pub agent_stack: String,
    /// What it is started for.
    pub task_kind: String,
    /// What it is told: a template over the event, whose texts arrive as fenced data.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt_template: String,
    /// Pieces of prompt to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_labels: Vec<LabelRef>,
    /// What is attached.
    #[serde(default)]
    pub context_bundle_template: ContextBundleTemplate,
    /// Where it is executed; untrusted work goes to an untrusted pool whatever stands here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_pool: Option<String>,
    /// Who must be asked for what.
    #[serde(default)]
    pub approval_policy: ApprovalPolicy,
    /// Which events are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_policy: Option<DedupePolicy>,
    /// How many may run at once.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// What may be written back; narrows the stack's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_back_policy: Option<WriteBackPolicy>,
    /// Whether work items are made or linked.
    #[serde(default)]
    pub work_item: WorkItemMode,
    /// Whether a label alone may start a run: anybody who may label may then start it.
    #[serde(default)]
    pub allow_label_dispatch: bool,
    /// How many runs in a row may come of the work of our own runs, or of what our own account does; none
    /// when left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own_work_depth: u32,
}

/// The most runs in a row that one may come of the other.
pub const MAX_OWN_WORK_DEPTH: u32 = 8;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields over by reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Whether a rule is active.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LifecycleState {
    /// Being written: it can be tried.
    #[default]
    Draft,
    /// At work.
    Active,
    /// Not now; what comes in meanwhile is recorded as rejected.
    Paused,
    /// Not any more.
    Disabled,
    /// Kept for the record; it cannot come back.
    Archived,
}

/// Where an event comes from.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EventSource {
    /// A check, job, step or workflow.
    Ci,
    /// Any webhook.
    Webhook,
    /// A comment on an issue.
    IssueComment,
    /// A comment on a pull request, or a review of it.
    PrComment,
    /// A label that was put on or taken off.
    Label,
    /// A push to a branch.
    Push,
    /// A new tag.
    Tag,
    /// The clock.
    Schedule,
    /// A person.
    Manual,
    /// A `repository_dispatch`.
    RepositoryDispatch,
}

impl EventSource {
    /// All ten.
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

    /// As it is written.
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

/// What an event must be like. Every field that is given must agree; within a list one is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Matcher {
    /// Repositories, as globs of `owner/name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repository: Vec<String>,
    /// What happened, as the forge names it (`completed`, `opened`, …).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub event_types: Vec<String>,
    /// How a check ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conclusion: Vec<String>,
    /// Workflows, as globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workflow: Vec<String>,
    /// Jobs, as globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub job: Vec<String>,
    /// Steps, as globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub step: Vec<String>,
    /// Checks, as globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<String>,
    /// Branches.
    #[serde(skip_serializing_if = "Globs::is_empty")]
    pub branches: Globs,
    /// Changed paths: one that is meant is enough.
    #[serde(skip_serializing_if = "Globs::is_empty")]
    pub paths: Globs,
    /// Labels, as globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Who did it.
    #[serde(skip_serializing_if = "Globs::is_empty")]
    pub actors: Globs,
    /// Words such as `@bailiwick` that must stand in the comment or body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mention: Vec<String>,
    /// Regular expressions, one of which must be found in the comment or body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<String>,
    /// JSONPath queries (RFC 9535) on the payload, each of which must find what is said.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub payload: Vec<PayloadMatch>,
    /// Regular expressions, one of which must be found in the failing log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_signature: Vec<String>,
    /// Whether it must be about a pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_request_required: Option<bool>,
}

/// What a query on the payload must find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PayloadMatch {
    /// The query.
    pub json_path: String,
    /// One of these values; that anything is found when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<serde_json::Value>>,
}

/// When a schedule fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Schedule {
    /// Five fields: minute, hour, day, month, day of the week.
    pub cron: String,
    /// The time zone; UTC when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The repository it is about.
    pub repository: String,
    /// The ref it works on; the default branch when left out.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// How long after its time a missed one is still caught up, as `1h`; not at all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<Span>,
}

/// What is attached to the context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ContextBundleTemplate {
    /// Which sources.
    pub include: Vec<ContextSource>,
    /// How much of all of them, in bytes.
    pub max_bytes: u64,
    /// Whether secrets are taken out. It cannot be switched off; it stands here because people write it.
    pub redact_secrets: bool,
}

impl Default for ContextBundleTemplate {
    fn default() -> Self {
        Self { include: Vec::new(), max_bytes: 750 * 1024, redact_secrets: true }
    }
}

/// What can be attached.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ContextSource {
    /// The names and numbers of changed files.
    ChangedFiles,
    /// The diff itself.
    Diff,
    /// The end of the failing job's log.
    FailingJobLog,
    /// Title, text and state of the pull request.
    PullRequestSummary,
    /// Title and text of the issue.
    IssueSummary,
    /// The last commits.
    RecentCommits,
    /// The repository's own instructions.
    RepositoryInstructions,
    /// The payload of the event.
    EventPayload,
}

/// Which events are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DedupePolicy {
    /// A template whose text is the same for events that are the same.
    pub key: String,
    /// For how long.
    pub window: Span,
}

/// How many runs of a rule may be active at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ConcurrencyPolicy {
    /// What happens to the next one.
    pub mode: ConcurrencyMode,
    /// A template for the group that counts as one; the rule and the pull request, issue or branch when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How many of a group may run.
    #[serde(alias = "maxActivePerPullRequest", skip_serializing_if = "Option::is_none")]
    pub max_active: Option<u32>,
}

/// What happens to an event whose group is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConcurrencyMode {
    /// It joins the run that is there.
    Coalesce,
    /// It waits.
    #[default]
    Queue,
    /// The run that is there is cancelled.
    CancelPrevious,
    /// It is refused.
    Reject,
}

/// Whether a rule makes or links work items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkItemMode {
    /// It links what the event is about.
    #[default]
    Link,
    /// It makes one where there is none.
    Create,
    /// Neither.
    None,
}

/// What a rule has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExecutionSummary {
    /// Runs made.
    pub created: u64,
    /// Events that joined a run.
    pub coalesced: u64,
    /// Events that were refused.
    pub rejected: u64,
    /// Events that were the same as earlier ones.
    pub deduplicated: u64,
    /// Events that wait for a person.
    pub waiting: u64,
    /// Work items made without a run.
    pub materialized: u64,
}

/// What the control plane knows of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentTriggerRuleStatus {
    /// When something last came of it: a run, or a work item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_triggered_at: Option<Moment>,
    /// When its schedule fires next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_fire_at: Option<Moment>,
    /// What it has done.
    pub execution_summary: ExecutionSummary,
    /// Why it can or cannot work.
    pub conditions: Vec<Condition>,
    /// The generation that this speaks of.
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
