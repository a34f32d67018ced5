//! The sign-in page, the one-time link, and the sign-out.

use std::time::Instant;

use askama::Template;
use axum::extract::Request;
use axum::extract::{Form, FromRequest as _, Query};
use axum::response::{IntoResponse as _, Response};
use bailiwick_server::{PAGES, SignInError, client_user, is_same_origin};
use hyper::{Method, StatusCode};
use serde::Deserialize;

use crate::error_page::foreign_request;
use crate::layout::{Layout, html, see_other};
use crate::session::{session, set_session};
use crate::site::Site;
use crate::text::encoded;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    layout: Layout,
    next: String,
    error: Option<String>,
    /// Where people sign in with the OpenID provider; none if there is none.
    provider: Option<String>,
}

#[derive(Template)]
#[template(path = "welcome.html")]
struct WelcomePage {
    layout: Layout,
    next: String,
}

#[derive(Debug, Default, Deserialize)]
struct Next {
    #[serde(default)]
    next: String,
}

#[derive(Deserialize)]
struct Credentials {
    token: String,
    #[serde(default)]
    next: String,
}

/// A path of these pages; every other address is replaced by the first page.
fn own_path(base: &str, next: &str) -> String {
    let plain = next.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"<>".contains(&byte));
    // The router has removed the base from the path.
    let is_path = next.starts_with('/') && !next.starts_with("//");
    if plain && is_path { format!("{base}{next}") } else { format!("{base}/runs") }
}

/// Where the server starts a sign-in that leads back to the page.
fn provider_path(base: &str, next: &str) -> String {
    let root = base.strip_suffix(PAGES).unwrap_or(base);
    format!("{root}/auth/login?next={}", encoded(&own_path(base, next)))
}

fn sign_in_page(site: &Site, next: String, error: Option<String>) -> Response {
    let status = if error.is_some() { StatusCode::UNAUTHORIZED } else { StatusCode::OK };
    let layout = Layout::new(&site.base, "Sign in", None);
    let provider = site.api.has_provider().then(|| provider_path(&site.base, &next));
    html(status, &SignInPage { layout, next, error, provider })
}

pub(crate) async fn page(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let next = Query::<Next>::try_from_uri(&parts.uri).map(|query| query.0.next);
    let next = next.unwrap_or_default();
    match session(&site.api, &site.link, &parts).await {
        Some(_) => see_other(&own_path(&site.base, &next)),
        None => sign_in_page(site, next, None),
    }
}

pub(crate) async fn submit(site: &Site, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if !is_same_origin(&parts.headers) {
        return foreign_request(&site.base);
    }
    let form =
        Form::<Credentials>::from_request(Request::from_parts(parts.clone(), body), &()).await;
    let Ok(Form(Credentials { token, next })) = form else {
        return sign_in_page(site, String::new(), Some("enter a token".to_owned()));
    };
    match site.api.sign_in(&parts, &token).await {
        Ok(text) => {
            let mut response = see_other(&own_path(&site.base, &next));
            set_session(&mut response, &parts.headers, Some(&text));
            response
        }
        Err(error) => {
            let status = match error {
                SignInError::Token => StatusCode::UNAUTHORIZED,
                SignInError::TooMany => StatusCode::TOO_MANY_REQUESTS,
                SignInError::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            };
            let mut response = sign_in_page(site, next, Some(error.to_string()));
            *response.status_mut() = status;
            response
        }
    }
}

/// Exchanges the secret of the link for the cookie. The page then loads the next one itself: a browser does not send
/// the cookie with a redirect that another site caused.
pub(crate) async fn link(site: &Site, secret: &str, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let next = format!("{}/runs", site.base);
    // Programs that preview a link ask for its head only; that does not use it up.
    if parts.method == Method::HEAD {
        return StatusCode::NO_CONTENT.into_response();
    }
    let refusal = match site.link.take(secret, || client_user(&parts), Instant::now()) {
        Ok(text) => {
            let layout = Layout::new(&site.base, "Signed in", None);
            let mut response = html(StatusCode::OK, &WelcomePage { layout, next });
            set_session(&mut response, &parts.headers, Some(&text));
            return response;
        }
        Err(refusal) => refusal,
    };
    if session(&site.api, &site.link, &parts).await.is_some() {
        return see_other(&next);
    }
    sign_in_page(site, String::new(), Some(refusal.to_string()))
}

pub(crate) async fn sign_out(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if !is_same_origin(&parts.headers) {
        return foreign_request(&site.base);
    }
    if let Some(session) = session(&site.api, &site.link, &parts).await
        && let Err(error) = site.api.sign_out(&parts, &session).await
    {
        return sign_in_page(site, String::new(), Some(error.to_string()));
    }
    let mut response = see_other(&format!("{}/sign-in", site.base));
    set_session(&mut response, &parts.headers, None);
    response
}

#[cfg(test)]
mod tests {
    use super::{own_path, provider_path};

    #[test]
    fn provider_redirects_back_to_the_page() {
        assert_eq!(provider_path("/ui", "/inbox"), "/auth/login?next=%2Fui%2Finbox");
        assert_eq!(provider_path("/a/ui", "//evil"), "/a/auth/login?next=%2Fa%2Fui%2Fruns");
    }

    #[test]
    fn sign_in_does_not_redirect_to_another_site() {
        assert_eq!(own_path("/ui", "/local/a?x=1"), "/ui/local/a?x=1");
        for other in ["//evil.example", "https://evil.example", "", "/a\\b", "/a b", "/\u{e9}"] {
            assert_eq!(own_path("/ui", other), "/ui/runs", "{other}");
        }
    }
}
