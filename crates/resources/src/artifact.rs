//! The artifacts of runs, and the approvals and reviews of people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ApprovalReason, Fault, Kind, Moment, NoStatus, Resource, WriteBackTarget};

/// A result of a run. Its content is stored under the digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentArtifact {
    /// The name of the run.
    pub dispatch_run: String,
    /// The name of the attempt.
    pub attempt: String,
    /// The kind of artifact.
    pub kind: ArtifactKind,
    /// The digest of the content.
    pub digest: String,
    /// The size of the content in bytes.
    pub bytes: u64,
    /// A short summary.
    #[serde(default)]
    pub summary: String,
    /// Details of a patch. Only for the kind `patch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<PatchDetail>,
}

/// The kind of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArtifactKind {
    /// A diagnosis.
    Diagnosis,
    /// A patch.
    Patch,
    /// A branch that can be pushed.
    BranchProposal,
    /// A review.
    Review,
    /// A test report.
    TestReport,
    /// A release report.
    ReleaseReport,
    /// The output of a sub-agent.
    SubagentOutput,
    /// The diff of a workspace.
    WorkspaceDiff,
    /// A request to rerun a check.
    RerunRequest,
}

/// The details of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchDetail {
    /// The commit that it applies to.
    pub base_sha: String,
    /// The tree that was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The commit that contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The changed files.
    pub files: Vec<String>,
    /// Whether it merged without conflicts into the base at that time.
    pub merges: bool,
    /// Whether all checks passed.
    pub verified: bool,
    /// Changed files that need special attention, such as workflows and lock files.
    #[serde(default)]
    pub unsafe_files: Vec<String>,
    /// The commits that a push would include, the oldest first. None if they are too long to be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<PatchCommit>,
    /// How the patch is meant to be applied. Pushing it is a separate write-back.
    pub apply_strategy: ApplyStrategy,
}

/// A commit of a patch. Its author and its message may be the agent's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchCommit {
    /// Its name.
    pub sha: String,
    /// The author, as `name <address>`.
    pub author: String,
    /// The committer, if that is another person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committer: Option<String>,
    /// The whole message.
    pub message: String,
    /// The files that it changes.
    #[serde(default)]
    pub files: Vec<String>,
}

/// How a patch is meant to be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApplyStrategy {
    /// It is posted as a comment.
    CommentOnly,
    /// It is pushed to a branch.
    BranchUpdate,
    /// It is pushed to the branch of the pull request.
    PrUpdate,
    /// It is not pushed.
    LocalOnly,
}

impl Resource for AgentArtifact {
    const KIND: Kind = Kind::AgentArtifact;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// A review that a run produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentReviewArtifact {
    /// The name of the run.
    pub dispatch_run: String,
    /// The pull request and commit, as `owner/name#7@sha`.
    pub target_ref: String,
    /// The decision of the review.
    pub decision: ReviewDecision,
    /// The digest of its text.
    pub digest: String,
    /// The comments on single lines.
    #[serde(default)]
    pub comments: Vec<ReviewComment>,
}

/// The decision of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReviewDecision {
    /// No decision yet.
    Pending,
    /// The change is approved.
    Approved,
    /// Changes are requested.
    ChangesRequested,
    /// Comments only, without a decision.
    CommentOnly,
}

/// A comment on a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewComment {
    /// The path of the file.
    pub path: String,
    /// The line number.
    pub line: u64,
    /// The text of the comment.
    pub body: String,
}

impl Resource for AgentReviewArtifact {
    const KIND: Kind = Kind::AgentReviewArtifact;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// A request for an approval. It is bound to one exact action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentApproval {
    /// The name of the run.
    pub dispatch_run: String,
    /// The name of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// The agent that requests the approval.
    pub requested_by: Requester,
    /// The person who started the run by hand. They cannot approve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatched_by: Option<String>,
    /// The person who requested the attempt by hand, if it is somebody else. They cannot approve it either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_asked_by: Option<String>,
    /// The action that needs the approval.
    pub action: ApprovalAction,
    /// The reasons why an approval is needed.
    #[serde(default)]
    pub policy_reasons: Vec<ApprovalReason>,
    /// The names of the artifacts that the action uses.
    #[serde(default)]
    pub artifact_refs: Vec<String>,
    /// The digest of the exact action and its content. An approval of another digest does not count.
    pub artifact_digest: String,
    /// The state of the target at that time, for example the head of the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_state: Option<String>,
    /// When the request expires.
    pub expires_at: Moment,
}

/// The requester of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Requester {
    /// The kind of the requester.
    pub kind: super::SubjectKind,
    /// The name of the requester.
    pub name: String,
}

/// An action that needs an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalAction {
    /// The kind of action.
    #[serde(rename = "type")]
    pub kind: ActionType,
    /// The target, such as `owner/name#7` or `owner/name@refs/heads/x`.
    pub target: String,
    /// A description for people.
    #[serde(default)]
    pub summary: String,
}

/// The kind of an action.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case", tag = "class", content = "what")]
pub enum ActionType {
    /// A write-back.
    WriteBack(WriteBackTarget),
    /// The run uses secrets.
    SecretAccess,
    /// The run reaches additional hosts.
    NetworkExpanded,
    /// A tool call.
    ToolCall,
    /// A role binding grants more than its author has.
    Escalation,
}

/// The phase of an approval.
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
pub enum ApprovalPhase {
    /// Nobody has decided yet.
    #[default]
    Pending,
    /// It was approved.
    Approved,
    /// It was rejected.
    Rejected,
    /// It expired.
    Expired,
}

/// The status of an approval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentApprovalStatus {
    /// The phase. It changes from `pending` only once.
    pub phase: ApprovalPhase,
    /// The logged-in account that decided. It is never taken from the request body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// When it was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Moment>,
    /// The comment of the person who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The idempotency key of the write-back, once it is approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_back_key: Option<String>,
}

impl Resource for AgentApproval {
    const KIND: Kind = Kind::AgentApproval;
    type Status = AgentApprovalStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
