//! Which branch or pull request a commit is on, for events of Gitea that name only the commit.

use bailiwick_fleet::ports::{CommitPlace, ForgeError};
use serde::Deserialize;

use super::client::Api;
use super::{shared_requests, wire};

#[derive(Debug, Deserialize)]
struct NamedBranch {
    name: String,
    commit: wire::BranchCommit,
}

#[derive(Debug, Deserialize)]
struct Comparison {
    total_commits: u64,
}

/// Where a commit is: at the tip of a branch, at the head of an open pull request, or further back on the default
/// branch. A pull request comes from a fork or not, so that its own state has to be asked for.
pub(super) async fn place_of(
    api: &Api,
    sha: &str,
    default_branch: &str,
) -> Result<CommitPlace, ForgeError> {
    if shared_requests::branch(api, default_branch).await?.as_deref() == Some(sha) {
        return Ok(CommitPlace::Branch(default_branch.to_owned()));
    }
    let at_tip = |page: &Vec<NamedBranch>| {
        let is_at = |branch: &&NamedBranch| branch.commit.id.as_deref() == Some(sha);
        page.iter().find(is_at).map(|branch| branch.name.clone())
    };
    if let Some(branch) = api.find(&["branches"], &[], at_tip).await? {
        return Ok(CommitPlace::Branch(branch));
    }
    let at_head = |page: &Vec<wire::Pull>| {
        page.iter().find(|pull| pull.head.sha == sha).map(|pull| pull.number)
    };
    if let Some(number) = api.find(&["pulls"], &[("state", "open")], at_head).await? {
        return Ok(CommitPlace::PullRequest(number));
    }
    if is_behind(api, sha, default_branch).await? {
        return Ok(CommitPlace::Branch(default_branch.to_owned()));
    }
    Ok(CommitPlace::Unknown)
}

/// Whether a branch has a commit. Gitea before 1.22 has no such request.
async fn is_behind(api: &Api, sha: &str, branch: &str) -> Result<bool, ForgeError> {
    let response = api.get(&["compare", &format!("{branch}...{sha}")], &[]).await?;
    if response.is_missing() {
        return Ok(false);
    }
    let comparison: Comparison = api.require_success(response)?.json()?;
    Ok(comparison.total_commits == 0)
}
