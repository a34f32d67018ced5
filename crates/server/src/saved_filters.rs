//! The filters of the list of runs that a person has saved: list, save, delete. Each person has their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore, SavedFilter, Write};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, json, ok};
use crate::run_list;

const MAX_FILTERS: usize = 50;
const MAX_NAME: usize = 64;
const MAX_QUERY: usize = 2_000;

/// The filters of a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedFilters {
    /// The filters, by name.
    pub items: Vec<SavedFilter>,
}

/// A filter to save. One with the same name is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SaveFilterRequest {
    /// Its name.
    pub name: String,
    /// The query of `GET /api/v1alpha1/all-runs`, without `limit` and `continue`.
    pub query: String,
}

fn owner(request: &ApiRequest) -> Result<String, Problem> {
    let token = request.token.as_ref().ok_or_else(|| Problem::unauthorized("send a token"))?;
    Ok(token.actor.clone())
}

pub(crate) async fn list<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    ok(&SavedFilters { items: app.store.saved_filters(&owner(request)?).await? })
}

pub(crate) async fn save<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let SaveFilterRequest { name, query } = request.json()?;
    let name = name.trim().to_owned();
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        let message = format!("a name has from 1 to {MAX_NAME} characters, on one line");
        return Err(Problem::invalid_field("name", message));
    }
    check_query(&query)?;
    let owner = owner(request)?;
    let known = app.store.saved_filters(&owner).await?;
    if known.len() >= MAX_FILTERS && !known.iter().any(|filter| filter.name == name) {
        let message = format!("you have {MAX_FILTERS} saved filters already; delete one first");
        return Err(Problem::conflict("TOO_MANY_FILTERS", message));
    }
    let filter = SavedFilter { owner, name, query };
    app.store.commit(vec![Write::SaveFilter(filter.clone())], request.now).await?;
    json(StatusCode::CREATED, &filter)
}

/// Whether a list of runs accepts this query.
fn check_query(query: &str) -> Result<(), Problem> {
    let invalid = |message: String| Problem::invalid_field("query", message);
    if query.is_empty() || query.len() > MAX_QUERY {
        return Err(invalid(format!("a query has from 1 to {MAX_QUERY} bytes")));
    }
    if query.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(invalid("a query is written as in an address".to_owned()));
    }
    let mut pairs = BTreeMap::new();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        if pairs.insert(key.clone().into_owned(), value.into_owned()).is_some() {
            return Err(invalid(format!("`{key}` is there twice")));
        }
    }
    run_list::check_query(&pairs).map_err(|problem| invalid(problem.message))
}

pub(crate) async fn delete<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let (owner, name) = (owner(request)?, request.param("name").to_owned());
    let known = app.store.saved_filters(&owner).await?;
    let Some(filter) = known.into_iter().find(|filter| filter.name == name) else {
        return Err(Problem::not_found(format!("you have no saved filter `{name}`")));
    };
    app.store.commit(vec![Write::DeleteFilter { owner, name }], request.now).await?;
    ok(&filter)
}
