//! The operations of the control plane behind the API, besides reading and writing resources.
//!
//! ```text
//! runs   checks   rules   approvals   permissions   workspaces      what is asked, and what is answered
//! ```
//!
//! Each operation that changes something must write its line of the audit log, with the caller's name, in the same
//! commit. A request that cannot be performed is an error; nothing is accepted that was not stored.

mod approvals;
mod checks;
mod permissions;
mod rules;
mod runs;
mod workspaces;

use std::collections::BTreeMap;
use std::future::Future;

use bailiwick_resources::{Fault, ForgeKind, Moment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

pub use approvals::{ApprovalPreview, DecisionAnswer, DecisionRequest, Verdict, WriteBackAnswer};
pub use checks::{ChecksAnswer, ForgeCheck, RunCheck, UnreadableRun};
pub use permissions::{PermissionDecision, PermissionQuestion, PermissionReview};
pub use rules::{
    ExecutionAnswer, FireRequest, LifecycleAnswer, LifecycleRequest, LifecycleVerb, MatcherResult,
    ReplayRequest, RuleSample, RuleTrial,
};
pub use runs::{DispatchRequest, RunAnswer, RunEvent, RunEvents, RunVerb, RunVerbRequest};
pub use workspaces::{WorkspaceAnswer, WorkspaceRequest};

use super::store::{FleetError, TokenScope};
pub use crate::workspaces::Verb as WorkspaceVerb;

/// The caller of a request, from its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The account of the caller.
    pub actor: String,
    /// The scope of the token.
    pub scope: TokenScope,
    /// The ID of the token.
    pub token: String,
    /// The correlation ID for log lines. The caller can choose it and use it for several requests.
    pub correlation: String,
    /// The ID of this request. The server creates it; the caller cannot choose it.
    pub request: String,
    /// When the request was received.
    pub at: Moment,
}

/// The object that an action is applied to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

/// Why an action failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ActionError {
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] FleetError),
    /// The object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Policy or a missing permission denies it.
    #[error("{message}")]
    Denied {
        /// The reason in one sentence.
        message: String,
        /// The reasons as codes.
        reasons: Vec<ActionReason>,
    },
    /// The object is not in the expected state: another generation, already decided, or not running.
    #[error("{message}")]
    Conflict {
        /// A stable code.
        code: String,
        /// The problem and what to do.
        message: String,
    },
    /// The request is invalid.
    #[error("what was asked has {} faults", .0.len())]
    Invalid(Vec<Fault>),
    /// Too many parallel requests.
    #[error("{0}")]
    TooMany(String),
    /// It is not available here or now.
    #[error("{0}")]
    Unavailable(String),
}

/// A reason for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionReason {
    /// A stable code.
    pub code: String,
    /// The field that the reason is about. Empty if there is none.
    #[serde(default)]
    pub field: String,
    /// A message for people.
    pub message: String,
}

/// A webhook whose signature was not verified yet.
#[derive(Debug, Clone, Copy)]
pub struct Unverified<'a> {
    /// The kind of forge.
    pub forge: ForgeKind,
    /// The secret that it must be signed with.
    pub secret: &'a [u8],
    /// The headers; their names are in lower case.
    pub headers: &'a BTreeMap<String, String>,
    /// The body.
    pub body: &'a [u8],
}

/// Why a webhook was rejected. It never contains the expected signature.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct WebhookRejected(pub String);

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

    /// Creates a run at the request of a person.
    fn dispatch(
        &self,
        caller: &Caller,
        namespace: &str,
        request: DispatchRequest,
    ) -> impl Future<Output = Result<RunAnswer, ActionError>> + Send;

    /// Records the decision on an approval. An approval is decided once.
    fn decide(
        &self,
        caller: &Caller,
        approval: &Target,
        request: DecisionRequest,
    ) -> impl Future<Output = Result<DecisionAnswer, ActionError>> + Send;

    /// Shows exactly what an approval allows, and the state of its target now.
    fn preview_approval(
        &self,
        approval: &Target,
    ) -> impl Future<Output = Result<ApprovalPreview, ActionError>> + Send;

    /// Evaluates a rule for an event without changing anything.
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

    /// Evaluates a rule again for a stored delivery.
    fn replay_delivery(
        &self,
        caller: &Caller,
        rule: &Target,
        request: ReplayRequest,
    ) -> impl Future<Output = Result<ExecutionAnswer, ActionError>> + Send;

    /// Fires a rule that has the source `manual`.
    fn fire(
        &self,
        caller: &Caller,
        rule: &Target,
        request: FireRequest,
    ) -> impl Future<Output = Result<ExecutionAnswer, ActionError>> + Send;

    /// Creates a work item from an event, without a run.
    fn materialize(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> impl Future<Output = Result<ExecutionAnswer, ActionError>> + Send;

    /// Reviews the permissions of a run without changing anything.
    fn review_permissions(
        &self,
        caller: &Caller,
        namespace: &str,
        question: PermissionQuestion,
    ) -> impl Future<Output = Result<PermissionReview, ActionError>> + Send;

    /// Performs an action on a workspace. A new workspace has no name yet.
    fn act_on_workspace(
        &self,
        caller: &Caller,
        namespace: &str,
        workspace: Option<&str>,
        request: WorkspaceRequest,
    ) -> impl Future<Output = Result<WorkspaceAnswer, ActionError>> + Send;

    /// The checks of a commit on the forge, and our runs for it.
    fn checks(
        &self,
        repository: &Target,
        sha: &str,
    ) -> impl Future<Output = Result<ChecksAnswer, ActionError>> + Send;

    /// The capabilities of each agent program here, by name.
    fn capabilities(
        &self,
    ) -> impl Future<Output = Result<BTreeMap<String, Value>, ActionError>> + Send;

    /// The events of a run after a cursor, up to a limit: those of all attempts in order, or of one attempt.
    fn run_events(
        &self,
        run: &Target,
        attempt: Option<u32>,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<RunEvents, ActionError>> + Send;

    /// Waits until the run may have events after this cursor, or until the timeout in milliseconds.
    fn wait_for_run_event(
        &self,
        run: &Target,
        after: u64,
        millis: u64,
    ) -> impl Future<Output = ()> + Send;

    /// Verifies the signature of a webhook.
    fn verify_webhook(&self, webhook: Unverified<'_>) -> Result<(), WebhookRejected>;
}
