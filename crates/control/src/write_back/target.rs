//! What a write is about: its target, its digest, its key.

use bailiwick_model::digest::Sha256Hex;
use bailiwick_model::fleet::WriteBackTarget;
use serde_json::json;

use crate::ports::fleet::WriteBack;

/// What a write is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What it is, such as `branch`.
    pub kind: &'static str,
    /// Which one, such as `owner/name@refs/heads/x`.
    pub name: String,
    /// What it must be at, where the write itself says so.
    pub state: Option<String>,
}

/// What must be so of a branch that is to be made.
pub const ABSENT: &str = "absent";

/// What a write to a repository is about.
pub fn target(repository: &str, write: &WriteBack) -> Target {
    let numbered = |number: &u64| format!("{repository}#{number}");
    let (kind, name, state) = match write {
        WriteBack::Comment { number, pull_request: true, .. } => {
            ("pull-request", numbered(number), None)
        }
        WriteBack::Comment { number, pull_request: false, .. } => ("issue", numbered(number), None),
        WriteBack::Review(review) => {
            ("pull-request", numbered(&review.number), Some(review.sha.clone()))
        }
        WriteBack::Push { branch, from, .. } => {
            let state = from.clone().unwrap_or_else(|| ABSENT.to_owned());
            ("branch", format!("{repository}@refs/heads/{branch}"), Some(state))
        }
        WriteBack::OpenPullRequest { head, base, .. } => {
            ("pull-request", format!("{repository}@{base}...{head}"), None)
        }
        WriteBack::CheckStatus { sha, context, .. } => {
            ("commit", format!("{repository}@{sha}/{context}"), None)
        }
        WriteBack::Rerun { run, whole_workflow, attempt } => {
            let kind = if *whole_workflow { "workflow-run" } else { "check-run" };
            (kind, format!("{repository}!{run}"), Some(format!("attempt {attempt}")))
        }
        WriteBack::ReleaseNote { tag, .. } => {
            ("release", format!("{repository}@refs/tags/{tag}"), None)
        }
        WriteBack::DeploymentApproval { run, environment, .. } => {
            ("deployment", format!("{repository}!{run}/{environment}"), None)
        }
    };
    Target { kind, name, state }
}

/// The digest of exactly what is sent, and to which repository.
pub fn digest(repository: &str, write: &WriteBack) -> Sha256Hex {
    Sha256Hex::of(json!([repository, write]).to_string())
}

/// The key of a write: the same for the same approval, target and content, whoever asks how often.
/// `approval` is the approval's uid, or that of the attempt where policy alone decides.
pub fn key(approval: &str, repository: &str, write: &WriteBack) -> String {
    let Target { kind, name, .. } = target(repository, write);
    let action = name_of(write.target());
    format!("{approval}:{action}:{kind}:{name}:{}", digest(repository, write))
}

/// A target as policies write it.
pub(super) fn name_of(target: WriteBackTarget) -> String {
    let written = serde_json::to_value(target).ok();
    written.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
