//! GitHub's webhooks: the event is named by `X-GitHub-Event`.

use bailiwick_resources::EventSource;
use serde::Deserialize;
use serde_json::Value;

use super::shapes::{
    Comment, Commit, DeliveryHeader, HeadCommit, Issue, Label, PullRequest, PullRequestRef, User,
    Workflow, WorkflowJob, WorkflowRun, changed, is_nothing, non_empty,
};
use super::{Delivery, ParsedDelivery, WireError, begun, shape};
use crate::triggers::event::{Association, SourceEvent};
use crate::triggers::labels::{LabelChange, label_uid};

/// GitHub names at most this many commits of a push: there may be more.
const MAX_COMMITS: usize = 2048;

#[derive(Deserialize)]
struct Push {
    #[serde(rename = "ref")]
    reference: String,
    before: String,
    after: String,
    /// A list of pushes does not have them.
    #[serde(default)]
    commits: Option<Vec<Commit>>,
    #[serde(default)]
    head_commit: Option<HeadCommit>,
}

#[derive(Deserialize)]
struct Create {
    #[serde(rename = "ref")]
    reference: String,
    ref_type: String,
}

#[derive(Deserialize)]
struct Issues {
    issue: Issue,
    #[serde(default)]
    label: Option<Label>,
    /// The entry of the history, if it was looked up.
    #[serde(default)]
    label_entry: Option<u64>,
}

#[derive(Deserialize)]
struct PullRequests {
    pull_request: PullRequest,
    #[serde(default)]
    label: Option<Label>,
    /// The entry of the history, if it was looked up.
    #[serde(default)]
    label_entry: Option<u64>,
}

#[derive(Deserialize)]
struct IssueComment {
    issue: Issue,
    comment: Comment,
}

#[derive(Deserialize)]
struct ReviewComment {
    pull_request: PullRequest,
    comment: Comment,
}

#[derive(Deserialize)]
struct Review {
    pull_request: PullRequest,
    review: ReviewBody,
}

#[derive(Deserialize)]
struct ReviewBody {
    #[serde(default)]
    state: Option<String>,
    #[serde(flatten)]
    comment: Comment,
}

#[derive(Deserialize)]
struct CheckRuns {
    check_run: CheckRun,
}

#[derive(Deserialize)]
struct CheckRun {
    #[serde(default)]
    id: Option<u64>,
    name: String,
    head_sha: String,
    #[serde(default)]
    conclusion: Option<String>,
    #[serde(default)]
    check_suite: Option<SuiteRef>,
    #[serde(default)]
    pull_requests: Option<Vec<PullRequestRef>>,
}

#[derive(Deserialize)]
struct SuiteRef {
    #[serde(default)]
    head_branch: Option<String>,
}

#[derive(Deserialize)]
struct CheckSuites {
    check_suite: CheckSuite,
}

#[derive(Deserialize)]
struct CheckSuite {
    #[serde(default)]
    head_branch: Option<String>,
    head_sha: String,
    #[serde(default)]
    conclusion: Option<String>,
    #[serde(default)]
    pull_requests: Option<Vec<PullRequestRef>>,
}

#[derive(Deserialize)]
struct WorkflowRuns {
    workflow_run: WorkflowRun,
    #[serde(default)]
    workflow: Option<Workflow>,
}

#[derive(Deserialize)]
struct WorkflowJobs {
    workflow_job: WorkflowJob,
    /// Added by a poll: a job alone does not name the repository of its commit.
    #[serde(default)]
    workflow_run: Option<WorkflowRun>,
}

#[derive(Deserialize)]
struct Status {
    sha: String,
    state: String,
    context: String,
    #[serde(default)]
    branches: Vec<StatusBranch>,
}

#[derive(Deserialize)]
struct StatusBranch {
    name: String,
}

#[derive(Deserialize)]
struct RepositoryDispatch {
    #[serde(default)]
    branch: Option<String>,
}

#[derive(Deserialize)]
struct Pushed {
    #[serde(default)]
    pusher: Option<Pusher>,
    #[serde(default)]
    sender: Option<User>,
}

#[derive(Deserialize)]
struct Pusher {
    name: String,
}

/// Reads one delivery.
pub(super) fn read(delivery: &Delivery<'_>, value: &Value) -> Result<ParsedDelivery, WireError> {
    let common: DeliveryHeader = shape(delivery, value)?;
    let mut event = begun(delivery, &common.repository.full_name);
    event.take_common(&common);
    let source = fill(&mut event, delivery, value)?;
    Ok(ParsedDelivery { event, source })
}

