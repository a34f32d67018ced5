//! What browsers send with a request: cookies, and whether a page of this server sent it.

use hyper::HeaderMap;
use hyper::header::{COOKIE, HOST, HeaderName, HeaderValue, ORIGIN};
use reqwest::Url;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a page of this server sent a request that changes something. Browsers always say where it comes from, by
/// one of two headers; if both are there, both must agree.
pub fn is_same_origin(headers: &HeaderMap) -> bool {
    let site = text(headers, &SEC_FETCH_SITE).map(|site| site == "same-origin");
    let origin = headers.contains_key(ORIGIN).then(|| is_own_origin(headers));
    match (site, origin) {
        (Some(site), Some(origin)) => site && origin,
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => false,
    }
}

/// Whether the browser talks to this machine itself, where there is no TLS.
pub fn is_loopback(headers: &HeaderMap) -> bool {
    let host = text(headers, &HOST).unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let address = name.parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn is_own_origin(headers: &HeaderMap) -> bool {
    let origin = text(headers, &ORIGIN).and_then(|origin| Url::parse(origin).ok());
    let (Some(origin), Some(host)) = (origin, text(headers, &HOST)) else { return false };
    let Some(name) = origin.host_str() else { return false };
    // Off loopback the pages are there with TLS only: an origin without it can be somebody on the network.
    let default_port = match origin.scheme() {
        "https" => ":443",
        "http" if is_loopback(headers) => ":80",
        _ => return false,
    };
    let authority = match origin.port() {
        Some(port) => format!("{name}:{port}"),
        None => name.to_owned(),
    };
    authority.eq_ignore_ascii_case(host.strip_suffix(default_port).unwrap_or(host))
}

/// The value of a cookie.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    let mut found = pairs.filter(|(known, _)| known.trim() == name);
    match (found.next(), found.next()) {
        (Some((_, value)), None) => Some(value.trim()).filter(|value| !value.is_empty()),
        // Two cookies of the same name: one of them is not from this server.
        (Some(_), Some(_)) | (None, _) => None,
    }
}

/// From where browsers send a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameSite {
    /// Only from pages of this server.
    Strict,
    /// Also with a link or redirect of another site to this server.
    Lax,
}

/// How a cookie is set; scripts can never read it.
#[derive(Debug, Clone, Copy)]
pub struct CookieRules {
    pub same_site: SameSite,
    /// Whether it is sent with TLS only; its name then forbids that other hosts of the domain set it.
    pub secure: bool,
    /// How many seconds it is kept; until the browser ends if unset. Zero deletes it.
    pub max_age: Option<u64>,
}

/// The name of a cookie.
pub fn cookie_name(name: &str, secure: bool) -> String {
    if secure { format!("__Host-{name}") } else { name.to_owned() }
}

/// The `Set-Cookie` header of a cookie; none if the value is not one for a header.
pub fn set_cookie(name: &str, value: &str, rules: CookieRules) -> Option<HeaderValue> {
    let CookieRules { same_site, secure, max_age } = rules;
    let same_site = match same_site {
        SameSite::Strict => "Strict",
        SameSite::Lax => "Lax",
    };
    let age = max_age.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
    let name = cookie_name(name, secure);
    let secure = if secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/{age}; HttpOnly; SameSite={same_site}{secure}");
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn writes_with_a_cookie_require_the_same_origin() {
        let check = |pairs: &[(&str, &str)]| {
            is_same_origin(&headers(&[&[("host", "bailiwick.example:8443")], pairs].concat()))
        };
        let own = ("origin", "https://bailiwick.example:8443");
        assert!(check(&[("sec-fetch-site", "same-origin")]));
        assert!(check(&[own]));
        assert!(check(&[own, ("sec-fetch-site", "same-origin")]));
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(!check(&[("sec-fetch-site", site), own]), "{site}");
        }
        for origin in [
            "https://evil.example",
            "https://bailiwick.example",
            "http://bailiwick.example:8443",
            "ftp://bailiwick.example:8443",
            "null",
            "",
        ] {
            assert!(!check(&[("origin", origin)]), "{origin}");
            let both = [("origin", origin), ("sec-fetch-site", "same-origin")];
            assert!(!check(&both), "{origin}");
        }
        assert!(!check(&[]), "neither header");
    }

    #[test]
    fn plain_http_origin_is_accepted_on_loopback_only() {
        let check = |host, origin| is_same_origin(&headers(&[("host", host), ("origin", origin)]));
        assert!(check("127.0.0.1:7840", "http://127.0.0.1:7840"));
        assert!(check("[::1]:7840", "http://[::1]:7840"));
        assert!(check("localhost", "http://localhost"));
        assert!(check("ci.example", "https://ci.example"));
        assert!(check("ci.example:443", "https://ci.example"));
        assert!(!check("ci.example", "http://ci.example"));
        assert!(!check("ci.example:80", "http://ci.example"));
        assert!(!check("ci.example:443", "https://ci.example:8443"));
    }

    #[test]
    fn duplicate_cookie_is_ignored() {
        let duplicate = headers(&[("cookie", "a=1; session=x; session=y")]);
        assert_eq!(cookie(&duplicate, "session"), None);
        assert_eq!(cookie(&duplicate, "a"), Some("1"));
        assert_eq!(cookie(&headers(&[("cookie", "a=")]), "a"), None);
    }

    #[test]
    fn cookie_has_the_attributes_of_its_rules() {
        let rules = CookieRules { same_site: SameSite::Strict, secure: true, max_age: Some(9) };
        assert_eq!(
            set_cookie("session", "x", rules).unwrap(),
            "__Host-session=x; Path=/; Max-Age=9; HttpOnly; SameSite=Strict; Secure"
        );
        let rules = CookieRules { same_site: SameSite::Lax, secure: false, max_age: None };
        assert_eq!(
            set_cookie("pending", "x", rules).unwrap(),
            "pending=x; Path=/; HttpOnly; SameSite=Lax"
        );
    }
}
