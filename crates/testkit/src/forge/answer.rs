//! The response of a stand-in.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Value, json};

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn json(status: u16, value: &Value) -> Self {
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        Self { status, headers, body: value.to_string().into_bytes() }
    }

    pub(super) fn text(status: u16, text: &str) -> Self {
        let headers = vec![("Content-Type".to_owned(), "text/plain".to_owned())];
        Self { status, headers, body: text.as_bytes().to_vec() }
    }

    /// A refusal in the forge's own words.
    pub(super) fn no(status: u16, message: &str) -> Self {
        Self::json(status, &json!({ "message": message, "url": "https://example.org/api" }))
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn send(&self, mut stream: &TcpStream, head_only: bool) -> std::io::Result<()> {
        let mut text = format!("HTTP/1.1 {} Answer\r\n", self.status);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", self.body.len()));
        // In one piece: the second of two small ones waits for the other side's word on the first.
        let mut bytes = text.into_bytes();
        if !head_only {
            bytes.extend_from_slice(&self.body);
        }
        stream.write_all(&bytes)?;
        stream.flush()
    }
}
