//! Gitea, and Forgejo, which has the same API.

use bailiwick_fleet::ports::{
    CheckRun, Forge, ForgeError, PullRequestState, Review, Rights, WriteBack, Written,
};
use bailiwick_resources::ReviewDecision;
use serde_json::json;

use super::checks::{self, Listing};
use super::client::{Api, ApiStyle};
use super::common::{self, NewPullRequest, RerunRequest, StatusToSet};
use super::marker::Marker;
use super::push::PushTarget;
use super::wire;

pub(super) const API_STYLE: ApiStyle =
    ApiStyle { scheme: "token", accept: "application/json", page_size: "limit" };

/// A repository on a Gitea.
#[derive(Debug, Clone)]
pub struct Gitea {
    pub(super) api: Api,
    pub(super) push_target: PushTarget,
}

impl Gitea {
    async fn comment(
        &self,
        marker: &Marker,
        number: u64,
        body: &str,
    ) -> Result<Written, ForgeError> {
        let text = marker.append_to(body)?;
        let name = number.to_string();
        // Gitea returns all comments of an issue at once.
        let response = self.api.get(&["issues", &name, "comments"], &[]).await?;
        let comments: Vec<wire::Comment> = self.api.require_success(response)?.json()?;
        if let Some(found) = common::find_marked(&comments, marker) {
            return Ok(found);
        }
        common::post_comment(&self.api, number, &text).await
    }

    async fn review(&self, marker: &Marker, review: &Review) -> Result<Written, ForgeError> {
        let event = match review.decision {
            ReviewDecision::Pending => "PENDING",
            ReviewDecision::Approved => "APPROVED",
            ReviewDecision::ChangesRequested => "REQUEST_CHANGES",
            ReviewDecision::CommentOnly => "COMMENT",
        };
        let comments: Vec<_> = review
            .comments
            .iter()
            .map(|comment| {
                json!({ "path": comment.path, "body": comment.body, "new_position": comment.line })
            })
            .collect();
        let body = json!({
            "body": marker.append_to(&review.body)?,
            "commit_id": review.sha,
            "event": event,
            "comments": comments,
        });
        common::review(&self.api, review, marker, body).await
    }
}

impl Forge for Gitea {
    async fn write(&self, key: &str, what: &WriteBack) -> Result<Written, ForgeError> {
        let (api, marker) = (&self.api, Marker::of(key));
        match what {
            WriteBack::Comment { number, body, pull_request: _ } => {
                self.comment(&marker, *number, body).await
            }
            WriteBack::Review(review) => self.review(&marker, review).await,
            WriteBack::Push { branch, commit, from } => {
                self.push_target.push(branch, commit, from.as_deref()).await
            }
            WriteBack::OpenPullRequest { head, base, title, body } => {
                let wanted = NewPullRequest { head, base, title, body };
                let query = [("state", "all"), ("base_branch", base)];
                common::open_pull_request(api, &marker, &wanted, &query).await
            }
            WriteBack::CheckStatus { sha, context, state, description, url } => {
                let url = url.as_deref();
                let wanted = StatusToSet { sha, context, state: *state, description, url };
                common::set_status(api, &wanted, &[("sort", "recentupdate")]).await
            }
            WriteBack::Rerun { run, whole_workflow, attempt } => {
                let wanted =
                    RerunRequest { run, whole_workflow: *whole_workflow, attempt: *attempt };
                let path = |run: &str, job: &str| {
                    ["actions", "runs", run, "jobs", job, "rerun"].map(str::to_owned).to_vec()
                };
                common::rerun(api, &wanted, path).await
            }
            WriteBack::ReleaseNote { tag, title, body } => {
                let mut path = vec!["tags"];
                path.extend(tag.split('/'));
                let tag_response = api.get(&path, &[]).await?;
                common::release(api, &marker, tag, title, body, tag_response).await
            }
            WriteBack::DeploymentApproval { .. } => {
                Err(ForgeError::Unsupported("approve deployments: Gitea has none".to_owned()))
            }
        }
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequestState, ForgeError> {
        common::pull_request(&self.api, number).await
    }

    async fn branch(&self, name: &str) -> Result<Option<String>, ForgeError> {
        common::branch(&self.api, name).await
    }

    async fn permission(&self, actor: &str) -> Result<Rights, ForgeError> {
        let response = common::get_permission(&self.api, actor).await?;
        // Only an administrator of the repository may ask for the rights of others. The list of assignees proves
        // nothing: it has members of teams that may write a wiki only.
        if response.status() == 403 {
            return Ok(Rights::Unknown);
        }
        common::rights(&self.api, actor, response).await
    }

    async fn issue(&self, number: u64) -> Result<(String, String), ForgeError> {
        common::issue(&self.api, number).await
    }

    async fn job_log(&self, job: &str, max_bytes: usize) -> Result<String, ForgeError> {
        self.api.tail(&["actions", "jobs", job, "logs"], max_bytes).await
    }

    async fn account(&self) -> Result<Option<String>, ForgeError> {
        common::account(&self.api).await
    }

    async fn labels(&self) -> Result<Option<Vec<String>>, ForgeError> {
        common::labels(&self.api).await
    }

    async fn checks_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
        checks::since(&self.api, Listing::Gitea, cursor).await
    }

    async fn checks_at(&self, sha: &str) -> Result<Vec<CheckRun>, ForgeError> {
        checks::at(&self.api, sha).await
    }
}
