//! A collector of traces that speaks OTLP over HTTP.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, StatusCode};
use serde_json::Value;
use thiserror::Error;

use crate::error::ClientError;
use crate::http::transport;
use crate::server_address::ServerAddress;

const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Why traces cannot be sent to a collector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CollectorError {
    #[error("{server} would receive the headers, which can have keys, unencrypted: use https")]
    Unencrypted { server: String },
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Where traces are sent.
#[derive(Debug, Clone)]
pub struct TraceCollector {
    client: Client,
    address: ServerAddress,
    headers: HeaderMap,
}

impl TraceCollector {
    /// `headers` is `name=value,name=value`, as in `OTEL_EXPORTER_OTLP_HEADERS`; malformed ones are left out. Values may be
    /// secrets: they are sent unencrypted only to this machine.
    pub fn new(address: ServerAddress, headers: &str) -> Result<Self, CollectorError> {
        if !headers.trim().is_empty() && !address.is_encrypted() && !address.is_loopback() {
            return Err(CollectorError::Unencrypted { server: address.to_string() });
        }
        let mut all = HeaderMap::new();
        for (name, value) in headers.split(',').filter_map(|header| header.split_once('=')) {
            let (name, value) = (name.trim().parse::<HeaderName>(), value.trim().parse());
            if let (Ok(name), Ok::<HeaderValue, _>(mut value)) = (name, value) {
                value.set_sensitive(true);
                all.insert(name, value);
            }
        }
        Ok(Self { client: transport::client(&address)?, address, headers: all })
    }

    /// Sends the spans of an `ExportTraceServiceRequest`. What the collector would refuse again is `Refused`.
    pub async fn send(&self, request: &Value) -> Result<(), ClientError> {
        let server = self.address.to_string();
        let failed = |why: String| ClientError::Unreachable { server: server.clone(), why };
        let url = self.address.below(&["v1", "traces"], &[]);
        let url = url.ok_or_else(|| failed("its address has no path".to_owned()))?;
        let post = self.client.post(url).headers(self.headers.clone()).timeout(SEND_TIMEOUT);
        let post = post.header(CONTENT_TYPE, "application/json").body(request.to_string());
        let sent = post.send().await.map_err(|error| failed(error.without_url().to_string()))?;
        let status = sent.status();
        let why = format!("it answered with status {}", status.as_u16());
        match status.is_success() {
            true => Ok(()),
            false if is_final(status) => {
                Err(ClientError::Refused { server: self.address.to_string(), message: why })
            }
            false => Err(failed(why)),
        }
    }
}

/// Whether the same request would be refused again.
fn is_final(status: StatusCode) -> bool {
    let can_change = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    status.is_client_error() && !can_change.contains(&status)
}
