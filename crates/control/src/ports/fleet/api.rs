//! What the API asks of the control plane behind it: everything that is more than reading or writing
//! a resource.
//!
//! Each of these that changes something must write its line of the audit log, with the caller's name,
//! in the same commit. What cannot be done is an error; nothing is ever said to be accepted that was
//! not kept.

use std::collections::BTreeMap;
use std::future::Future;

use bailiwick_model::fleet::{
    ApprovalPhase, EventSource, ExecutionDecision, Fault, ForgeKind, KeysRef, LifecycleState,
    MissingGrant, Moment, RunPhase, SourceRefs, WorkItemRef, WorkspaceState,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::store::{FleetError, TokenScope};
pub use crate::triggers::LifecycleVerb;

/// Who asks: as the token says, never as the request does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The person.
    pub actor: String,
    /// What they may do.
    pub scope: TokenScope,
    /// The id of the token.
    pub token: String,
    /// What joins this request with its log lines.
    pub correlation: String,
    /// When it came.
    pub at: Moment,
}

/// An object that something is done to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Why the control plane did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ActionError {
    /// The store said so.
    #[error(transparent)]
    Store(#[from] FleetError),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// Policy, or a missing permission, forbids it.
    #[error("{message}")]
    Denied {
        /// Why, in a sentence.
        message: String,
        /// Why, for programs.
        reasons: Vec<ActionReason>,
    },
    /// It is not how the caller thought it was: another generation, decided already, not running.
    #[error("{message}")]
    Conflict {
        /// A stable code.
        code: String,
        /// What is so, and what can be done.
        message: String,
    },
    /// What was asked makes no sense.
    #[error("what was asked has {} faults", .0.len())]
    Invalid(Vec<Fault>),
    /// Too many at once.
    #[error("{0}")]
    TooMany(String),
    /// It cannot be done here or now.
    #[error("{0}")]
    Unavailable(String),
}

/// One reason of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionReason {
    /// A stable code.
    pub code: String,
    /// The field it is about; empty if none.
    #[serde(default)]
    pub field: String,
    /// The same for people.
    pub message: String,
}

/// What can be done to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunVerb {
    /// It ends, with everything that it started.
    Cancel,
    /// A new attempt with the same bundle.
    Retry,
    /// The conversation goes on after an interruption.
    Resume,
    /// A person has more to say.
    Continue,
    /// A new run that begins where this one is.
    Fork,
}

impl RunVerb {
    /// Every one.
    pub const ALL: [Self; 5] =
        [Self::Cancel, Self::Retry, Self::Resume, Self::Continue, Self::Fork];

    /// As it stands in addresses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Resume => "resume",
            Self::Continue => "continue",
            Self::Fork => "fork",
        }
    }
}

/// What is said with a verb.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RunVerbRequest {
    /// Why.
    pub reason: String,
    /// What the agent is told.
    pub message: String,
    /// The generation that the run must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_generation: Option<u64>,
}

/// What became of a run or of the wish for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunAnswer {
    /// Whether it was kept and will be done.
    pub accepted: bool,
    /// The run: another one after a fork.
    pub run: String,
    /// Its attempt, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// How far it is.
    pub phase: RunPhase,
}

/// A person asks for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DispatchRequest {
    /// The repository.
    pub repository: String,
    /// The stack.
    pub agent_stack: String,
    /// What it is for.
    pub task_kind: String,
    /// What the agent is told to do.
    pub task: String,
    /// The ref, as `refs/heads/main`; the default branch when left out.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The commit; where the ref is when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<String>,
    /// What it is about.
    #[serde(default)]
    pub source_refs: SourceRefs,
    /// The pool; the stack's own when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_pool: Option<String>,
    /// Labels whose fragments are added.
    #[serde(default)]
    pub context_labels: Vec<String>,
    /// The same id twice is the same wish; made up when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A person's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Yes.
    Approve,
    /// No.
    Reject,
}

/// A person's answer to an approval. Who they are is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecisionRequest {
    /// Yes or no.
    pub decision: Verdict,
    /// What they say to it.
    #[serde(default)]
    pub comment: String,
    /// Only these of what was asked; all of it when empty.
    #[serde(default)]
    pub approved_action_subset: Vec<String>,
    /// The digest of what they looked at: a yes to anything else is no yes.
    pub expected_artifact_digest: String,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionAnswer {
    /// The approval.
    pub approval: String,
    /// How it stands now.
    pub phase: ApprovalPhase,
    /// What will be written back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_back: Option<WriteBackAnswer>,
}

