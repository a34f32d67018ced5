//! Names of the records of workspaces and their links: equal for equal subjects, so that a repetition finds the
//! earlier one.

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchRun, EventSource, LinkSource, Metadata, Object, Ownership, WorkItemKind,
    WorkItemRef, WorkItemSessionLink, WorkItemWorkspaceLink,
};

/// The workspace of a run of the ledger, or of a directory.
pub fn workspace_name(of: &str) -> String {
    format!("aws-{}", Sha256Hex::of(of).prefix(24))
}

/// Why a run's workspace is there.
pub fn made_for(run: &AgentDispatchRun) -> Ownership {
    let refs = &run.source_refs;
    if refs.pull_request.is_some() {
        return Ownership::PrRepair;
    }
    if refs.issue.is_some() {
        return Ownership::Issue;
    }
    match run.source_event.source {
        EventSource::Ci => Ownership::PipelineFailure,
        EventSource::Manual => Ownership::ManualDispatch,
        EventSource::Webhook
        | EventSource::IssueComment
        | EventSource::PrComment
        | EventSource::Label
        | EventSource::Push
        | EventSource::Tag
        | EventSource::Schedule
        | EventSource::RepositoryDispatch => Ownership::Project,
    }
}

/// The work items of a run.
pub fn work_items(run: &AgentDispatchRun) -> Vec<WorkItemRef> {
    let refs = &run.source_refs;
    let item = |kind, id: String| WorkItemRef { kind, repository: run.repository.clone(), id };
    let all = [
        refs.issue.map(|number| item(WorkItemKind::Issue, number.to_string())),
        refs.pull_request.map(|number| item(WorkItemKind::PullRequest, number.to_string())),
        refs.check.clone().map(|check| item(WorkItemKind::CheckFailure, check)),
        refs.work_item.as_deref().map(|named| {
            let (kind, id) = kind_of(named);
            item(kind, id.to_owned())
        }),
    ];
    let mut found: Vec<WorkItemRef> = Vec::new();
    for item in all.into_iter().flatten() {
        // What a run is about is often named twice: directly, and as its work item.
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// The kind and name of a work item such as `issue/7`; anything else is a card.
fn kind_of(named: &str) -> (WorkItemKind, &str) {
    let kinds = [
        ("issue/", WorkItemKind::Issue),
        ("pull-request/", WorkItemKind::PullRequest),
        ("check/", WorkItemKind::CheckFailure),
        ("release/", WorkItemKind::ReleaseTask),
        ("card/", WorkItemKind::Card),
    ];
    let known = kinds.iter().find_map(|(word, kind)| Some((*kind, named.strip_prefix(word)?)));
    known.unwrap_or((WorkItemKind::Card, named))
}

fn link_name(prefix: &str, end: &str, item: &WorkItemRef) -> String {
    let WorkItemRef { kind, repository, id } = item;
    let identity = format!("{end}\n{kind:?}\n{repository}\n{id}");
    format!("{prefix}-{}", Sha256Hex::of(identity).prefix(24))
}

/// The link between a workspace and a work item.
pub fn workspace_link(
    workspace: &Metadata,
    branch: &str,
    item: WorkItemRef,
    (link_source, created_by): (LinkSource, &str),
) -> Object<WorkItemWorkspaceLink> {
    let name = link_name("wwl", &workspace.name, &item);
    let spec = WorkItemWorkspaceLink {
        work_item_ref: item,
        workspace_ref: workspace.name.clone(),
        run_refs: Vec::new(),
        link_source,
        branch_name: Some(branch.to_owned()).filter(|branch| !branch.is_empty()),
        created_by: created_by.to_owned(),
    };
    let metadata = Metadata { namespace: workspace.namespace.clone(), ..Metadata::named(name) };
    Object::new(metadata, spec)
}

/// The link between a session and a work item.
pub fn session_link(
    session: &Metadata,
    branch: &str,
    item: WorkItemRef,
    (link_source, created_by): (LinkSource, &str),
) -> Object<WorkItemSessionLink> {
    let name = link_name("wsl", &session.name, &item);
    let spec = WorkItemSessionLink {
        work_item_ref: item,
        session_ref: session.name.clone(),
        run_refs: Vec::new(),
        link_source,
        branch_name: Some(branch.to_owned()).filter(|branch| !branch.is_empty()),
        created_by: created_by.to_owned(),
    };
    let metadata = Metadata { namespace: session.namespace.clone(), ..Metadata::named(name) };
    Object::new(metadata, spec)
}
