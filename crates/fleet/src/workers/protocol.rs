//! What a worker and a server send each other. Unknown fields are ignored, because one of the two can be newer.

use std::collections::BTreeMap;

use bailiwick_model::event::ExitReason;
use bailiwick_resources::RunCost;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use super::event_limits::{MAX_REPORT_BYTES, MAX_REPORT_EVENTS};
use crate::admission::compile::LaunchLimits;
use crate::bundle::NamedSource;
use crate::ports::{AttemptOwner, EngineEvent};

/// The maximum size of the work of an attempt, as a git bundle.
pub const MAX_WORK_BYTES: usize = 32 * 1024 * 1024;
/// The maximum size of the outcome of a check's job, as JSON.
pub const MAX_EVIDENCE_BYTES: usize = 8 * 1024 * 1024;
/// How much is stored of each text of a report.
const MAX_TEXT_BYTES: usize = 16 * 1024;
/// How much is stored of the final message of an attempt, which can be its whole answer.
const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// How many open questions are stored of an attempt.
const MAX_QUESTIONS: usize = 64;

/// What a machine offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkerCapabilities {
    /// The agent programs that are installed, with their versions.
    pub programs: BTreeMap<String, String>,
    /// The level of the sandbox that was tried: `full`, `partial` or `off`.
    pub sandbox: String,
    /// What the sandbox stands in: `machine`, `nested` in a pod, `landlock-only`, or `none`.
    pub confinement: String,
    /// The parts of the sandbox that do not work, each with the reason.
    pub lacks: Vec<String>,
    /// The number of processor cores.
    pub cores: u64,
    /// How many attempts it runs at the same time.
    pub slots: u64,
    /// Whether it can run the commands and tests of checks. Older workers cannot.
    pub checks: bool,
}

/// A request to join, with a token for one use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinRequest {
    /// The version of the worker program.
    pub version: String,
    /// The pool whose attempts it runs. The token must be for the same one.
    pub pool: String,
    /// The name that it would like to have. The server adds letters that make it unique.
    pub name: String,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What its machine offers.
    pub capabilities: WorkerCapabilities,
}

/// A name and a credential for a worker. A renewal has the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinAnswer {
    /// The name of the worker.
    pub worker: String,
    /// The credential of its requests; it is a secret.
    pub credential: String,
    /// How many seconds the credential is valid.
    pub valid_seconds: u64,
}

/// A request for a new credential, with what the machine offers now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RenewRequest {
    /// The version of the worker program. Older workers do not send it.
    pub version: String,
    /// What its machine offers. If left out, as before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<WorkerCapabilities>,
}

/// A request for an attempt to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollRequest {
    /// The version of the worker program.
    pub version: String,
    /// Whether it can run another attempt.
    pub has_room: bool,
    /// How many milliseconds the server may wait for an attempt.
    pub wait_millis: u64,
    /// The attempts that it still follows: it cannot claim them again. An older worker does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Vec<String>>,
}

/// An attempt to run, if there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollAnswer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Assignment>,
    /// Whether it must end once its attempts have ended.
    #[serde(default)]
    pub drain: bool,
}

/// What a worker has claimed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    pub lease: Lease,
    /// How long the worker may be silent, in milliseconds.
    pub lease_millis: u64,
    #[serde(flatten)]
    pub work: AssignedWork,
}

/// What a worker runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AssignedWork {
    /// An attempt.
    Launch(Box<RemoteLaunch>),
    /// A command or tests of a check, on the work of an attempt that another worker has run.
    Check(RemoteCheck),
}

/// A job of a check: what a worker runs on the work of an attempt. The server judges its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteCheck {
    /// Identifies the repository, so that a worker fetches only what it does not have.
    pub repository: String,
    /// The checkout on the server, which no worker is told.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub checkout: String,
    /// The commit before the changes.
    pub base: String,
    /// The commit that the agent has checked out.
    pub head: String,
    /// The commit with all changes.
    pub commit: String,
    /// The task of the attempt, which says how a tree is made ready.
    pub task: String,
    /// The job, as JSON.
    pub job: serde_json::Value,
    /// How long each command of it may take, in milliseconds.
    pub time_millis: u64,
}

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckEvidence {
    /// The tree that it ran on.
    pub tree: String,
    /// The outcome, as JSON.
    pub outcome: serde_json::Value,
}

/// The right to report on an attempt. A later claim of the same attempt has a higher fence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The run of the ledger.
    pub agent: String,
    pub fence: u64,
}

/// The lease is not that of the claim that counts: whatever its worker sends is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("another claim of this attempt counts, or it has ended; stop it")]
pub struct LeaseError;

