//! Sign-in in a browser: authorization code with PKCE. The state of a pending sign-in is in a cookie of the browser
//! that started it, so that no other browser can complete it.

use std::sync::Arc;

use axum::response::Response;
use bailiwick_fleet::ports::{Fleet, FleetStore, Write};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue, LOCATION, SET_COOKIE};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Flow, complete, configured, seconds};
use crate::access::random_hex;
use crate::app::App;
use crate::openid::{Cookie, SignIn};
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, text};
use crate::tokens::TokenView;

/// How long a person may take at the provider.
const PENDING_SECONDS: u64 = 600;

/// A sign-in that has started.
#[derive(Serialize, Deserialize)]
struct Pending {
    state: String,
    nonce: String,
    verifier: String,
    next: String,
}

fn random() -> Result<String, Problem> {
    random_hex::<32>().map_err(|error| Problem::unavailable(error.to_string()))
}

/// A path of this server; an address of another host would lead the person astray.
fn local_path(text: &str) -> Option<&str> {
    let local = text.starts_with('/') && !text.starts_with("//") && !text.contains('\\');
    (local && text.len() <= 512 && text.bytes().all(|byte| byte.is_ascii_graphic())).then_some(text)
}

fn redirect(location: &str, cookies: &[Option<HeaderValue>]) -> HandlerResult {
    let mut response = text("text/plain; charset=utf-8", "");
    *response.status_mut() = StatusCode::SEE_OTHER;
    let invalid = || Problem::unavailable("the redirect is not a valid header");
    let location = HeaderValue::from_str(location).map_err(|_| invalid())?;
    response.headers_mut().insert(LOCATION, location);
    add_cookies(&mut response, cookies)?;
    Ok(response)
}

/// A page that loads the next one itself: a browser does not send the cookie with a redirect that another site caused.
fn signed_in(next: &str, cookies: &[Option<HeaderValue>]) -> HandlerResult {
    let next = next.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Signed in</title>\n\
         <meta http-equiv=\"refresh\" content=\"0; url={next}\">\n\
         <p>You are signed in. <a href=\"{next}\">Continue</a></p>\n</html>\n"
    );
    let mut response = text("text/html; charset=utf-8", page);
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    add_cookies(&mut response, cookies)?;
    Ok(response)
}

fn add_cookies(response: &mut Response, cookies: &[Option<HeaderValue>]) -> Result<(), Problem> {
    for cookie in cookies {
        let cookie = cookie.clone().ok_or_else(|| Problem::unavailable("a cookie is invalid"))?;
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(())
}

/// Sends the browser to the provider.
pub(crate) async fn login<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["next"])?;
    let sign_in = configured(app)?;
    let next = request.query.get("next").map_or("/", String::as_str);
    let next = local_path(next)
        .ok_or_else(|| Problem::bad_request("`next` must be a path of this server"))?;
    let pending =
        Pending { state: random()?, nonce: random()?, verifier: random()?, next: next.to_owned() };
    let description = sign_in.provider.description().await?;
    let url = authorization_url(sign_in, &description.authorization_endpoint, &pending)?;
    let cookie = serde_json::to_vec(&pending)
        .map_err(|error| Problem::unavailable(format!("the cookie cannot be written: {error}")))?;
    let cookie = URL_SAFE_NO_PAD.encode(cookie);
    redirect(url.as_str(), &[sign_in.set_cookie(Cookie::Pending, &cookie, PENDING_SECONDS)])
}

fn authorization_url(sign_in: &SignIn, endpoint: &str, pending: &Pending) -> Result<Url, Problem> {
    let invalid = |_| Problem::unavailable("the address of the OpenID provider is invalid");
    let mut url = Url::parse(endpoint).map_err(invalid)?;
    let challenge = ring::digest::digest(&ring::digest::SHA256, pending.verifier.as_bytes());
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &sign_in.settings.client_id)
        .append_pair("redirect_uri", &sign_in.settings.redirect_uri())
        .append_pair("scope", &sign_in.scope())
        .append_pair("state", &pending.state)
        .append_pair("nonce", &pending.nonce)
        .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(challenge))
        .append_pair("code_challenge_method", "S256");
    Ok(url)
}

/// Receives the browser from the provider, and starts the session.
pub(crate) async fn callback<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    let sign_in = configured(app)?;
    let cookie = sign_in.cookie(&request.headers, Cookie::Pending);
    let pending = cookie.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    let pending = pending.and_then(|bytes| serde_json::from_slice::<Pending>(&bytes).ok());
    let (Some(pending), Some(state)) = (pending, request.query.get("state")) else {
        return Err(Problem::unauthorized(
            "no sign-in has started in this browser: open /auth/login",
        ));
    };
    if pending.state != *state {
        return Err(Problem::unauthorized("this is another sign-in's answer: open /auth/login"));
    }
    let description = sign_in.provider.description().await?;
    let issuer = request.query.get("iss");
    let required = description.authorization_response_iss_parameter_supported;
    if issuer.is_none() && required || issuer.is_some_and(|one| *one != sign_in.settings.issuer) {
        return Err(Problem::unauthorized("the answer is of another provider"));
    }
    if request.query.contains_key("error") {
        return Err(Problem::unauthorized("the provider refused the sign-in"));
    }
    let code = request.query.get("code");
    let code =
        code.ok_or_else(|| Problem::bad_request("the answer of the provider has no code"))?;
    let now = seconds(request);
    let claims = sign_in.provider.redeem_code(code, &pending.verifier, &pending.nonce, now).await?;
    let minted = complete(app, request, &claims, Flow::Browser).await?;
    let next = local_path(&pending.next).unwrap_or("/");
    let session =
        sign_in.set_cookie(Cookie::Session, &minted.text, sign_in.settings.lifetime.as_secs());
    signed_in(next, &[session, sign_in.set_cookie(Cookie::Pending, "", 0)])
}

/// Revokes the token of the request, and deletes the cookie.
pub(crate) async fn logout<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let token = request.token.clone().ok_or_else(|| Problem::unauthorized("send a token"))?;
    let mut record = token;
    record.revoked_at = Some(request.now);
    let detail = json!({ "of": record.actor });
    let entry = request.audit("SignedOut", format!("Token/{}", record.id), detail);
    let writes = vec![Write::Token(record.clone()), Write::Audit(entry)];
    app.store.commit(writes, request.now).await?;
    app.open_tokens.end(&record.digest);
    let mut response = crate::request::ok(&TokenView::from(record))?;
    if let Some(sign_in) = &app.sign_in {
        add_cookies(&mut response, &[sign_in.set_cookie(Cookie::Session, "", 0)])?;
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::local_path;

    #[test]
    fn redirects_stay_on_this_server() {
        for path in ["/", "/api/agents/runs?watch=1"] {
            assert_eq!(local_path(path), Some(path));
        }
        for path in
            ["//evil.example", "https://evil.example", "/\\evil.example", "", "x", "/a\r\nb"]
        {
            assert_eq!(local_path(path), None, "{path}");
        }
    }
}