fn fill(
    event: &mut SourceEvent,
    delivery: &Delivery<'_>,
    value: &Value,
) -> Result<Option<EventSource>, WireError> {
    let action = event.action.clone().unwrap_or_default();
    let source = match delivery.event {
        "push" => push(event, &shape(delivery, value)?, shape(delivery, value)?),
        "create" => create(event, &shape(delivery, value)?),
        "issues" => {
            let Issues { issue, label, label_entry } = shape(delivery, value)?;
            let is_pull_request = issue.pull_request.is_some();
            event.take_issue(issue, is_pull_request);
            event.take_issue_uid();
            labelled(event, &action, label, label_entry)
        }
        "pull_request" | "pull_request_target" => {
            let PullRequests { pull_request, label, label_entry } = shape(delivery, value)?;
            event.take_pull_request(pull_request);
            event.take_head_uid();
            labelled(event, &action, label, label_entry)
        }
        "issue_comment" => {
            let IssueComment { issue, comment } = shape(delivery, value)?;
            let is_pull_request = issue.pull_request.is_some();
            event.take_issue(issue, is_pull_request);
            event.take_comment("comment", comment);
            // The one who edits or deletes a comment need not be its author.
            (action == "created").then_some(if is_pull_request {
                EventSource::PrComment
            } else {
                EventSource::IssueComment
            })
        }
        "pull_request_review_comment" => {
            let ReviewComment { pull_request, comment } = shape(delivery, value)?;
            event.take_pull_request(pull_request);
            event.take_comment("review-comment", comment);
            (action == "created").then_some(EventSource::PrComment)
        }
        "pull_request_review" => {
            let Review { pull_request, review } = shape(delivery, value)?;
            event.take_pull_request(pull_request);
            event.take_comment("review", review.comment);
            event.conclusion = non_empty(review.state);
            (action == "submitted").then_some(EventSource::PrComment)
        }
        "check_run" => {
            let CheckRuns { check_run } = shape(delivery, value)?;
            let branch = check_run.check_suite.and_then(|suite| suite.head_branch);
            check(event, branch, check_run.head_sha, check_run.pull_requests);
            event.check = Some(check_run.name);
            // A check that is a job of a workflow has the job's id.
            event.job_id = check_run.id.map(|id| id.to_string());
            event.conclusion = non_empty(check_run.conclusion);
            Some(EventSource::Ci)
        }
        "check_suite" => {
            let CheckSuites { check_suite } = shape(delivery, value)?;
            let (branch, sha) = (check_suite.head_branch, check_suite.head_sha);
            check(event, branch, sha, check_suite.pull_requests);
            // The name of its app is left out: it would look like that of a job.
            event.conclusion = non_empty(check_suite.conclusion);
            Some(EventSource::Ci)
        }
        "workflow_run" => {
            let WorkflowRuns { workflow_run, workflow } = shape(delivery, value)?;
            event.take_workflow_run(workflow_run);
            let named = workflow.and_then(|workflow| workflow.name);
            event.workflow = event.workflow.take().or(named);
            Some(EventSource::Ci)
        }
        "workflow_job" => {
            let WorkflowJobs { workflow_job, workflow_run } = shape(delivery, value)?;
            workflow_run.into_iter().for_each(|run| event.take_workflow_run(run));
            event.take_workflow_job(workflow_job);
            Some(EventSource::Ci)
        }
        "status" => {
            let status: Status = shape(delivery, value)?;
            // Those of the repository's own branches that have the commit: a fork's is on none of them.
            event.branch = status.branches.into_iter().next().map(|branch| branch.name);
            event.head_repository = event.branch.as_ref().map(|_| event.repository.clone());
            event.check = Some(status.context);
            event.sha = Some(status.sha);
            event.conclusion = Some(status.state);
            Some(EventSource::Ci)
        }
        "ping" => return Err(WireError::Test),
        "repository_dispatch" => {
            let dispatch: RepositoryDispatch = shape(delivery, value)?;
            event.branch = dispatch.branch;
            event.association = Association::Writer;
            Some(EventSource::RepositoryDispatch)
        }
        // Stored as a webhook: rules can still read its payload.
        _ => None,
    };
    Ok(source)
}

fn push(event: &mut SourceEvent, push: &Push, pushed: Pushed) -> Option<EventSource> {
    event.take_reference(&push.reference);
    event.actor = pushed
        .sender
        .map(|sender| sender.login)
        .or_else(|| pushed.pusher.map(|pusher| pusher.name));
    if is_nothing(&push.after) {
        event.action = Some("deleted".to_owned());
        return None;
    }
    // The id of an annotated tag is not that of its commit: unless that is sent, it is looked up.
    event.sha = match event.tag {
        Some(_) => push.head_commit.as_ref().map(|commit| commit.id.clone()),
        None => Some(push.after.clone()),
    };
    event.base_sha = (!is_nothing(&push.before)).then(|| push.before.clone());
    let commits = push.commits.as_deref().filter(|commits| commits.len() < MAX_COMMITS);
    event.changed_paths = commits.filter(|_| event.base_sha.is_some()).and_then(changed);
    Some(if event.tag.is_some() { EventSource::Tag } else { EventSource::Push })
}

/// GitHub does not send the commit of a new tag: it must be looked up before anything starts.
fn create(event: &mut SourceEvent, create: &Create) -> Option<EventSource> {
    let tag = create.ref_type == "tag";
    let kind = if tag { "tags" } else { "heads" };
    event.take_reference(&format!("refs/{kind}/{}", create.reference));
    tag.then_some(EventSource::Tag)
}

/// A removed label is not a label event. A webhook does not contain its entry in the history.
fn labelled(
    event: &mut SourceEvent,
    action: &str,
    label: Option<Label>,
    entry: Option<u64>,
) -> Option<EventSource> {
    let label = label.filter(|_| matches!(action, "labeled" | "unlabeled"))?;
    event.labels = vec![label.name];
    if action != "labeled" {
        return None;
    }
    match (entry, event.issue.or(event.pull_request)) {
        (Some(entry), Some(number)) => event.uid = label_uid(&event.repository, number, entry),
        (Some(_), None) | (None, _) => event.label_change = LabelChange::EntryUnknown,
    }
    Some(EventSource::Label)
}

/// A check names its branch, but not the repository: that of a fork may have any name. The origin of its commit is
/// looked up, unless it is the head of a pull request that names it.
fn check(
    event: &mut SourceEvent,
    branch: Option<String>,
    sha: String,
    pull_requests: Option<Vec<PullRequestRef>>,
) {
    let mut named = pull_requests.unwrap_or_default();
    named.retain(|one| one.head.as_ref().and_then(|head| head.sha.as_ref()) == Some(&sha));
    event.branch = branch;
    event.sha = Some(sha);
    event.take_pull_requests(Some(named));
}
