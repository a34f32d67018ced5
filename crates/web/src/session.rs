//! The session of a request, by its cookie.

use axum::http::request::Parts;
use axum::response::Response;
use bailiwick_server::{
    Api, CookieRules, SameSite, Session, client_user, cookie, cookie_name, is_loopback, set_cookie,
};
use hyper::HeaderMap;
use hyper::header::SET_COOKIE;

use crate::sign_in_link::SignInLink;

const NAME: &str = "bailiwick_session";

fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    cookie(headers, &cookie_name(NAME, !is_loopback(headers)))
}

/// The session of a request; none if nobody is signed in, or if it is that of another user of this machine.
pub(crate) async fn session(api: &Api, link: &SignInLink, parts: &Parts) -> Option<Session> {
    let cookie = session_cookie(&parts.headers)?;
    if !link.allows_session(cookie, || client_user(parts)) {
        return None;
    }
    api.session(parts, cookie).await
}

/// Sets the cookie of a session, or deletes it.
pub(crate) fn set_session(response: &mut Response, headers: &HeaderMap, session: Option<&str>) {
    let rules = CookieRules {
        same_site: SameSite::Strict,
        secure: !is_loopback(headers),
        max_age: session.is_none().then_some(0),
    };
    if let Some(value) = set_cookie(NAME, session.unwrap_or_default(), rules) {
        response.headers_mut().append(SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    const SECURE_NAME: &str = "__Host-bailiwick_session";

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    #[test]
    fn cookie_is_secure_except_on_loopback() {
        for (host, name) in
            [("127.0.0.1:7840", NAME), ("[::1]:1", NAME), ("ci.example", SECURE_NAME)]
        {
            let headers = headers(&[("host", host)]);
            let mut response = Response::default();
            set_session(&mut response, &headers, Some("bwk_1"));
            let set_cookie = response.headers()[SET_COOKIE].to_str().unwrap().to_owned();
            assert!(
                set_cookie.starts_with(&format!("{name}=bwk_1; Path=/; HttpOnly; SameSite=Strict"))
            );
            assert_eq!(set_cookie.contains("Secure"), name == SECURE_NAME, "{set_cookie}");
        }
        let loopback = [("host", "localhost"), ("cookie", "a=1; bailiwick_session=x")];
        assert_eq!(session_cookie(&headers(&loopback)), Some("x"));
        let remote = [("host", "ci.example"), ("cookie", "a=1; bailiwick_session=x")];
        assert_eq!(
            session_cookie(&headers(&remote)),
            None,
            "outside of loopback only the secure cookie counts"
        );
    }
}