/// A write-back that an approval has set free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteBackAnswer {
    /// Whether it was kept and will be done.
    pub accepted: bool,
    /// By which it is done once.
    pub idempotency_key: String,
}

/// An event to try a rule with: one that came in, or one made up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RuleSample {
    /// A delivery that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// The event, as its sender names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Whose language it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forge: Option<ForgeKind>,
    /// The repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Its body.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub payload: Value,
}

/// What a rule would do with an event. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleTrial {
    /// Whether it matches.
    pub matched: bool,
    /// Each matcher, whether it holds, and why.
    pub matchers: Vec<MatcherResult>,
    /// What would be decided.
    pub decision: ExecutionDecision,
    /// Why.
    pub reason: String,
    /// The prompt as the agent would get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered_prompt: Option<String>,
    /// What would be in the bundle: each layer with its bytes and its digest.
    #[serde(default)]
    pub context_bundle_plan: Value,
    /// What would be permitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_review: Option<PermissionReview>,
    /// What makes it the same as others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// What would be done, in order.
    pub expected_actions: Vec<String>,
}

/// One matcher of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatcherResult {
    /// The field, as `match.branches`.
    pub field: String,
    /// Whether it holds.
    pub holds: bool,
    /// Why.
    pub why: String,
}

/// A wish to change a rule's lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LifecycleRequest {
    /// What is to be done.
    pub action: LifecycleVerb,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// The generation that the rule must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_generation: Option<u64>,
}

/// How a rule stands after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleAnswer {
    /// The rule.
    pub rule: String,
    /// How it stands.
    pub lifecycle_state: LifecycleState,
    /// Its generation now.
    pub generation: u64,
}

/// A delivery that a rule is to look at again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplayRequest {
    /// The delivery.
    pub delivery: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// What a rule did with an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionAnswer {
    /// Whether it was kept.
    pub accepted: bool,
    /// Its record.
    pub execution: String,
    /// What was decided.
    pub decision: ExecutionDecision,
    /// Why.
    pub reason: String,
    /// The run that was made or joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The work item that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_item: Option<String>,
}

/// What a permission review is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionQuestion {
    /// The stack.
    pub agent_stack: String,
    /// The repository.
    pub repository: String,
    /// The ref.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Where the event comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<EventSource>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_kind: Option<String>,
    /// The pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_pool: Option<String>,
    /// Who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// Whether a run would be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionDecision {
    /// Yes.
    Allowed,
    /// No.
    Denied,
    /// If a person says yes.
    RequiresApproval,
}

/// What a run would be permitted, and what it lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionReview {
    /// Whether it would be admitted.
    pub decision: PermissionDecision,
    /// The identity it would run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_identity: Option<String>,
    /// The identity of its runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_identity: Option<String>,
    /// Roles that it needs.
    pub required_roles: Vec<String>,
    /// Keys of secrets that it needs.
    pub required_secrets: Vec<KeysRef>,
    /// Keys of config maps that it needs.
    pub required_configs: Vec<KeysRef>,
    /// Grants that are wanting.
    pub missing_grants: Vec<MissingGrant>,
    /// What a person must be asked for.
    pub approval_requirements: Vec<String>,
    /// The wanting grants as documents, ready to be applied.
    pub yaml_preview: Vec<String>,
    /// Why, the worst first.
    pub reasons: Vec<ActionReason>,
    /// The digest by which an attempt is bound to it.
    pub snapshot_digest: String,
}

/// What can be done to a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each is called what it does")]
pub enum WorkspaceVerb {
    Provision,
    LinkExisting,
    Pin,
    Unpin,
    Archive,
    Cleanup,
    Recover,
    NotesSave,
    RebaseStart,
    RebaseAutoResolve,
    RebaseOpenInEditor,
    RebaseMarkResolved,
    RebaseAbort,
}

