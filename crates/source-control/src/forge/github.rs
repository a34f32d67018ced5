//! The API of GitHub.

use bailiwick_fleet::admission::TeamMembers;
use bailiwick_fleet::ports::{
    CheckRun, Forge, ForgeError, LabelEntry, PolledEvent, PullRequestState, Review, Rights,
    WriteBack, Written,
};
use bailiwick_resources::{ForgeFacts, ReviewDecision};
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::branch_rights;
use super::checks::{self, Listing};
use super::client::{Api, ApiStyle};
use super::marker::Marker;
use super::push::PushTarget;
use super::shared_requests::{self, NewPullRequest, RerunRequest, StatusToSet};
use super::{facts, github_activity, github_labels};

pub(super) const API_STYLE: ApiStyle = ApiStyle {
    scheme: "Bearer",
    accept: "application/vnd.github+json",
    page_size: "per_page",
    is_conditional: true,
};

/// A repository on GitHub.
#[derive(Debug, Clone)]
pub struct Github {
    pub(super) api: Api,
    pub(super) push_target: PushTarget,
    pub(super) owner: String,
}

#[derive(Debug, Deserialize)]
struct Waiting {
    environment: Environment,
}

#[derive(Debug, Deserialize)]
struct Environment {
    id: u64,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Approval {
    #[serde(default)]
    comment: Option<String>,
    #[serde(default)]
    environments: Vec<Environment>,
}

impl Github {
    async fn comment(
        &self,
        marker: &Marker,
        number: u64,
        body: &str,
    ) -> Result<Written, ForgeError> {
        let text = marker.append_to(body)?;
        let name = number.to_string();
        let path = ["issues", &name, "comments"];
        match shared_requests::find_ours(&self.api, &path, marker).await? {
            Some(found) => Ok(found),
            None => shared_requests::post_comment(&self.api, number, &text).await,
        }
    }

    async fn review(&self, marker: &Marker, review: &Review) -> Result<Written, ForgeError> {
        let event = match review.decision {
            // A review without an event is a draft.
            ReviewDecision::Pending => None,
            ReviewDecision::Approved => Some("APPROVE"),
            ReviewDecision::ChangesRequested => Some("REQUEST_CHANGES"),
            ReviewDecision::CommentOnly => Some("COMMENT"),
        };
        let comments: Vec<_> = review
            .comments
            .iter()
            .map(|comment| {
                json!({
                    "path": comment.path, "body": comment.body,
                    "line": comment.line, "side": "RIGHT",
                })
            })
            .collect();
        let mut body = json!({
            "body": marker.append_to(&review.body)?,
            "commit_id": review.sha,
            "comments": comments,
        });
        if let (Some(event), Some(body)) = (event, body.as_object_mut()) {
            body.insert("event".to_owned(), event.into());
        }
        shared_requests::review(&self.api, review, marker, body).await
    }

    async fn approve_deployment(
        &self,
        marker: &Marker,
        run: &str,
        environment: &str,
        comment: &str,
    ) -> Result<Written, ForgeError> {
        let text = marker.append_to(comment)?;
        let response = self.api.get(&["actions", "runs", run, "approvals"], &[]).await?;
        let approvals: Vec<Approval> = self.api.require_success(response)?.json()?;
        let done = |approval: &Approval| {
            approval.comment.as_deref().is_some_and(|text| marker.ends(text))
                && approval.environments.iter().any(|place| place.name == environment)
        };
        let written = |was_there| Written { id: run.to_owned(), url: None, was_there };
        if approvals.iter().any(done) {
            return Ok(written(true));
        }
        let path = ["actions", "runs", run, "pending_deployments"];
        let response = self.api.get(&path, &[]).await?;
        let waiting: Vec<Waiting> = self.api.require_success(response)?.json()?;
        let ours = waiting.iter().find(|waiting| waiting.environment.name == environment);
        let Some(ours) = ours else {
            let why = format!("the run {run} is not waiting for {environment}");
            return Err(ForgeError::Refused(why));
        };
        let body = json!({
            "environment_ids": [ours.environment.id], "state": "approved", "comment": text,
        });
        let response = self.api.send(Method::POST, &path, &body).await?;
        self.api.require_success(response)?;
        Ok(written(false))
    }
}

impl Forge for Github {
    async fn write(&self, key: &str, what: &WriteBack) -> Result<Written, ForgeError> {
        let (api, marker) = (&self.api, Marker::of(key));
        match what {
            WriteBack::OpenIssue { run: _, run_uid: _, title, body } => {
                shared_requests::open_issue(api, &marker, (title, body), "creator").await
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
                let ours = format!("{}:{head}", self.owner);
                let query = [("state", "all"), ("base", base), ("head", &ours)];
                shared_requests::open_pull_request(api, &marker, &wanted, &query).await
            }
            WriteBack::CheckStatus { sha, context, state, description, url } => {
                let url = url.as_deref();
                let wanted = StatusToSet { sha, context, state: *state, description, url };
                shared_requests::set_status(api, &wanted, &[]).await
            }
            WriteBack::Rerun { run, whole_workflow, attempt } => {
                let wanted =
                    RerunRequest { run, whole_workflow: *whole_workflow, attempt: *attempt };
                let path = |_: &str, job: &str| {
                    ["actions", "jobs", job, "rerun"].map(str::to_owned).to_vec()
                };
                shared_requests::rerun(api, &wanted, path).await
            }
            WriteBack::ReleaseNote { tag, title, body } => {
                let mut path = vec!["git", "ref", "tags"];
                path.extend(tag.split('/'));
                let tag_response = api.get(&path, &[]).await?;
                shared_requests::release(api, &marker, tag, title, body, tag_response).await
            }
            WriteBack::DeploymentApproval { run, environment, comment } => {
                self.approve_deployment(&marker, run, environment, comment).await
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
        branch_rights::push_rights(&self.api, branch).await
    }

    async fn branch_rules(&self, branch: &str) -> Result<Vec<String>, ForgeError> {
        facts::github_branch_rules(&self.api, branch).await
    }

    async fn permission(&self, actor: &str) -> Result<Rights, ForgeError> {
        shared_requests::rights(
            &self.api,
            actor,
            shared_requests::get_permission(&self.api, actor).await?,
        )
    }

    async fn team_members(&self, team: &str) -> Result<TeamMembers, ForgeError> {
        let path = ["orgs", &self.owner, "teams", team, "members"];
        let right = "the scope `read:org`, or the permission to read members of the organization";
        shared_requests::team_members(&self.api, &path, right).await
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
        facts::github(&self.api).await.map(Some)
    }

    async fn labels(&self) -> Result<Option<Vec<String>>, ForgeError> {
        shared_requests::labels(&self.api).await
    }

    async fn checks_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
        let found = checks::since(&self.api, Listing::Github, cursor).await;
        // An Enterprise Server without Actions has no such list.
        let is_refused = matches!(found, Err(ForgeError::Refused(_)));
        if is_refused
            && self.api.get(&["actions", "runs"], &[("per_page", "1")]).await?.is_missing()
        {
            return Ok((Vec::new(), cursor.map(str::to_owned)));
        }
        found
    }

    async fn activity_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<PolledEvent>, Option<String>), ForgeError> {
        github_activity::since(&self.api, cursor).await
    }

    async fn label_history(&self, number: u64) -> Result<Option<Vec<LabelEntry>>, ForgeError> {
        github_labels::history(&self.api, number).await.map(Some)
    }

    async fn checks_at(&self, sha: &str) -> Result<Vec<CheckRun>, ForgeError> {
        checks::at(&self.api, sha).await
    }
}
