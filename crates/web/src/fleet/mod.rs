//! The pages of the fleet: every declared kind, rules and deliveries, permissions, the editor and the audit log.

pub(crate) mod audit;
mod delivery;
pub(crate) mod dispatch;
pub(crate) mod editor;
pub(crate) mod graph;
pub(crate) mod kinds;
pub(crate) mod list;
pub(crate) mod object;
pub(crate) mod permissions;
pub(crate) mod rule;
mod state;
pub(crate) mod trial;
pub(crate) mod workspaces;
mod yaml;

use bailiwick_fleet::ports::TokenScope;
use bailiwick_resources::Kind;
use bailiwick_server::{ApiError, Session};

use crate::layout::{Layout, Section};
use crate::site::Site;
use crate::text::encoded;

const MAX_NAME: usize = 120;
const MAX_LINE: usize = 200;

/// The page of an object.
pub(crate) fn object_path(base: &str, namespace: &str, kind: Kind, name: &str) -> String {
    format!("{base}/fleet/objects/{}/{}/{}", encoded(namespace), kind.plural(), encoded(name))
}

/// An object in the API.
fn api_path(namespace: &str, kind: Kind, name: &str) -> String {
    let plural = kind.plural();
    format!("/api/v1alpha1/namespaces/{}/{plural}/{}", encoded(namespace), encoded(name))
}

/// The frame of a page of the fleet.
async fn layout(
    site: &Site,
    session: &Session,
    title: impl Into<String>,
) -> Result<Layout, ApiError> {
    let mut layout = site.frame(session, title).await?.layout;
    layout.section = Section::Fleet;
    Ok(layout)
}

/// A kind by its plural.
fn kind_of(plural: &str) -> Option<Kind> {
    Kind::ALL.iter().copied().find(|kind| kind.plural() == plural)
}

fn unknown_kind(plural: &str) -> ApiError {
    ApiError {
        status: hyper::StatusCode::NOT_FOUND,
        code: "NOT_FOUND".to_owned(),
        message: format!("there is no kind `{plural}`"),
    }
}

fn may_operate(session: &Session) -> bool {
    session.scope() >= TokenScope::Operator
}

fn may_administer(session: &Session) -> bool {
    session.scope() >= TokenScope::Admin
}

/// A word of the API as it is written in documents.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}