/// Why a report is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReportError {
    #[error(transparent)]
    LeaseLost(#[from] LeaseError),
    #[error("an event with the number {number} cannot follow the one with the number {last}")]
    EventNumber { number: u64, last: u64 },
    #[error("a report has at most {MAX_REPORT_EVENTS} events")]
    TooManyEvents,
    #[error("the events of a report take at most {MAX_REPORT_BYTES} bytes")]
    TooLarge,
    /// A check has an outcome, and nothing else.
    #[error("a check has no events and no work; update the worker")]
    NotOfACheck,
    /// The work of an attempt is judged by the server.
    #[error("only a check has an outcome; update the worker")]
    NotOfAnAttempt,
}

/// What an attempt is launched with on a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteLaunch {
    pub attempt: String,
    /// Identifies the repository, so that a worker fetches only what it does not have.
    pub repository: String,
    /// The checkout on the server, which no worker is told.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub checkout: String,
    pub base: String,
    #[serde(rename = "kitFrom", default, skip_serializing_if = "Option::is_none")]
    pub kit_commit: Option<String>,
    pub task: String,
    pub context: String,
    pub limits: LaunchLimits,
    /// Variables for the supervisor, with the model key that is granted to this attempt. They are secrets.
    pub environment: Vec<(String, String)>,
    #[serde(rename = "belongs")]
    pub owner: AttemptOwner,
    #[serde(default)]
    pub sources: Vec<NamedSource>,
    /// Why the workspace of its work item is not reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_reused: Option<String>,
    /// Variables for the supervisor whose values are files of the pod. An older worker does not set them, and an agent
    /// whose task names one of them is not started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_values: Vec<String>,
}

/// How far an attempt is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgressState {
    #[default]
    Starting,
    Running,
    WaitingForApproval,
}

/// What has happened in an attempt since the last report. A report without news keeps the lease.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProgressReport {
    pub state: ProgressState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(deserialize_with = "reported_cost")]
    pub cost: RunCost,
    /// How often its agent was started.
    pub attempts: u64,
    pub detail: String,
    /// Open questions to people: the id and the subject of each.
    pub questions: Vec<(String, String)>,
    /// Events in order. Their numbers are those of the worker; the server drops those that it has.
    pub events: Vec<EngineEvent>,
}

/// A cost as a newer worker may report it, with parts that this version does not know: documents that people write
/// refuse them.
fn reported_cost<'de, D: Deserializer<'de>>(report: D) -> Result<RunCost, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct ReportedCost {
        tokens: u64,
        micro_usd: u64,
        turns: u64,
        tool_calls: u64,
        denied: u64,
    }
    let ReportedCost { tokens, micro_usd, turns, tool_calls, denied } =
        ReportedCost::deserialize(report)?;
    Ok(RunCost { tokens, micro_usd, turns, tool_calls, denied })
}

impl ProgressReport {
    /// Cuts what is longer than a server stores.
    pub fn limit(&mut self) {
        cut(&mut self.detail, MAX_TEXT_BYTES);
        if let Some(session) = &mut self.session {
            cut(session, MAX_TEXT_BYTES);
        }
        self.questions.retain(|(id, _)| id.len() <= MAX_TEXT_BYTES);
        self.questions.truncate(MAX_QUESTIONS);
        for (_, subject) in &mut self.questions {
            cut(subject, MAX_TEXT_BYTES);
        }
    }
}

fn cut(text: &mut String, max_bytes: usize) {
    text.truncate(text.floor_char_boundary(max_bytes));
}

/// What a worker must do next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProgressAnswer {
    /// The number of the last event that the server has stored.
    pub stored: u64,
    /// Whether the attempt must be stopped.
    pub cancel: bool,
    /// Answers to questions: whether the answer is yes, by the id of the question.
    pub answers: BTreeMap<String, bool>,
}

/// How an attempt was run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttemptSummary {
    pub cli: String,
    pub version: String,
    pub model: String,
    pub login: String,
    pub sandbox: String,
}

/// What the worker says its work is. The server computes everything else from the bundle, and checks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkClaim {
    /// The commit that the agent has checked out.
    pub head: String,
    /// The commit with all changes: `head`, or a child of it.
    pub commit: String,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FinishReport {
    pub ending: ExitReason,
    /// Its final message, or why it failed.
    pub detail: String,
    #[serde(default)]
    pub summary: AttemptSummary,
    /// Its work, if it was completed. The bundle was sent before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkClaim>,
    /// The outcome of a check's job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<CheckEvidence>,
    /// Its worker could not begin it: it can be queued again for another one. Older workers do not say it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_begun: bool,
}

impl FinishReport {
    /// The report without what is longer than a server stores.
    #[must_use]
    pub fn limited(mut self) -> Self {
        cut(&mut self.detail, MAX_MESSAGE_BYTES);
        let AttemptSummary { cli, version, model, login, sandbox } = &mut self.summary;
        for text in [cli, version, model, login, sandbox] {
            cut(text, MAX_TEXT_BYTES);
        }
        if let Some(WorkClaim { head, commit }) = &mut self.work {
            cut(head, MAX_TEXT_BYTES);
            cut(commit, MAX_TEXT_BYTES);
        }
        self
    }
}
