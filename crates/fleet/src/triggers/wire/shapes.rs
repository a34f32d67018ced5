//! The shapes that GitHub and Gitea have in common. Fields that are not needed are not read.

use bailiwick_model::Sha256Hex;
use serde::Deserialize;

use crate::triggers::event::{Association, SourceEvent};

/// An account.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    pub(super) login: String,
}

/// A repository.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Repo {
    pub(super) full_name: String,
    #[serde(default)]
    pub(super) owner: Option<User>,
}

/// The common fields of all deliveries.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct DeliveryHeader {
    pub(super) repository: Repo,
    #[serde(default)]
    pub(super) sender: Option<User>,
    #[serde(default)]
    pub(super) action: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Label {
    pub(super) name: String,
}

/// One side of a pull request.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Side {
    #[serde(rename = "ref")]
    pub(super) reference: String,
    #[serde(default)]
    pub(super) sha: Option<String>,
    /// Null when the fork is gone.
    #[serde(default)]
    pub(super) repo: Option<Repo>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct PullRequest {
    pub(super) number: u64,
    #[serde(default)]
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) user: Option<User>,
    #[serde(default)]
    pub(super) labels: Option<Vec<Label>>,
    #[serde(default)]
    pub(super) head: Option<Side>,
    #[serde(default)]
    pub(super) base: Option<Side>,
    #[serde(default)]
    pub(super) author_association: Option<String>,
}

/// An issue, or a pull request seen as one.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Issue {
    pub(super) number: u64,
    #[serde(default)]
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) user: Option<User>,
    #[serde(default)]
    pub(super) labels: Option<Vec<Label>>,
    #[serde(default)]
    pub(super) pull_request: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) author_association: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Comment {
    #[serde(default)]
    pub(super) id: Option<u64>,
    #[serde(default)]
    pub(super) updated_at: Option<String>,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) user: Option<User>,
    #[serde(default)]
    pub(super) author_association: Option<String>,
}

/// The last commit of a push.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct HeadCommit {
    pub(super) id: String,
}

/// A commit of a push.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Commit {
    #[serde(default)]
    pub(super) added: Option<Vec<String>>,
    #[serde(default)]
    pub(super) removed: Option<Vec<String>>,
    #[serde(default)]
    pub(super) modified: Option<Vec<String>>,
}

/// A step of a job.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Step {
    pub(super) name: String,
    #[serde(default)]
    pub(super) conclusion: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct WorkflowRun {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) head_branch: Option<String>,
    pub(super) head_sha: String,
    #[serde(default)]
    pub(super) conclusion: Option<String>,
    #[serde(default)]
    pub(super) head_repository: Option<Repo>,
    #[serde(default)]
    pub(super) actor: Option<User>,
    #[serde(default)]
    pub(super) pull_requests: Option<Vec<PullRequestRef>>,
}

/// A pull request as checks name it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct PullRequestRef {
    pub(super) number: u64,
    #[serde(default)]
    pub(super) head: Option<SideRef>,
    #[serde(default)]
    pub(super) base: Option<SideRef>,
}

/// One side of it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct SideRef {
    #[serde(default)]
    pub(super) sha: Option<String>,
    #[serde(default)]
    pub(super) repo: Option<RepoRef>,
}

/// A repository as checks name it: by its address alone.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RepoRef {
    #[serde(default)]
    pub(super) url: Option<String>,
}

