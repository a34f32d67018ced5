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
    /// The text is not shown: it can have a key.
    #[error(
        "header {number} cannot be read: write name=value,name=value, and other characters as in %20"
    )]
    UnreadableHeader { number: usize },
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Why a trace was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TraceError {
    /// The trace is at fault: it would be refused again.
    #[error("{server} refuses it with status {status}")]
    Refused { server: String, status: u16 },
    /// The trace can be at fault, and so can the collector or its settings.
    #[error("{server} answered with status {status}")]
    Failed { server: String, status: u16 },
    #[error(transparent)]
    Unreachable(ClientError),
}

/// Where traces are sent.
#[derive(Debug, Clone)]
pub struct TraceCollector {
    client: Client,
    address: ServerAddress,
    headers: HeaderMap,
}

impl TraceCollector {
    /// `headers` is `name=value,name=value`, with percent-encoded values, as in `OTEL_EXPORTER_OTLP_HEADERS`. Values may be
    /// secrets: they are sent unencrypted only to this machine.
    pub fn new(address: ServerAddress, headers: &str) -> Result<Self, CollectorError> {
        if !headers.trim().is_empty() && !address.is_encrypted() && !address.is_loopback() {
            return Err(CollectorError::Unencrypted { server: address.to_string() });
        }
        let mut all = HeaderMap::new();
        for (index, header) in headers.split(',').enumerate() {
            if header.trim().is_empty() {
                continue;
            }
            let unreadable = || CollectorError::UnreadableHeader { number: index + 1 };
            let (name, value) = read_header(header).ok_or_else(unreadable)?;
            all.insert(name, value);
        }
        Ok(Self { client: transport::client(&address)?, address, headers: all })
    }

    /// Sends the spans of an `ExportTraceServiceRequest`.
    pub async fn send(&self, request: &Value) -> Result<(), TraceError> {
        let server = self.address.to_string();
        let unreachable = |why: String| {
            TraceError::Unreachable(ClientError::Unreachable { server: server.clone(), why })
        };
        let url = self.address.below(&["v1", "traces"], &[]);
        let url = url.ok_or_else(|| unreachable("its address has no path".to_owned()))?;
        let post = self.client.post(url).headers(self.headers.clone()).timeout(SEND_TIMEOUT);
        let post = post.header(CONTENT_TYPE, "application/json").body(request.to_string());
        let sent = post.send().await;
        let sent = sent.map_err(|error| unreachable(error.without_url().to_string()))?;
        let (answer, status) = (sent.status(), sent.status().as_u16());
        match answer.is_success() {
            true => Ok(()),
            false if is_final(answer) => Err(TraceError::Refused { server, status }),
            false => Err(TraceError::Failed { server, status }),
        }
    }
}

/// Whether a status is about the trace. Others are about the collector, for example a wrong key or address.
fn is_final(status: StatusCode) -> bool {
    [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNPROCESSABLE_ENTITY]
        .contains(&status)
}

/// A header as `name=value`, with a percent-encoded value.
fn read_header(text: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim().parse::<HeaderName>().ok()?;
    let mut value = HeaderValue::from_bytes(&percent_decoded(value.trim())?).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            plain => plain,
        });
    }
    Some(decoded)
}
