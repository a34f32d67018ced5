//! Requests to Amazon, signed with a person's own keys on our side of the sandbox.

use std::fmt;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;

/// The service whose requests these are.
const SERVICE: &str = "bedrock";

/// Keys of a person at Amazon, for one region. Nothing shows them.
#[derive(Clone)]
pub(super) struct Signer {
    credentials: Credentials,
    region: String,
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Signer").field("region", &self.region).finish_non_exhaustive()
    }
}

impl Signer {
    pub(super) fn new(id: &str, secret: &str, session: Option<&str>, region: &str) -> Self {
        let session = session.map(str::to_owned);
        let credentials = Credentials::new(id, secret, session, None, "bailiwick");
        Self { credentials, region: region.to_owned() }
    }

    pub(super) fn secrets(&self) -> Vec<&[u8]> {
        let session = self.credentials.session_token().map(str::as_bytes);
        [self.credentials.secret_access_key().as_bytes()].into_iter().chain(session).collect()
    }

    /// Signs a request as it is sent: its place, its body, and what kind of a body that is.
    pub(super) fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        body: &[u8],
        at: SystemTime,
    ) -> Result<(), String> {
        // What is not signed could make the host say what it has signed; one kind of a body is enough.
        let theirs: Vec<HeaderName> =
            headers.keys().filter(|name| name.as_str().starts_with("x-amz-")).cloned().collect();
        theirs.iter().for_each(|name| drop(headers.remove(name)));
        if let Some(kind) = headers.get(hyper::header::CONTENT_TYPE).cloned() {
            headers.insert(hyper::header::CONTENT_TYPE, kind);
        }
        let identity = self.credentials.clone().into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(SERVICE)
            .time(at)
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| error.to_string())?
            .into();
        let kind = headers.get(hyper::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let signed = kind.into_iter().map(|kind| ("content-type", kind));
        let request =
            SignableRequest::new(method.as_str(), url.as_str(), signed, SignableBody::Bytes(body))
                .map_err(|error| error.to_string())?;
        let (signature, _) =
            sign(request, &parameters).map_err(|error| error.to_string())?.into_parts();
        for (name, value) in signature.headers() {
            let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
            let mut value = HeaderValue::try_from(value).map_err(|error| error.to_string())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(())
    }
}