/// What is to be done to a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceRequest {
    /// What.
    pub action: WorkspaceVerb,
    /// The repository, for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The branch or ref that it begins from or is rebased onto.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// A path: of a worktree to be linked, of a file whose conflict is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_item: Option<WorkItemRef>,
    /// The notes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// The version that the workspace must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
}

/// How a workspace stands after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceAnswer {
    /// Whether it was done.
    pub accepted: bool,
    /// The workspace.
    pub workspace: String,
    /// How it stands.
    pub state: WorkspaceState,
    /// What was done, for people.
    pub message: String,
}

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    /// Its number in the run, from one: what to go on from.
    pub cursor: u64,
    /// When.
    pub at: Moment,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// More; redacted before it was kept.
    pub body: Value,
}

/// Some events of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEvents {
    /// The events, the oldest first.
    pub events: Vec<RunEvent>,
    /// Whether nothing comes after them unless the run is taken up again.
    pub ended: bool,
}

/// A webhook before it is believed.
#[derive(Debug, Clone, Copy)]
pub struct Unverified<'a> {
    /// Whose language it speaks.
    pub forge: ForgeKind,
    /// What it must be signed with.
    pub secret: &'a [u8],
    /// Its headers, by their names in lower case.
    pub headers: &'a BTreeMap<String, String>,
    /// Its bytes.
    pub body: &'a [u8],
}

/// Why a webhook is not believed. It never says what would have been right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unbelieved(pub String);

/// The control plane behind the API.
pub trait Fleet: Send + Sync + 'static {
    /// Cancels, retries, resumes, continues or forks a run.
    fn act_on_run(
        &self,
        caller: &Caller,
        run: &Target,
        verb: RunVerb,
        request: RunVerbRequest,
    ) -> impl Future<Output = Result<RunAnswer, ActionError>> + Send;

    /// Makes a run because a person asks for it.
    fn dispatch(
        &self,
        caller: &Caller,
        namespace: &str,
        request: DispatchRequest,
    ) -> impl Future<Output = Result<RunAnswer, ActionError>> + Send;

    /// Takes a person's answer to an approval, once.
    fn decide(
        &self,
        caller: &Caller,
        approval: &Target,
        request: DecisionRequest,
    ) -> impl Future<Output = Result<DecisionAnswer, ActionError>> + Send;

    /// Says what a rule would do with an event, and changes nothing.
    fn try_rule(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> impl Future<Output = Result<RuleTrial, ActionError>> + Send;

    /// Enables, pauses, resumes, disables or archives a rule.
    fn set_lifecycle(
        &self,
        caller: &Caller,
        rule: &Target,
        request: LifecycleRequest,
    ) -> impl Future<Output = Result<LifecycleAnswer, ActionError>> + Send;

    /// Lets a rule look at a delivery again.
    fn replay_delivery(
        &self,
        caller: &Caller,
        rule: &Target,
        request: ReplayRequest,
    ) -> impl Future<Output = Result<ExecutionAnswer, ActionError>> + Send;

    /// Makes a work item of an event, and no run.
    fn materialize(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> impl Future<Output = Result<ExecutionAnswer, ActionError>> + Send;

    /// Says what a run would be permitted, and changes nothing.
    fn review_permissions(
        &self,
        caller: &Caller,
        namespace: &str,
        question: PermissionQuestion,
    ) -> impl Future<Output = Result<PermissionReview, ActionError>> + Send;

    /// Does something to a workspace; a new one has no name yet.
    fn act_on_workspace(
        &self,
        caller: &Caller,
        namespace: &str,
        workspace: Option<&str>,
        request: WorkspaceRequest,
    ) -> impl Future<Output = Result<WorkspaceAnswer, ActionError>> + Send;

    /// What each agent program can do here, by its name.
    fn capabilities(
        &self,
    ) -> impl Future<Output = Result<BTreeMap<String, Value>, ActionError>> + Send;

    /// The run's own events after this one, at most so many.
    fn run_events(
        &self,
        run: &Target,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<RunEvents, ActionError>> + Send;

    /// Waits until the run may have events after this one, or for so many milliseconds.
    fn wait_for_run_event(
        &self,
        run: &Target,
        after: u64,
        millis: u64,
    ) -> impl Future<Output = ()> + Send;

    /// Checks the signature of a webhook.
    fn verify_webhook(&self, webhook: Unverified<'_>) -> Result<(), Unbelieved>;
}
