//! Signs requests to Amazon Bedrock (AWS Signature Version 4) with a person's own keys, outside of the sandbox.

use std::fmt;
use std::time::SystemTime;

use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::Method;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use reqwest::Url;
use sha2::{Digest as _, Sha256};

const SERVICE: &str = "bedrock";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const SESSION_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Why a request cannot be signed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignatureError {
    #[error("the clock has no date: {0}")]
    Time(#[from] jiff::Error),
    #[error(transparent)]
    Header(#[from] hyper::header::InvalidHeaderValue),
    #[error("the URL has no host")]
    NoHost,
    #[error(transparent)]
    Key(#[from] hmac::digest::InvalidLength),
}

/// Keys of a person at Amazon, for one region. Nothing shows them.
#[derive(Clone)]
pub(super) struct Signer {
    key_id: String,
    secret_key: String,
    session_token: Option<String>,
    region: String,
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Signer").field("region", &self.region).finish_non_exhaustive()
    }
}

impl Signer {
    pub(super) fn new(id: &str, secret: &str, session: Option<&str>, region: &str) -> Self {
        Self {
            key_id: id.to_owned(),
            secret_key: secret.to_owned(),
            session_token: session.map(str::to_owned),
            region: region.to_owned(),
        }
    }

    pub(super) fn secrets(&self) -> Vec<&[u8]> {
        let session = self.session_token.as_deref().map(str::as_bytes);
        [self.secret_key.as_bytes()].into_iter().chain(session).collect()
    }

    /// Signs a request as it is sent: its URL, its body and its content type.
    pub(super) fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        body: &[u8],
        at: SystemTime,
    ) -> Result<(), SignatureError> {
        self.sign_for(SERVICE, method, url, headers, body, at)
    }

    fn sign_for(
        &self,
        service: &str,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        body: &[u8],
        at: SystemTime,
    ) -> Result<(), SignatureError> {
        // An unsigned `x-amz-` header of the agent could change what the signed request means.
        let unsigned: Vec<HeaderName> =
            headers.keys().filter(|name| name.as_str().starts_with("x-amz-")).cloned().collect();
        unsigned.iter().for_each(|name| drop(headers.remove(name)));
        // `get` finds the first content type and `insert` drops the others.
        if let Some(kind) = headers.get(CONTENT_TYPE).cloned() {
            headers.insert(CONTENT_TYPE, kind);
        }
        let at = Timestamp::try_from(at)?;
        let date = at.strftime("%Y%m%dT%H%M%SZ").to_string();
        headers.insert(DATE, sensitive(&date)?);
        if let Some(token) = &self.session_token {
            headers.insert(SESSION_TOKEN, sensitive(token)?);
        }

        let host = host(url)?;
        // In the order of their names, as the signature requires.
        let mut signed: Vec<(&str, String)> = Vec::new();
        if let Some(kind) = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) {
            signed.push(("content-type", single_spaced(kind)));
        }
        signed.push(("host", host));
        signed.push(("x-amz-date", date.clone()));
        if let Some(token) = &self.session_token {
            signed.push(("x-amz-security-token", single_spaced(token)));
        }
        let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines: String =
            signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let canonical = format!(
            "{method}\n{}\n{}\n{lines}\n{names}\n{}",
            percent_encoded(url.path(), b"/"),
            canonical_query(url),
            hex(&Sha256::digest(body)),
        );

        let day = at.strftime("%Y%m%d").to_string();
        let scope = format!("{day}/{}/{service}/aws4_request", self.region);
        let digest = hex(&Sha256::digest(canonical));
        let to_sign = format!("{ALGORITHM}\n{date}\n{scope}\n{digest}");
        let mut key = format!("AWS4{}", self.secret_key).into_bytes();
        for part in [&day, &self.region, service, "aws4_request"] {
            key = keyed_digest(&key, part)?;
        }
        let signature = hex(&keyed_digest(&key, &to_sign)?);
        let credential = format!("{}/{scope}", self.key_id);
        let authorization = format!(
            "{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
        );
        headers.insert(AUTHORIZATION, sensitive(&authorization)?);
        Ok(())
    }
}

fn sensitive(text: &str) -> Result<HeaderValue, SignatureError> {
    let mut value = HeaderValue::try_from(text)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The `Host` header that is sent: a default port is left out of a parsed URL.
fn host(url: &Url) -> Result<String, SignatureError> {
    let host = url.host_str().ok_or(SignatureError::NoHost)?;
    Ok(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

fn single_spaced(value: &str) -> String {
    value.split(' ').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn canonical_query(url: &Url) -> String {
    let mut pairs: Vec<(String, String)> = url
        .query_pairs()
        .map(|(name, value)| (percent_encoded(&name, b""), percent_encoded(&value, b"")))
        .collect();
    pairs.sort();
    let pairs: Vec<String> =
        pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

/// Encodes everything but unreserved characters and `plain`. Encoded text is encoded again.
fn percent_encoded(text: &str, plain: &[u8]) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ if plain.contains(&byte) => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn keyed_digest(key: &[u8], text: &str) -> Result<Vec<u8>, SignatureError> {
    let mut hmac = Hmac::<Sha256>::new_from_slice(key)?;
    hmac.update(text.as_bytes());
    Ok(hmac.finalize().into_bytes().to_vec())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// 2015-08-30 12:36:00 UTC, the time of Amazon's published test vectors.
    const THEN: Duration = Duration::from_secs(1_440_938_160);
    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

    #[test]
    fn published_test_vectors_are_reproduced() {
        let token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
        let form = Some("application/x-www-form-urlencoded");
        let vectors = [
            (
                None,
                Method::GET,
                "",
                None,
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                Some(token),
                Method::GET,
                "",
                None,
                "",
                "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
            ),
            (
                None,
                Method::POST,
                "",
                form,
                "Param1=value1",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            (
                None,
                Method::GET,
                "?Param2=value2&Param1=value1",
                None,
                "",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ];
        for (session, method, rest, kind, body, expected) in vectors {
            let signer = Signer::new("AKIDEXAMPLE", SECRET, session, "us-east-1");
            let url = Url::parse(&format!("https://example.amazonaws.com/{rest}")).unwrap();
            let at = SystemTime::UNIX_EPOCH + THEN;
            let mut headers = HeaderMap::new();
            headers.extend(kind.map(|kind| (CONTENT_TYPE, HeaderValue::from_static(kind))));
            signer.sign_for("service", &method, &url, &mut headers, body.as_bytes(), at).unwrap();
            let signed = headers.get(AUTHORIZATION).unwrap().to_str().unwrap();
            assert_eq!(signed.rsplit_once('=').unwrap().1, expected, "{method} {url}");
        }
    }

    #[test]
    fn unsigned_headers_are_dropped() {
        let signer = Signer::new("AKIDEXAMPLE", SECRET, None, "us-east-1");
        let url = Url::parse("https://example.amazonaws.com/").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-target", HeaderValue::from_static("Other.Operation"));
        headers.append(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.append(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        signer.sign(&Method::POST, &url, &mut headers, b"", SystemTime::UNIX_EPOCH).unwrap();
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "content-type", "x-amz-date"]);
        assert_eq!(headers.get_all(CONTENT_TYPE).iter().count(), 1);
    }
}
