//! The YAML editor: validation, a diff of what would change, and apply. Only for scope admin, as in the API.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::Requirement;
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{API_VERSION, AnyObject};
use bailiwick_server::{ApiError, ApplyAnswer, ApplyRequest, DiffAnswer, Session};
use hyper::StatusCode;
use serde::Deserialize;

use super::yaml::{declared, documents};
use super::{MAX_NAME, api_path, kind_of, layout, may_administer, object_path, unknown_kind, word};
use crate::change::{bad_request, change};
use crate::layout::{Layout, html};
use crate::site::{Site, query};
use crate::text::{encoded, line, visible};

#[derive(Template)]
#[template(path = "fleet/editor.html")]
struct EditorPage {
    layout: Layout,
    text: String,
    can_apply: bool,
    opened: Option<OpenedObject>,
    error: Option<String>,
    /// Where the stored object can be edited, if it has changed since it was opened.
    stored: Option<String>,
    /// What would change; none before it was asked for.
    diff: Option<Vec<DiffView>>,
    applied: Option<Vec<AppliedLine>>,
}

/// The object that was opened, as the form names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OpenedObject {
    /// The plural of its kind.
    kind: String,
    namespace: String,
    name: String,
    /// Its version at that time.
    version: u64,
    /// The digest of what was declared at that time.
    declared: String,
}

impl OpenedObject {
    fn new(object: &AnyObject) -> Self {
        Self {
            kind: object.kind.plural().to_owned(),
            namespace: object.metadata.namespace.clone(),
            name: object.metadata.name.clone(),
            version: object.metadata.resource_version,
            declared: Sha256Hex::of(declared(object)).to_string(),
        }
    }

    fn is(&self, object: &AnyObject) -> bool {
        let Self { kind, namespace, name, .. } = self;
        let metadata = &object.metadata;
        (kind.as_str(), namespace, name)
            == (object.kind.plural(), &metadata.namespace, &metadata.name)
    }

    fn address(&self, base: &str) -> String {
        let [kind, namespace, name] =
            [&self.kind, &self.namespace, &self.name].map(|text| encoded(text));
        format!("{base}/fleet/edit?kind={kind}&namespace={namespace}&name={name}")
    }

    /// What a change requires: that nobody has changed the object since. What the control plane has written into its
    /// status does not count.
    async fn requirement(&self, site: &Site, session: &Session) -> Result<Requirement, ApiError> {
        let kind = kind_of(&self.kind).ok_or_else(|| unknown_kind(&self.kind))?;
        let path = api_path(&self.namespace, kind, &self.name);
        let resource_version = match site.api.get::<AnyObject>(session, &path).await {
            Ok(found) => match Self::new(&found) {
                now if now.declared == self.declared => now.version,
                _ => self.version,
            },
            // The version that it had is refused.
            Err(error) if error.status == StatusCode::NOT_FOUND => self.version,
            Err(error) => return Err(error),
        };
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        Ok(Requirement { kind, namespace, name, resource_version })
    }
}

