//! Webhooks of Gitea and Forgejo: `X-Gitea-Event` names the event, and the more specific `X-Gitea-Event-Type` takes
//! precedence. They never contain the association of an author.

use bailiwick_model::Sha256Hex;
use bailiwick_resources::EventSource;
use serde::Deserialize;
use serde_json::Value;

use super::shapes::{
    Comment, Commit, DeliveryHeader, HeadCommit, Issue, Label, PullRequest, Workflow, WorkflowJob,
    WorkflowRun, changed, is_nothing, non_empty,
};
use super::{Delivery, ParsedDelivery, WireError, begun, shape};
use crate::triggers::dedupe::was_polled;
use crate::triggers::event::SourceEvent;
use crate::triggers::labels::{LabelChange, label_uid};

#[derive(Deserialize)]
struct Push {
    #[serde(rename = "ref")]
    reference: String,
    before: String,
    after: String,
    #[serde(default)]
    commits: Option<Vec<Commit>>,
    #[serde(default)]
    total_commits: Option<usize>,
    #[serde(default)]
    head_commit: Option<HeadCommit>,
}

#[derive(Deserialize)]
struct Create {
    #[serde(rename = "ref")]
    reference: String,
    ref_type: String,
    #[serde(default)]
    sha: Option<String>,
}

#[derive(Deserialize)]
struct Issues {
    issue: Issue,
    #[serde(default)]
    label: Option<Label>,
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
    #[serde(default)]
    review: Option<Review>,
}

#[derive(Deserialize)]
struct Review {
    #[serde(default)]
    content: Option<String>,
}

#[derive(Deserialize)]
struct IssueComment {
    issue: Issue,
    comment: Comment,
    #[serde(default)]
    is_pull: bool,
    #[serde(default)]
    pull_request: Option<PullRequest>,
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
}

/// Reads one delivery.
pub(super) fn read(delivery: &Delivery<'_>, value: &Value) -> Result<ParsedDelivery, WireError> {
    let common: DeliveryHeader = shape(delivery, value)?;
    let mut event = begun(delivery, &common.repository.full_name);
    // A redelivery has another id and the same bytes.
    if !was_polled(delivery.id) {
        let digest = Sha256Hex::of(value.to_string());
        event.uid = format!("{}/payload/{}", event.repository.to_lowercase(), digest.prefix(32));
    }
    event.take_common(&common);
    let source = fill(&mut event, delivery, value)?;
    // The actor may be the author of a comment now.
    event.trust_owner(&common.repository);
    Ok(ParsedDelivery { event, source })
}

fn fill(
    event: &mut SourceEvent,
    delivery: &Delivery<'_>,
    value: &Value,
) -> Result<Option<EventSource>, WireError> {
    let action = event.action.clone().unwrap_or_default();
    let source = match delivery.event {
        "push" => return push(event, shape(delivery, value)?),
        "create" => create(event, shape(delivery, value)?),
        "issues" | "issue_label" | "issue_assign" | "issue_milestone" => {
            let Issues { issue, label, label_entry } = shape(delivery, value)?;
            let is_pull_request = issue.pull_request.as_ref().is_some_and(|value| !value.is_null());
            event.take_issue(issue, is_pull_request);
            event.take_issue_uid();
            labelled(event, &action, label, label_entry)
        }
        "pull_request"
        | "pull_request_label"
        | "pull_request_assign"
        | "pull_request_milestone"
        | "pull_request_sync"
        | "pull_request_review_request" => {
            let PullRequests { pull_request, label, label_entry, review: _ } =
                shape(delivery, value)?;
            event.take_pull_request(pull_request);
            event.take_head_uid();
            labelled(event, &action, label, label_entry)
        }
        "issue_comment" | "pull_request_comment" if value.get("comment").is_some() => {
            comment(event, shape(delivery, value)?, &action)
        }
        "pull_request_approved"
        | "pull_request_rejected"
        | "pull_request_comment"
        | "pull_request_review_approved"
        | "pull_request_review_rejected"
        | "pull_request_review_comment" => {
            let PullRequests { pull_request, review, .. } = shape(delivery, value)?;
            event.take_pull_request(pull_request);
            event.body = review.and_then(|review| non_empty(review.content));
            event.take_review_uid(verdict(delivery.event));
            event.conclusion = Some(verdict(delivery.event).to_owned());
            Some(EventSource::PrComment)
        }
        "workflow_run" => {
            let WorkflowRuns { workflow_run, workflow } = shape(delivery, value)?;
            event.take_workflow_run(workflow_run);
            let named = workflow.and_then(|workflow| non_empty(workflow.name));
            event.workflow = named.or_else(|| event.workflow.take());
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
            event.check = Some(status.context);
            event.sha = Some(status.sha);
            event.conclusion = Some(status.state);
            Some(EventSource::Ci)
        }
        // Stored as a webhook: rules can still read its payload.
        _ => None,
    };
    Ok(source)
}

