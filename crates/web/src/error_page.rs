//! The page that says what went wrong, and the way out.

use askama::Template;
use axum::response::Response;
use bailiwick_server::{ApiError, Session};
use hyper::StatusCode;

use crate::layout::{Layout, html};
use crate::text::visible;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    layout: Layout,
    message: String,
}

pub(crate) fn error_page(base: &str, session: Option<&Session>, error: &ApiError) -> Response {
    let title = match error.status {
        StatusCode::BAD_REQUEST => "Not understood",
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not permitted",
        StatusCode::CONFLICT => "Not possible now",
        _ => "Something went wrong",
    };
    let layout = Layout::new(base, title, session);
    html(error.status, &ErrorPage { layout, message: visible(&error.message) })
}

/// A request that no page of this server sent.
pub(crate) fn foreign_request(base: &str) -> Response {
    let message = "This request does not come from a page of this server, so nothing was changed.";
    let (status, code) = (StatusCode::FORBIDDEN, "ORIGIN_DENIED".to_owned());
    error_page(base, None, &ApiError { status, code, message: message.to_owned() })
}
