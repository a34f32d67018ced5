//! The page of an object: conditions with what to do about each, its YAML, and what its kind has besides.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::explanation::{RelatedObjects, explain};
use bailiwick_resources::{AnyObject, Author, Kind, Standing};
use bailiwick_server::{ApiError, Session};
use hyper::StatusCode;

use super::delivery::{DeliveryPanel, Payload};
use super::dispatch::DispatchPanel;
use super::rule::RulePanel;
use super::state::{ObjectState, brief};
use super::yaml::declared;
use super::{MAX_LINE, MAX_NAME, api_path, kind_of, layout, may_administer, unknown_kind};
use crate::clock::now;
use crate::fleet::workspaces::WorkspacePanel;
use crate::layout::{Layout, html};
use crate::site::Site;
use crate::text::{MAX_SHOWN, Time, encoded, line, shortened};

#[derive(Template)]
#[template(path = "fleet/object.html")]
struct ObjectPage {
    layout: Layout,
    kind: Kind,
    kind_href: String,
    /// The address of its actions, without the last part.
    actions: String,
    name: String,
    namespace: String,
    brief: String,
    state: ObjectState,
    summary: String,
    created: Option<Time>,
    generation: u64,
    conditions: Vec<ConditionLine>,
    facts: Vec<(&'static str, Vec<String>)>,
    next: Vec<String>,
    yaml: String,
    yaml_left_out: usize,
    status: String,
    status_left_out: usize,
    editor: Option<String>,
    /// The permission review of a stack.
    review: Option<String>,
    rule: Option<RulePanel>,
    delivery: Option<DeliveryPanel>,
    workspace: Option<WorkspacePanel>,
    dispatch: Option<DispatchPanel>,
}

struct ConditionLine {
    kind: &'static str,
    status: &'static str,
    class: &'static str,
    is_stale: bool,
    says: &'static str,
    reason: &'static str,
    meaning: &'static str,
    message: String,
    advice: &'static str,
}

pub(crate) async fn page(
    site: &Site,
    (namespace, plural, name): (&str, &str, &str),
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    match object_page(site, &session, namespace, plural, name).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

async fn object_page(
    site: &Site,
    session: &Session,
    namespace: &str,
    plural: &str,
    name: &str,
) -> Result<ObjectPage, ApiError> {
    let kind = kind_of(plural).ok_or_else(|| unknown_kind(plural))?;
    let object: AnyObject = site.api.get(session, &api_path(namespace, kind, name)).await?;
    let layout = layout(site, session, line(name, MAX_NAME)).await?;
    let explained = explain(&object, &RelatedObjects::default());
    let conditions = explained.conditions.iter().map(|one| {
        let (status, class) = match one.status {
            Standing::True => ("yes", "working"),
            Standing::False => ("no", "needs-you"),
            Standing::Unknown => ("unknown", "needs-you"),
        };
        ConditionLine {
            kind: one.kind,
            status,
            class,
            is_stale: one.stale,
            says: one.says,
            reason: one.reason,
            meaning: one.meaning,
            message: line(&one.message, MAX_LINE),
            advice: one.advice.unwrap_or_default(),
        }
    });
    let facts = explained
        .facts
        .iter()
        .map(|fact| (fact.title, fact.lines.iter().map(|text| line(text, MAX_LINE)).collect()));
    let (yaml, yaml_left_out) = shortened(&declared(&object), MAX_SHOWN);
    let status = match object.status.is_null() {
        true => String::new(),
        false => serde_json::to_string_pretty(&object.status).unwrap_or_default(),
    };
    let (status, status_left_out) = shortened(&status, MAX_SHOWN);
    let is_editable = kind.author() == Author::People && kind != Kind::Secret;
    let query = format!("kind={plural}&namespace={}&name={}", encoded(namespace), encoded(name));
    let stack = (kind == Kind::AgentStack).then(|| {
        let (namespace, name) = (encoded(namespace), encoded(name));
        format!("{}/fleet/permissions?namespace={namespace}&stack={name}", site.base)
    });
    Ok(ObjectPage {
        kind_href: format!("{}/fleet/kinds/{plural}", site.base),
        actions: format!(
            "{}/fleet/objects/{}/{plural}/{}",
            site.base,
            encoded(namespace),
            encoded(name)
        ),
        name: line(name, MAX_NAME),
        namespace: line(namespace, MAX_NAME),
        brief: brief(&object),
        state: ObjectState::of(&object),
        summary: line(&explained.summary, MAX_LINE),
        created: object.metadata.creation_timestamp.map(|at| Time::new(at, now())),
        generation: object.metadata.generation,
        conditions: conditions.collect(),
        facts: facts.collect(),
        next: explained.next.iter().map(|text| line(text, MAX_LINE)).collect(),
        yaml,
        yaml_left_out,
        status,
        status_left_out,
        editor: (is_editable && may_administer(session))
            .then(|| format!("{}/fleet/edit?{query}", site.base)),
        review: stack,
        rule: RulePanel::new(site, session, &object).await?,
        delivery: DeliveryPanel::new(site, session, &object).await,
        workspace: WorkspacePanel::new(session, &object),
        dispatch: DispatchPanel::new(site, session, &object).await?,
        kind,
        layout,
    })
}
