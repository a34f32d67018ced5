//! The identity of a write: its target, its digest, its key.

use bailiwick_model::digest::Sha256Hex;
use bailiwick_resources::{ActionType, AgentApproval, WriteBackTarget};
use serde_json::json;

use crate::ports::WriteBack;

/// The target of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its kind, such as `branch`.
    pub kind: &'static str,
    /// Which one, such as `owner/name@refs/heads/x`.
    pub name: String,
    /// Its required state, if the write contains it.
    pub state: Option<String>,
}

/// The required state of a new branch.
pub const ABSENT: &str = "absent";

/// The target of a write to a repository.
pub fn target(repository: &str, write: &WriteBack) -> Target {
    let numbered = |number: &u64| format!("{repository}#{number}");
    let (name, state) = match write {
        WriteBack::OpenIssue { run, .. } => (format!("{repository}/issues of {run}"), None),
        WriteBack::Comment { number, .. } => (numbered(number), None),
        WriteBack::Review(review) => (numbered(&review.number), Some(review.sha.clone())),
        WriteBack::Push { branch, from, .. } => {
            let state = from.clone().unwrap_or_else(|| ABSENT.to_owned());
            (format!("{repository}@refs/heads/{branch}"), Some(state))
        }
        WriteBack::OpenPullRequest { head, base, .. } => {
            (format!("{repository}@{base}...{head}"), None)
        }
        WriteBack::CheckStatus { sha, context, .. } => {
            (format!("{repository}@{sha}/{context}"), None)
        }
        WriteBack::Rerun { run, attempt, .. } => {
            (format!("{repository}!{run}"), Some(format!("attempt {attempt}")))
        }
        WriteBack::ReleaseNote { tag, .. } => (format!("{repository}@refs/tags/{tag}"), None),
        WriteBack::DeploymentApproval { run, environment, .. } => {
            (format!("{repository}!{run}/{environment}"), None)
        }
    };
    Target { kind: kind_of(write.target()), name, state }
}

/// The kind of target of an action.
fn kind_of(action: WriteBackTarget) -> &'static str {
    match action {
        WriteBackTarget::OpenIssue | WriteBackTarget::IssueComment => "issue",
        WriteBackTarget::PullRequestComment
        | WriteBackTarget::PullRequestReview
        | WriteBackTarget::OpenPullRequest => "pull-request",
        WriteBackTarget::BranchPush | WriteBackTarget::CreateBranch => "branch",
        WriteBackTarget::WorkReference => "reference",
        WriteBackTarget::CheckStatus => "commit",
        WriteBackTarget::CheckRerun => "check-run",
        WriteBackTarget::WorkflowRerun => "workflow-run",
        WriteBackTarget::ReleaseNote => "release",
        WriteBackTarget::DeploymentApproval => "deployment",
    }
}

/// The digest of exactly what is sent, and to which repository.
pub fn digest(repository: &str, write: &WriteBack) -> Sha256Hex {
    Sha256Hex::of(json!([repository, write]).to_string())
}

/// The idempotency key of a write: equal for the same approval, target and content, in every repetition.
/// `approval` is the uid of the approval, or of the attempt if policy alone decides.
pub fn key(approval: &str, repository: &str, write: &WriteBack) -> String {
    let about = target(repository, write);
    let run = match write {
        WriteBack::OpenIssue { run_uid, .. } => Some(run_uid.as_str()),
        WriteBack::Comment { .. }
        | WriteBack::Review(_)
        | WriteBack::Push { .. }
        | WriteBack::OpenPullRequest { .. }
        | WriteBack::CheckStatus { .. }
        | WriteBack::Rerun { .. }
        | WriteBack::ReleaseNote { .. }
        | WriteBack::DeploymentApproval { .. } => None,
    };
    joined((approval, run), write.target(), &about.name, digest(repository, write).as_str())
}

/// The key of what an approval allows to be written, if that is what it is about. `run` is the uid of its run.
pub fn approved_key(uid: &str, run: Option<&str>, approval: &AgentApproval) -> Option<String> {
    match approval.action.kind {
        ActionType::WriteBack(action) => {
            Some(joined((uid, run), action, &approval.action.target, &approval.artifact_digest))
        }
        ActionType::SecretAccess
        | ActionType::NetworkExpanded
        | ActionType::ToolCall
        | ActionType::Escalation => None,
    }
}

fn joined(
    (approval, run): (&str, Option<&str>),
    action: WriteBackTarget,
    target: &str,
    digest: &str,
) -> String {
    // One issue for each run, even if a later attempt has other content.
    if action == WriteBackTarget::OpenIssue {
        let uid = run.filter(|uid| !uid.is_empty()).unwrap_or(approval);
        return format!("{uid}:{}:{}:{target}", name_of(action), kind_of(action));
    }
    format!("{approval}:{}:{}:{target}:{digest}", name_of(action), kind_of(action))
}

/// A target as policies write it.
pub(super) fn name_of(target: WriteBackTarget) -> String {
    let written = serde_json::to_value(target).ok();
    written.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
