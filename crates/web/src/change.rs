//! A change that a person makes with a form: sent by an own page, with a session, and complete.

use axum::extract::{Form, FromRequest as _, Request};
use axum::response::Response;
use bailiwick_server::{ApiError, Session, is_same_origin};
use hyper::StatusCode;
use serde::de::DeserializeOwned;

use crate::error_page::foreign_request;
use crate::layout::see_other;
use crate::site::Site;

/// The session and the form of a change, or the response that says why nothing was changed.
pub(crate) async fn change<F: DeserializeOwned>(
    site: &Site,
    request: Request,
) -> Result<(Session, F), Response> {
    let (parts, body) = request.into_parts();
    if !is_same_origin(&parts.headers) {
        return Err(foreign_request(&site.base));
    }
    let session = site.require_session(&parts).await?;
    match Form::<F>::from_request(Request::from_parts(parts, body), &()).await {
        Ok(Form(form)) => Ok((session, form)),
        Err(_) => {
            let error = bad_request("the form is incomplete or too long");
            Err(site.error(Some(&session), &error))
        }
    }
}

/// Makes a change that a person asks for with a form, and leads to the page that shows what came of it.
pub(crate) async fn change_and_show<F: DeserializeOwned>(
    site: &Site,
    request: Request,
    perform: impl AsyncFnOnce(&Session, F) -> Result<String, ApiError>,
) -> Response {
    let (session, form) = match change::<F>(site, request).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    match perform(&session, form).await {
        Ok(page) => see_other(&page),
        Err(error) => site.error(Some(&session), &error),
    }
}

/// A request that no page of this server offers.
pub(crate) fn bad_request(message: &str) -> ApiError {
    ApiError {
        status: StatusCode::BAD_REQUEST,
        code: "BAD_REQUEST".to_owned(),
        message: message.to_owned(),
    }
}
