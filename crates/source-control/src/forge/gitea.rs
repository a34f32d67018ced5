//! Gitea, and Forgejo, which has the same API.

use bailiwick_fleet::admission::TeamMembers;
use bailiwick_fleet::ports::{
    CheckRun, CommitPlace, Forge, ForgeError, LabelEntry, PolledEvent, PullRequestState, Review,
    Rights, WriteBack, Written,
};
use bailiwick_resources::{ForgeFacts, ReviewDecision};
use serde_json::json;

use super::branch_rights;
use super::checks::{self, Listing};
use super::client::{Api, ApiStyle};
use super::marker::Marker;
use super::push::PushTarget;
use super::shared_requests::{self, NewPullRequest, RerunRequest, StatusToSet};
use super::{activity, facts, gitea_rights, placement, timeline, wire};

pub(super) const API_STYLE: ApiStyle = ApiStyle {
    scheme: "token",
    accept: "application/json",
    page_size: "limit",
    is_conditional: false,
};

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
        let comments: Vec<wire::Comment> = timeline::comments(&self.api, number, None).await?;
        let marked = shared_requests::marked_comments(&comments, marker);
        if let Some(found) = shared_requests::our_own(&self.api, marked).await? {
            return Ok(found);
        }
        shared_requests::post_comment(&self.api, number, &text).await
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
        shared_requests::review(&self.api, review, marker, body).await
    }
}

impl Forge for Gitea {
    async fn write(&self, key: &str, what: &WriteBack) -> Result<Written, ForgeError> {
        let (api, marker) = (&self.api, Marker::of(key));
        match what {
            WriteBack::OpenIssue { run: _, run_uid: _, title, body } => {
                shared_requests::open_issue(api, &marker, (title, body), "created_by").await
            }
            WriteBack::Comment { number, body, pull_request: _ } => {
                self.comment(&marker, *number, body).await
            }
            WriteBack::Review(review) => self.review(&marker, review).await,
            WriteBack::Push { branch, commit, from } => {
                let pushed = self.push_target.push(branch, commit, from.as_deref()).await;
                branch_rights::push_result(api, pushed).await
            }
            WriteBack::OpenPullRequest { head, base, title, body } => {
                let wanted = NewPullRequest { head, base, title, body };
                let query = [("state", "all"), ("base_branch", base)];
                shared_requests::open_pull_request(api, &marker, &wanted, &query).await
            }
            WriteBack::CheckStatus { sha, context, state, description, url } => {
                let url = url.as_deref();
                let wanted = StatusToSet { sha, context, state: *state, description, url };
                shared_requests::set_status(api, &wanted, &[("sort", "recentupdate")]).await
            }
            WriteBack::Rerun { run, whole_workflow, attempt } => {
                let wanted =
                    RerunRequest { run, whole_workflow: *whole_workflow, attempt: *attempt };
                let path = |run: &str, job: &str| {
                    ["actions", "runs", run, "jobs", job, "rerun"].map(str::to_owned).to_vec()
                };
                shared_requests::rerun(api, &wanted, path).await
            }
            WriteBack::ReleaseNote { tag, title, body } => {
                let mut path = vec!["tags"];
                path.extend(tag.split('/'));
                let tag_response = api.get(&path, &[]).await?;
                shared_requests::release(api, &marker, tag, title, body, tag_response).await
            }
            WriteBack::DeploymentApproval { .. } => {
                Err(ForgeError::Unsupported("approve deployments: Gitea has none".to_owned()))
            }
        }
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequestState, ForgeError> {
        shared_requests::pull_request(&self.api, number).await
    }

    async fn branch(&self, name: &str) -> Result<Option<String>, ForgeError> {
        shared_requests::branch(&self.api, name).await
    }

    async fn push_rights(&self, branch: &str) -> Result<Rights, ForgeError> {
        branch_rights::gitea_push_rights(&self.api, branch).await
    }

    async fn permission(&self, actor: &str) -> Result<Rights, ForgeError> {
        gitea_rights::permission(&self.api, actor).await
    }

    async fn team_members(&self, team: &str) -> Result<TeamMembers, ForgeError> {
        gitea_rights::team_members(&self.api, team).await
    }

    async fn label_history(&self, number: u64) -> Result<Option<Vec<LabelEntry>>, ForgeError> {
        timeline::label_history(&self.api, number).await.map(Some)
    }

    async fn place_of(&self, sha: &str, default_branch: &str) -> Result<CommitPlace, ForgeError> {
        placement::place_of(&self.api, sha, default_branch).await
    }

    async fn issue(&self, number: u64) -> Result<(String, String), ForgeError> {
        shared_requests::issue(&self.api, number).await
    }

    async fn job_log(&self, job: &str, max_bytes: usize) -> Result<String, ForgeError> {
        self.api.tail(&["actions", "jobs", job, "logs"], max_bytes).await
    }

    async fn account(&self) -> Result<Option<String>, ForgeError> {
        shared_requests::account(&self.api).await
    }

    async fn facts(&self) -> Result<Option<ForgeFacts>, ForgeError> {
        facts::gitea(&self.api).await.map(Some)
    }

    async fn labels(&self) -> Result<Option<Vec<String>>, ForgeError> {
        shared_requests::labels(&self.api).await
    }

    async fn checks_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
        // Gitea before 1.25 has no such list.
        if self.api.get(&["actions", "runs"], &[("limit", "1")]).await?.is_missing() {
            return Ok((Vec::new(), cursor.map(str::to_owned)));
        }
        checks::since(&self.api, Listing::Gitea, cursor).await
    }

    async fn activity_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<PolledEvent>, Option<String>), ForgeError> {
        activity::since(&self.api, cursor).await
    }

    async fn checks_at(&self, sha: &str) -> Result<Vec<CheckRun>, ForgeError> {
        checks::at(&self.api, sha).await
    }
}
