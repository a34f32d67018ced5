//! The saved filters of the list of runs: links, and the forms that save and delete one.

use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::SavedFilter;
use bailiwick_server::{ApiError, SaveFilterRequest, SavedFilters, Session};
use serde::Deserialize;

use crate::change::{bad_request, change};
use crate::layout::see_other;
use crate::site::Site;
use crate::text::{encoded, line};

const FILTERS: &str = "/api/v1alpha1/saved-filters";
const MAX_NAME: usize = 64;

/// A saved filter as the page shows it.
pub(crate) struct Saved {
    pub(crate) name: String,
    /// As it is in the API.
    pub(crate) raw_name: String,
    pub(crate) href: String,
    pub(crate) is_current: bool,
}

/// The filters of the person; the current one is that with this query.
pub(crate) async fn read(
    site: &Site,
    session: &Session,
    current: &str,
) -> Result<Vec<Saved>, ApiError> {
    let filters = site.api.get::<SavedFilters>(session, FILTERS).await?;
    let saved = |filter: SavedFilter| Saved {
        name: line(&filter.name, MAX_NAME),
        href: format!("{}/runs?{}", site.base, filter.query),
        is_current: filter.query == current,
        raw_name: filter.name,
    };
    Ok(filters.items.into_iter().map(saved).collect())
}

#[derive(Debug, Deserialize)]
struct FilterForm {
    action: String,
    name: String,
    /// The query of the page that the form was on.
    #[serde(default)]
    query: String,
}

pub(crate) async fn submit(site: &Site, request: Request) -> Response {
    let (session, form) = match change::<FilterForm>(site, request).await {
        Ok(sent) => sent,
        Err(response) => return response,
    };
    let done = match form.action.as_str() {
        "save" => {
            let body = SaveFilterRequest { name: form.name, query: form.query.clone() };
            site.api.post::<SavedFilter>(&session, FILTERS, &body).await
        }
        "delete" => {
            let path = format!("{FILTERS}/{}", encoded(&form.name));
            site.api.delete::<SavedFilter>(&session, &path).await
        }
        _ => Err(bad_request("there is no such action on a saved filter")),
    };
    match done {
        // The query is that of the list, which accepts only its own parameters.
        Ok(_) if form.query.is_empty() => see_other(&format!("{}/runs", site.base)),
        Ok(_) => see_other(&format!("{}/runs?{}", site.base, form.query)),
        Err(error) => site.error(Some(&session), &error),
    }
}