impl RepoRef {
    /// Owner and name, from `…/repos/owner/name`.
    fn full_name(&self) -> Option<String> {
        let (_, rest) = self.url.as_deref()?.rsplit_once("/repos/")?;
        (rest.split('/').count() == 2).then(|| rest.to_owned())
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct WorkflowJob {
    pub(super) id: u64,
    pub(super) name: String,
    #[serde(default)]
    pub(super) workflow_name: Option<String>,
    #[serde(default)]
    pub(super) head_branch: Option<String>,
    pub(super) head_sha: String,
    #[serde(default)]
    pub(super) conclusion: Option<String>,
    #[serde(default)]
    pub(super) steps: Option<Vec<Step>>,
}

/// A workflow alone.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Workflow {
    #[serde(default)]
    pub(super) name: Option<String>,
}

/// A text that is not empty.
pub(super) fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

fn names(labels: Option<Vec<Label>>) -> Vec<String> {
    labels.unwrap_or_default().into_iter().map(|label| label.name).collect()
}

/// The association for GitHub's word. Members of the organization and collaborators may have read access only: for
/// them, the forge must be asked.
pub(super) fn association(word: Option<&str>) -> Association {
    match word {
        Some("OWNER") => Association::Writer,
        Some("MEMBER" | "COLLABORATOR") | None => Association::Unknown,
        Some(_) => Association::Stranger,
    }
}

impl SourceEvent {
    /// Sets the actor, repository and time.
    pub(super) fn take_common(&mut self, common: &DeliveryHeader) {
        self.action.clone_from(&common.action);
        self.actor = common.sender.as_ref().map(|user| user.login.clone());
        self.trust_owner(&common.repository);
    }

    /// The one who owns the repository may write to it.
    pub(super) fn trust_owner(&mut self, repository: &Repo) {
        let owner = repository.owner.as_ref().map(|owner| owner.login.as_str());
        if owner.is_some() && owner == self.actor.as_deref() {
            self.association = Association::Writer;
        }
    }

    /// Sets the association of an author with the repository, if the actor is the author.
    pub(super) fn take_author(&mut self, user: Option<&User>, word: Option<&str>) {
        let actor = self.actor.as_deref();
        let is_actor = user.is_some_and(|user| Some(user.login.as_str()) == actor);
        if is_actor && self.association == Association::Unknown {
            self.association = association(word);
        }
    }

    /// Sets the pull request.
    pub(super) fn take_pull_request(&mut self, pull_request: PullRequest) {
        let PullRequest { number, title, body, user, labels, head, base, author_association } =
            pull_request;
        self.take_author(user.as_ref(), author_association.as_deref());
        self.pull_request = Some(number);
        self.title = non_empty(title);
        self.body = non_empty(body);
        self.labels = names(labels);
        self.base_sha = base.and_then(|base| base.sha);
        if let Some(head) = head {
            self.sha = head.sha;
            self.branch = Some(head.reference);
            self.head_repository = head.repo.map(|repo| repo.full_name);
        }
    }

    /// Sets the issue; `is_pull_request` says what it really is.
    pub(super) fn take_issue(&mut self, issue: Issue, is_pull_request: bool) {
        let Issue { number, title, body, user, labels, pull_request: _, author_association } =
            issue;
        self.take_author(user.as_ref(), author_association.as_deref());
        if is_pull_request {
            self.pull_request = Some(number);
        } else {
            self.issue = Some(number);
        }
        self.title = non_empty(title);
        self.body = non_empty(body);
        self.labels = names(labels);
    }

    /// An issue is opened once.
    pub(super) fn take_issue_uid(&mut self) {
        if let (Some("opened"), Some(number)) = (self.action.as_deref(), self.issue) {
            self.uid = format!("{}/issue/{number}/opened", self.repository.to_lowercase());
        }
    }

    /// A pull request that is opened right after its push is reported as opened and as synchronized: one head is one
    /// event.
    pub(super) fn take_head_uid(&mut self) {
        let is_new_head =
            matches!(self.action.as_deref(), Some("opened" | "synchronize" | "synchronized"));
        if let (true, Some(number), Some(sha)) = (is_new_head, self.pull_request, &self.sha) {
            self.uid = format!("{}/pull/{number}/head/{sha}", self.repository.to_lowercase());
        }
    }

    /// Gitea does not send the ID of a review: the author, verdict and commit identify it.
    pub(super) fn take_review_uid(&mut self, verdict: &str) {
        if let (Some(number), Some(sha), Some(actor)) = (self.pull_request, &self.sha, &self.actor)
        {
            let text = Sha256Hex::of(self.body.as_deref().unwrap_or_default().trim());
            let (repository, actor) = (self.repository.to_lowercase(), actor.to_lowercase());
            let said = text.prefix(32);
            self.uid = format!("{repository}/pull/{number}/review/{sha}/{actor}/{verdict}/{said}");
        }
    }

