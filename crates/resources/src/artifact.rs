//! What runs make, and what people say to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ApprovalReason, Fault, Kind, Moment, NoStatus, Resource, WriteBackTarget};

/// Something that a run has made; its bytes are kept beside it under the digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentArtifact {
    /// The run.
    pub dispatch_run: String,
    /// The attempt.
    pub attempt: String,
    /// What it is.
    pub kind: ArtifactKind,
    /// The digest of its bytes.
    pub digest: String,
    /// How many bytes.
    pub bytes: u64,
    /// What people see first.
    #[serde(default)]
    pub summary: String,
    /// For a patch: what it applies to and how it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<PatchDetail>,
}

/// What an artifact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArtifactKind {
    /// What is wrong.
    Diagnosis,
    /// A change.
    Patch,
    /// A branch that could be pushed.
    BranchProposal,
    /// A review.
    Review,
    /// What was tested.
    TestReport,
    /// What a release would bring.
    ReleaseReport,
    /// What a sub-agent returned.
    SubagentOutput,
    /// What a worktree has.
    WorkspaceDiff,
    /// A wish to run a check again.
    RerunRequest,
}

/// A patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchDetail {
    /// The commit it applies to.
    pub base_sha: String,
    /// The tree that was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The commit that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The files.
    pub files: Vec<String>,
    /// Whether it merges, on the base of then.
    pub merges: bool,
    /// Whether every check passed.
    pub verified: bool,
    /// Files that deserve a second look.
    #[serde(default)]
    pub unsafe_files: Vec<String>,
    /// What is meant to happen with it. A patch never pushes itself.
    pub apply_strategy: ApplyStrategy,
}

/// What is meant to happen with a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApplyStrategy {
    /// It is shown.
    CommentOnly,
    /// It goes to a branch.
    BranchUpdate,
    /// It goes to the pull request's branch.
    PrUpdate,
    /// It stays here.
    LocalOnly,
}

impl Resource for AgentArtifact {
    const KIND: Kind = Kind::AgentArtifact;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// A review that a run has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentReviewArtifact {
    /// The run.
    pub dispatch_run: String,
    /// What is reviewed, as `owner/name#7@sha`.
    pub target_ref: String,
    /// What it says.
    pub decision: ReviewDecision,
    /// The digest of its text.
    pub digest: String,
    /// The comments.
    #[serde(default)]
    pub comments: Vec<ReviewComment>,
}

/// What a review says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReviewDecision {
    /// Nothing yet.
    Pending,
    /// Yes.
    Approved,
    /// Not like this.
    ChangesRequested,
    /// Neither.
    CommentOnly,
}

/// A comment with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewComment {
    /// The file.
    pub path: String,
    /// The line.
    pub line: u64,
    /// What it says.
    pub body: String,
}

impl Resource for AgentReviewArtifact {
    const KIND: Kind = Kind::AgentReviewArtifact;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// A question to a person, bound to the exact thing asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentApproval {
    /// The run.
    pub dispatch_run: String,
    /// The attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// Who asks.
    pub requested_by: Requester,
    /// The person who started the run by hand and may therefore not be the one who answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatched_by: Option<String>,
    /// The person who asked for the attempt by hand, where that is another one; neither of them answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_asked_by: Option<String>,
    /// For what.
    pub action: ApprovalAction,
    /// Why a person is asked.
    #[serde(default)]
    pub policy_reasons: Vec<ApprovalReason>,
    /// What it is about.
    #[serde(default)]
    pub artifact_refs: Vec<String>,
    /// The digest of exactly what would be done with what: a yes to anything else is no yes.
    pub artifact_digest: String,
    /// The state of the target that was looked at, for example the commit a branch is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_state: Option<String>,
    /// When it is too late.
    pub expires_at: Moment,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Requester {
    /// What it is.
    pub kind: super::SubjectKind,
    /// Its name.
    pub name: String,
}

/// What a person is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalAction {
    /// What would be done.
    #[serde(rename = "type")]
    pub kind: ActionType,
    /// To what, as `owner/name#7` or `owner/name@refs/heads/x`.
    pub target: String,
    /// The same for people.
    #[serde(default)]
    pub summary: String,
}

/// What would be done.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case", tag = "class", content = "what")]
pub enum ActionType {
    /// Something is written back.
    WriteBack(WriteBackTarget),
    /// The run may use its secrets.
    SecretAccess,
    /// The run may reach more hosts.
    NetworkExpanded,
    /// A tool call goes ahead.
    ToolCall,
    /// A binding gives more than its author has.
    Escalation,
}

/// How a question stands.
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
    /// Nobody has answered.
    #[default]
    Pending,
    /// Yes.
    Approved,
    /// No.
    Rejected,
    /// Too late.
    Expired,
}

/// What is known of a question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentApprovalStatus {
    /// How it stands. It leaves `pending` once.
    pub phase: ApprovalPhase,
    /// Who answered: the account that was logged in, never a name from the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Moment>,
    /// What they said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// By which key it is written back, once it may be.
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