fn push(event: &mut SourceEvent, push: Push) -> Result<Option<EventSource>, WireError> {
    if push.before == push.after {
        return Err(WireError::Test);
    }
    event.take_reference(&push.reference);
    if is_nothing(&push.after) {
        event.action = Some("deleted".to_owned());
        return Ok(None);
    }
    // The id of an annotated tag is not that of its commit: unless that is sent, it is looked up.
    event.sha = match event.tag {
        Some(_) => push.head_commit.map(|commit| commit.id),
        None => Some(push.after),
    };
    event.base_sha = (!is_nothing(&push.before)).then_some(push.before);
    let commits = push.commits.unwrap_or_default();
    let all_named =
        event.base_sha.is_some() && push.total_commits.is_none_or(|total| total <= commits.len());
    event.changed_paths = if all_named { changed(&commits) } else { None };
    Ok(Some(if event.tag.is_some() { EventSource::Tag } else { EventSource::Push }))
}

fn create(event: &mut SourceEvent, create: Create) -> Option<EventSource> {
    let tag = create.ref_type == "tag";
    let kind = if tag { "tags" } else { "heads" };
    let name =
        create.reference.rsplit_once("refs/tags/").map_or(&*create.reference, |(_, tag)| tag);
    event.take_reference(&format!("refs/{kind}/{name}"));
    // The id of an annotated tag is not that of its commit, which is looked up.
    event.sha = create.sha.filter(|sha| !tag && !is_nothing(sha));
    tag.then_some(EventSource::Tag)
}

/// Gitea sends that labels changed and the current set; Forgejo may send the changed label. A removed label is not a
/// label event.
fn labelled(
    event: &mut SourceEvent,
    action: &str,
    label: Option<Label>,
    entry: Option<u64>,
) -> Option<EventSource> {
    if !matches!(action, "label_updated" | "labeled") {
        return None;
    }
    match label {
        Some(label) => event.labels = vec![label.name],
        None => event.label_change = LabelChange::Unknown,
    }
    let number = event.issue.or(event.pull_request);
    if let (Some(entry), Some(number)) = (entry, number) {
        event.uid = label_uid(&event.repository, number, entry);
    }
    Some(EventSource::Label)
}

fn comment(event: &mut SourceEvent, parsed: IssueComment, action: &str) -> Option<EventSource> {
    let IssueComment { issue, comment, is_pull, pull_request } = parsed;
    let is_pull_request = is_pull
        || pull_request.is_some()
        || issue.pull_request.as_ref().is_some_and(|value| !value.is_null());
    match pull_request {
        Some(pull_request) => event.take_pull_request(pull_request),
        None => event.take_issue(issue, is_pull_request),
    }
    event.take_comment("comment", comment);
    let source = if is_pull_request { EventSource::PrComment } else { EventSource::IssueComment };
    (action == "created").then_some(source)
}

fn verdict(event: &str) -> &'static str {
    if event.ends_with("approved") {
        "approved"
    } else if event.ends_with("rejected") {
        "changes_requested"
    } else {
        "commented"
    }
}