    /// Sets the comment: its text is the body, and its author the actor. It is identified by its ID, plus the time
    /// of its change if it was edited.
    pub(super) fn take_comment(&mut self, kind: &str, comment: Comment) {
        if let Some(id) = comment.id {
            let repository = self.repository.to_lowercase();
            let action = self.action.as_deref().unwrap_or_default();
            let changed = comment.updated_at.as_deref().unwrap_or_default();
            self.uid = match action {
                "created" | "submitted" => format!("{repository}/{kind}/{id}"),
                _ => format!("{repository}/{kind}/{id}/{action}/{changed}"),
            };
        }
        // The association of the thing commented on is not the commenter's.
        if let Some(user) = comment.user {
            if self.actor.as_deref() != Some(user.login.as_str()) {
                self.association = Association::Unknown;
            }
            self.actor = Some(user.login);
        }
        if let Some(word) = &comment.author_association {
            self.association = association(Some(word));
        }
        self.body = non_empty(comment.body);
    }

    /// Sets the run of a workflow.
    pub(super) fn take_workflow_run(&mut self, run: WorkflowRun) {
        self.workflow = non_empty(run.name).or_else(|| non_empty(run.path));
        self.branch = non_empty(run.head_branch);
        self.sha = Some(run.head_sha);
        self.conclusion = non_empty(run.conclusion);
        self.actor = run.actor.map(|actor| actor.login).or_else(|| self.actor.take());
        self.take_pull_requests(run.pull_requests);
        if let Some(head) = run.head_repository {
            self.head_repository = Some(head.full_name);
        }
    }

    /// Sets the pull request of checks.
    pub(super) fn take_pull_requests(&mut self, named: Option<Vec<PullRequestRef>>) {
        let Some(first) = named.unwrap_or_default().into_iter().next() else { return };
        self.pull_request = Some(first.number);
        let head = first.head.and_then(|head| head.repo);
        self.head_repository = head.and_then(|repo| repo.full_name());
        self.base_sha = first.base.and_then(|base| base.sha);
    }

    /// Sets the job. It does not name the repository of its commit.
    pub(super) fn take_workflow_job(&mut self, job: WorkflowJob) {
        let failed = |step: &&Step| {
            step.conclusion.as_deref().is_some_and(|word| !matches!(word, "success" | "skipped"))
        };
        self.step = job
            .steps
            .as_ref()
            .and_then(|steps| steps.iter().find(failed).map(|step| step.name.clone()));
        self.job_id = Some(job.id.to_string());
        self.job = Some(job.name);
        // The run beside it provides what the job itself lacks.
        self.workflow = non_empty(job.workflow_name).or_else(|| self.workflow.take());
        self.branch = non_empty(job.head_branch).or_else(|| self.branch.take());
        self.sha = Some(job.head_sha);
        self.conclusion = non_empty(job.conclusion);
    }

    /// Sets the ref of a push.
    pub(super) fn take_reference(&mut self, reference: &str) {
        self.reference = Some(reference.to_owned());
        self.branch = reference.strip_prefix("refs/heads/").map(str::to_owned);
        self.tag = reference.strip_prefix("refs/tags/").map(str::to_owned);
        // Only who may write to the repository itself can push to it.
        self.head_repository = Some(self.repository.clone());
    }
}

/// Whether a commit id means that there is none.
pub(super) fn is_nothing(sha: &str) -> bool {
    sha.is_empty() || sha.bytes().all(|byte| byte == b'0')
}

/// The paths that commits changed; none if one of the commits does not list them.
pub(super) fn changed(commits: &[Commit]) -> Option<Vec<String>> {
    let mut paths = std::collections::BTreeSet::new();
    for commit in commits {
        let lists = [&commit.added, &commit.removed, &commit.modified];
        if lists.iter().all(|list| list.is_none()) {
            return None;
        }
        for list in lists.into_iter().flatten() {
            paths.extend(list.iter().cloned());
        }
    }
    Some(paths.into_iter().collect())
}
