//! What the API asks of the control plane behind it: everything that is more than reading or writing
//! a resource.
//!
//! ```text
//! runs   checks   rules   approvals   permissions   workspaces      what is asked, and what is answered
//! ```
//!
//! Each of these that changes something must write its line of the audit log, with the caller's name,
//! in the same commit. What cannot be done is an error; nothing is ever said to be accepted that was
//! not kept.

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

pub use approvals::{DecisionAnswer, DecisionRequest, Verdict, WriteBackAnswer};
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

/// Who asks: as the token says, never as the request does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The person.
    pub actor: String,
    /// What they may do.
    pub scope: TokenScope,
    /// The id of the token.
    pub token: String,
    /// What joins this request with its log lines; the one who asks may choose it, and one for many requests.
    pub correlation: String,
    /// What this request alone is known by: made here, never by the one who asks.
    pub request: String,
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

    /// Fires a rule that has the source `manual`.
    fn fire(
        &self,
        caller: &Caller,
        rule: &Target,
        request: FireRequest,
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

    /// The forge's checks of a commit, and our runs beside them.
    fn checks(
        &self,
        repository: &Target,
        sha: &str,
    ) -> impl Future<Output = Result<ChecksAnswer, ActionError>> + Send;

    /// What each agent program can do here, by its name.
    fn capabilities(
        &self,
    ) -> impl Future<Output = Result<BTreeMap<String, Value>, ActionError>> + Send;

    /// The run's own events after this cursor, at most so many: those of all attempts in their order, or of
    /// the one that is asked for.
    fn run_events(
        &self,
        run: &Target,
        attempt: Option<u32>,
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
    fn verify_webhook(&self, webhook: Unverified<'_>) -> Result<(), WebhookRejected>;
}
