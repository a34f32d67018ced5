//! A change that a person makes with a form: sent by an own page, with a session, and complete.

use axum::extract::{Form, FromRequest as _, Request};
use axum::response::Response;
use bailiwick_server::{ApiError, Session, is_same_origin};
use hyper::StatusCode;
use serde::de::DeserializeOwned;

use crate::error_page::foreign_request;
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

/// A request that no page of this server offers.
pub(crate) fn bad_request(message: &str) -> ApiError {
    ApiError {
        status: StatusCode::BAD_REQUEST,
        code: "BAD_REQUEST".to_owned(),
        message: message.to_owned(),
    }
}
