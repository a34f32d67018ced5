//! The answer to an address that no page has.

use axum::extract::Request;
use axum::response::Response;
use bailiwick_server::{ApiError, PAGES};
use hyper::{Method, StatusCode};

use crate::layout::see_other;
use crate::site::Site;

/// An address that no page has. One with a slash at its end leads to the page without it.
pub(crate) async fn unknown(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let path = parts.uri.path();
    let trimmed = path.trim_end_matches('/');
    if trimmed.len() < path.len() && parts.method == Method::GET {
        // The path is below the base of the pages, or has it, as the router passes it on.
        let below = trimmed.strip_prefix(&site.base).unwrap_or(trimmed);
        let below = below.strip_prefix(PAGES).unwrap_or(below);
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        return see_other(&format!("{}{}{query}", site.base, below));
    }
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let message = "There is no page with this address.".to_owned();
    let (status, code) = (StatusCode::NOT_FOUND, "NOT_FOUND".to_owned());
    site.error(Some(&session), &ApiError { status, code, message })
}
