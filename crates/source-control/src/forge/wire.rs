//! The JSON of Gitea and GitHub, as far as it is read.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) html_url: Option<String>,
    #[serde(default)]
    pub(super) user: Option<User>,
}

#[derive(Debug, Deserialize)]
pub(super) struct User {
    pub(super) login: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Label {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Issue {
    pub(super) number: u64,
    pub(super) title: String,
    #[serde(default)]
    pub(super) body: Option<String>,
    /// Only pull requests have this.
    #[serde(default)]
    pub(super) pull_request: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) html_url: Option<String>,
    #[serde(default)]
    pub(super) user: Option<User>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Pull {
    pub(super) number: u64,
    pub(super) title: String,
    #[serde(default)]
    pub(super) body: Option<String>,
    pub(super) state: String,
    #[serde(default)]
    pub(super) html_url: Option<String>,
    #[serde(default)]
    pub(super) user: Option<User>,
    pub(super) head: Side,
    pub(super) base: Side,
}

#[derive(Debug, Deserialize)]
pub(super) struct Side {
    #[serde(rename = "ref")]
    pub(super) branch: String,
    #[serde(default)]
    pub(super) sha: String,
    #[serde(default)]
    pub(super) repo: Option<RepositoryName>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RepositoryName {
    pub(super) full_name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Permission {
    pub(super) permission: String,
    #[serde(default)]
    pub(super) user: Option<Login>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Login {
    pub(super) login: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChangedFile {
    pub(super) filename: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Branch {
    pub(super) commit: BranchCommit,
}

#[derive(Debug, Deserialize)]
pub(super) struct BranchCommit {
    /// Gitea's name.
    #[serde(default)]
    pub(super) id: Option<String>,
    /// GitHub's name.
    #[serde(default)]
    pub(super) sha: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) context: String,
    /// Gitea calls it `status`, GitHub `state`.
    #[serde(default, alias = "state")]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) target_url: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Release {
    pub(super) id: u64,
    pub(super) tag_name: String,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) html_url: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Run {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) run_attempt: u64,
    #[serde(default)]
    pub(super) html_url: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Job {
    pub(super) run_id: u64,
}