struct DiffView {
    title: String,
    lines: Vec<(&'static str, String)>,
}

struct AppliedLine {
    href: String,
    name: String,
    outcome: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EditQuery {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct EditForm {
    text: String,
    action: String,
    /// Of the object that was opened; all of them are missing if none was.
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: u64,
    #[serde(default)]
    declared: String,
}

pub(crate) async fn page(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let query = match query::<EditQuery>(&parts) {
        Ok(query) => query,
        Err(error) => return site.error(Some(&session), &error),
    };
    match start(site, &session, &query).await {
        Ok(draft) => show(site, &session, draft, StatusCode::OK, Shown::default()).await,
        Err(error) => site.error(Some(&session), &error),
    }
}

/// What a person edits.
struct Draft {
    text: String,
    opened: Option<OpenedObject>,
}

/// What the page shows beside the text.
#[derive(Default)]
struct Shown {
    error: Option<String>,
    stored: Option<String>,
    diff: Option<Vec<DiffView>>,
    applied: Option<Vec<AppliedLine>>,
}

impl Shown {
    fn error(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

/// The object that is edited, or the beginning of a new one.
async fn start(site: &Site, session: &Session, query: &EditQuery) -> Result<Draft, ApiError> {
    if query.kind.is_empty() {
        return Ok(Draft { text: String::new(), opened: None });
    }
    let kind = kind_of(&query.kind).ok_or_else(|| unknown_kind(&query.kind))?;
    if query.name.is_empty() {
        let text = format!("apiVersion: {API_VERSION}\nkind: {kind}\nmetadata:\n  name: \nspec:\n");
        return Ok(Draft { text, opened: None });
    }
    let path = api_path(&query.namespace, kind, &query.name);
    let object: AnyObject = site.api.get(session, &path).await?;
    let text = declared(&object);
    if visible(&text) == text {
        return Ok(Draft { text, opened: Some(OpenedObject::new(&object)) });
    }
    let message = "this object has hidden characters, which an editor in a browser cannot show; use `bailiwick edit`";
    Err(ApiError {
        status: StatusCode::CONFLICT,
        code: "HIDDEN_CHARACTERS".to_owned(),
        message: message.to_owned(),
    })
}

async fn show(
    site: &Site,
    session: &Session,
    Draft { text, opened }: Draft,
    status: StatusCode,
    Shown { error, stored, diff, applied }: Shown,
) -> Response {
    match layout(site, session, "Edit").await {
        Ok(layout) => {
            let can_apply = may_administer(session);
            let page = EditorPage { layout, text, can_apply, opened, error, stored, diff, applied };
            html(status, &page)
        }
        Err(error) => site.error(Some(session), &error),
    }
}

pub(crate) async fn submit(site: &Site, request: Request) -> Response {
    let (session, form) = match change::<EditForm>(site, request).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    let EditForm { text, action, kind, namespace, name, version, declared } = form;
    let opened =
        (!kind.is_empty()).then_some(OpenedObject { kind, namespace, name, version, declared });
    // Browsers send line breaks of forms as CR LF.
    let text = text.replace("\r\n", "\n");
    if visible(&text) != text {
        let error = "the text has hidden characters; they are shown as marks, and must be removed";
        let (status, draft) =
            (StatusCode::UNPROCESSABLE_ENTITY, Draft { text: visible(&text), opened });
        return show(site, &session, draft, status, Shown::error(error.to_owned())).await;
    }
    let documents = match documents(&text) {
        Ok(documents) => documents,
        Err(error) => {
            let (status, draft) = (StatusCode::UNPROCESSABLE_ENTITY, Draft { text, opened });
            return show(site, &session, draft, status, Shown::error(visible(&error))).await;
        }
    };
    let done = perform(site, &session, &action, documents, opened.as_ref()).await;
    match done {
        Ok((shown, changed)) => {
            let draft = Draft { text, opened: changed.or(opened) };
            show(site, &session, draft, StatusCode::OK, shown).await
        }
        Err(error) if error.status == StatusCode::FORBIDDEN => site.error(Some(&session), &error),
        Err(error) => {
            let is_conflict = error.status == StatusCode::CONFLICT;
            let address = |opened: &OpenedObject| opened.address(&site.base);
            let stored = opened.as_ref().filter(|_| is_conflict).map(address);
            let shown = Shown { stored, ..Shown::error(visible(&error.message)) };
            show(site, &session, Draft { text, opened }, error.status, shown).await
        }
    }
}

/// Checks or applies the documents. Returns the object that was opened as it is now, if it was applied.
async fn perform(
    site: &Site,
    session: &Session,
    action: &str,
    documents: Vec<serde_json::Value>,
    opened: Option<&OpenedObject>,
) -> Result<(Shown, Option<OpenedObject>), ApiError> {
    let requirements = match opened {
        Some(opened) => vec![opened.requirement(site, session).await?],
        None => Vec::new(),
    };
    let request = ApplyRequest { documents, requirements };
    match action {
        "check" => {
            let diff = Some(check(site, session, &request).await?);
            Ok((Shown { diff, ..Shown::default() }, None))
        }
        "apply" => {
            let answer: ApplyAnswer =
                site.api.post(session, "/api/v1alpha1/apply", &request).await?;
            let is_opened = |object: &&AnyObject| opened.is_some_and(|opened| opened.is(object));
            let changed = answer.items.iter().map(|item| &item.object).find(is_opened);
            let applied = Some(applied_lines(site, &answer));
            Ok((Shown { applied, ..Shown::default() }, changed.map(OpenedObject::new)))
        }
        _ => Err(bad_request("there is no such action")),
    }
}

async fn check(
    site: &Site,
    session: &Session,
    request: &ApplyRequest,
) -> Result<Vec<DiffView>, ApiError> {
    // A dry run makes the same checks as the change itself.
    let _: ApplyAnswer = site.api.post(session, "/api/v1alpha1/apply?dryRun=All", request).await?;
    let answer: DiffAnswer = site.api.post(session, "/api/v1alpha1/diff", request).await?;
    let view = |diff: &bailiwick_fleet::resources::ObjectDiff| DiffView {
        title: line(&format!("{} {}/{}", diff.kind, diff.namespace, diff.name), MAX_NAME),
        lines: diff.diff.lines().map(|text| (class(text), visible(text))).collect(),
    };
    Ok(answer.items.iter().map(view).collect())
}

/// The class of a line of a diff.
fn class(text: &str) -> &'static str {
    match text.as_bytes().first() {
        Some(b'+') => "add",
        Some(b'-') => "del",
        Some(b'@') => "hunk",
        Some(_) | None => "same",
    }
}

fn applied_lines(site: &Site, answer: &ApplyAnswer) -> Vec<AppliedLine> {
    let applied = answer.items.iter().map(|item| AppliedLine {
        href: object_path(&site.base, &item.namespace, item.kind, &item.name),
        name: line(&format!("{} {}/{}", item.kind, item.namespace, item.name), MAX_NAME),
        outcome: word(&item.outcome),
    });
    applied.collect()
}
