//! The permission review: what a run of a stack would need, which grants are missing, and the YAML that adds them.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{PermissionDecision, PermissionQuestion, PermissionReview};
use bailiwick_resources::{DEFAULT_NAMESPACE, EventSource};
use bailiwick_server::{ApiError, ObjectList, Session};
use hyper::StatusCode;
use serde::Deserialize;

use super::graph::{Node, nodes, picture};
use super::{MAX_LINE, MAX_NAME, layout, may_administer};
use crate::layout::{Layout, html};
use crate::site::{Site, query};
use crate::text::{encoded, line, visible};

#[derive(Template)]
#[template(path = "fleet/permissions.html")]
struct PermissionsPage {
    layout: Layout,
    namespace: String,
    stacks: Vec<Choice>,
    repositories: Vec<Choice>,
    sources: Vec<Choice>,
    actor: String,
    error: Option<String>,
    review: Option<ReviewView>,
}

struct Choice {
    value: String,
    label: String,
    is_chosen: bool,
}

struct ReviewView {
    decision: &'static str,
    class: &'static str,
    svg: String,
    nodes: Vec<Node>,
    runner: String,
    approvals: Vec<String>,
    reasons: Vec<(String, String)>,
    yaml: String,
    /// The editor with this YAML, for those who may apply it.
    editor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReviewQuery {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    stack: String,
    #[serde(default)]
    repository: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    actor: String,
}

pub(crate) async fn page(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let query = match query::<ReviewQuery>(&parts) {
        Ok(query) => query,
        Err(error) => return site.error(Some(&session), &error),
    };
    match permissions_page(site, &session, query).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

fn choices(list: &ObjectList, field: Option<&str>, chosen: &str) -> Vec<Choice> {
    let choice = |object: &bailiwick_resources::AnyObject| {
        let named = field.and_then(|field| object.spec.get(field)).and_then(|name| name.as_str());
        let value = named.unwrap_or(&object.metadata.name).to_owned();
        Choice { label: line(&value, MAX_NAME), is_chosen: value == chosen, value }
    };
    // No forge has a name with hidden characters; such a value could be taken for another one.
    let all = list.items.iter().map(choice);
    all.filter(|choice| visible(&choice.value) == choice.value).collect()
}

async fn permissions_page(
    site: &Site,
    session: &Session,
    mut query: ReviewQuery,
) -> Result<PermissionsPage, ApiError> {
    if query.namespace.is_empty() {
        DEFAULT_NAMESPACE.clone_into(&mut query.namespace);
    }
    let namespace = encoded(&query.namespace);
    let list = |plural: &str| format!("/api/v1alpha1/namespaces/{namespace}/{plural}?limit=500");
    let stacks: ObjectList = site.api.get(session, &list("agentstacks")).await?;
    let repositories: ObjectList = site.api.get(session, &list("repositories")).await?;
    let layout = layout(site, session, "Permissions").await?;
    let is_complete = !query.stack.is_empty() && !query.repository.is_empty();
    let (mut review, mut error) = (None, None);
    if is_complete {
        let actor = Some(query.actor.clone()).filter(|actor| !actor.is_empty());
        let question = PermissionQuestion {
            agent_stack: query.stack.clone(),
            repository: query.repository.clone(),
            reference: None,
            source: EventSource::ALL.into_iter().find(|one| one.as_str() == query.source),
            task_kind: None,
            runner_pool: None,
            actor,
        };
        let path = format!("/api/v1alpha1/permissions/review?namespace={namespace}");
        match site.api.post(session, &path, &question).await {
            Ok(found) => review = Some(view(site, session, &query.stack, &found)),
            Err(found) => error = Some(visible(&found.message)),
        }
    }
    let source = |one: EventSource| Choice {
        value: one.as_str().to_owned(),
        label: one.as_str().to_owned(),
        is_chosen: one.as_str() == query.source
            || (query.source.is_empty() && one == EventSource::Manual),
    };
    Ok(PermissionsPage {
        stacks: choices(&stacks, None, &query.stack),
        repositories: choices(&repositories, Some("fullName"), &query.repository),
        sources: EventSource::ALL.into_iter().map(source).collect(),
        namespace: query.namespace,
        actor: visible(&query.actor),
        error,
        review,
        layout,
    })
}

fn view(site: &Site, session: &Session, stack: &str, review: &PermissionReview) -> ReviewView {
    let mut nodes = nodes(review);
    let (decision, class) = match review.decision {
        PermissionDecision::Allowed => ("would be admitted", "working"),
        PermissionDecision::Denied => ("would be denied", "needs-you"),
        PermissionDecision::RequiresApproval => ("would wait for an approval", "needs-you"),
    };
    let svg = picture(stack, review, &nodes);
    for node in &mut nodes {
        node.name = line(&node.name, MAX_LINE);
    }
    let yaml = visible(&review.yaml_preview.join("---\n"));
    let reason = |one: &bailiwick_fleet::ports::ActionReason| {
        (line(&one.code, MAX_NAME), line(&one.message, MAX_LINE))
    };
    ReviewView {
        decision,
        class,
        svg,
        nodes,
        runner: line(review.runner_identity.as_deref().unwrap_or_default(), MAX_NAME),
        approvals: review.approval_requirements.iter().map(|one| line(one, MAX_LINE)).collect(),
        reasons: review.reasons.iter().map(reason).collect(),
        editor: (!yaml.is_empty() && may_administer(session))
            .then(|| format!("{}/fleet/edit", site.base)),
        yaml,
    }
}
