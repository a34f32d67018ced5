//! A small HTTP client: one request per connection, and event streams.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Only a request that hangs takes this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpRequest {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        let (method, path) = (method.to_uppercase(), path.to_owned());
        Self { method, path, headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub(crate) fn header(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.body = body.to_string().into_bytes();
        self.header("content-type", "application/json")
    }

    pub(crate) fn bytes(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The request as bytes.
    pub(crate) fn wire(&self, address: SocketAddr) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            text.push_str(&format!("host: {address}\r\n"));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("content-length: {}\r\n\r\n", self.body.len()));
        let mut wire = text.into_bytes();
        wire.extend_from_slice(&self.body);
        wire
    }

    pub(crate) async fn send(&self, address: SocketAddr) -> HttpResponse {
        let response = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // A server that refuses early may close before all is written.
            let _ = stream.write_all(&self.wire(address)).await;
            HttpResponse::read(&mut BufReader::new(stream)).await.expect("a response")
        };
        tokio::time::timeout(TIMEOUT, response).await.expect("a response in time")
    }
}

#[derive(Debug, Clone)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

pub(crate) async fn head(
    stream: &mut BufReader<TcpStream>,
) -> Option<(u16, BTreeMap<String, String>)> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        // Several cookies are separated by lines.
        let known: &mut String = headers.entry(name.to_ascii_lowercase()).or_default();
        if !known.is_empty() {
            known.push('\n');
        }
        known.push_str(value.trim());
    }
    Some((status, headers))
}

async fn chunk(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let length = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut bytes = vec![0; length + 2];
    stream.read_exact(&mut bytes).await.ok()?;
    bytes.truncate(length);
    Some(bytes)
}

impl HttpResponse {
    pub(crate) async fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let (status, headers) = head(stream).await?;
        let mut body = Vec::new();
        if headers.contains_key("transfer-encoding") {
            while let Some(bytes) = chunk(stream).await.filter(|bytes| !bytes.is_empty()) {
                body.extend(bytes);
            }
        } else if let Some(length) = headers.get("content-length") {
            body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).await.ok()?;
        }
        Some(Self { status, headers, body })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The code of an error.
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

pub(crate) struct Events {
    stream: BufReader<TcpStream>,
    rest: String,
    ready: VecDeque<Event>,
    pub(crate) heartbeats: usize,
}

impl Events {
    pub(crate) async fn open(address: SocketAddr, request: HttpRequest) -> Self {
        Self::try_open(address, request).await.unwrap_or_else(|reply| panic!("{reply:?}"))
    }

    pub(crate) async fn try_open(
        address: SocketAddr,
        request: HttpRequest,
    ) -> Result<Self, HttpResponse> {
        let opened = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&request.wire(address)).await.unwrap();
            let mut stream = BufReader::new(stream);
            let (status, headers) = head(&mut stream).await.expect("a head");
            if status != 200 {
                let mut body = vec![0; headers["content-length"].parse().unwrap()];
                stream.read_exact(&mut body).await.unwrap();
                return Err(HttpResponse { status, headers, body });
            }
            assert_eq!(headers["content-type"], "text/event-stream");
            let content_length = headers.get("content-length").and_then(|text| text.parse().ok());
            let mut events =
                Self { stream, rest: String::new(), ready: VecDeque::new(), heartbeats: 0 };
            if let Some(length) = content_length {
                let mut body = vec![0; length];
                events.stream.read_exact(&mut body).await.unwrap();
                events.take(&String::from_utf8(body).unwrap());
            }
            Ok(events)
        };
        tokio::time::timeout(TIMEOUT, opened).await.expect("a stream in time")
    }

    fn take(&mut self, text: &str) {
        self.rest.push_str(text);
        while let Some((block, rest)) = self.rest.split_once("\n\n") {
            let (block, rest) = (block.to_owned(), rest.to_owned());
            self.rest = rest;
            let field = |name: &str| {
                let of = |line: &str| line.strip_prefix(name).map(|value| value.trim().to_owned());
                block.lines().find_map(of)
            };
            if block.starts_with(':') {
                self.heartbeats += 1;
                continue;
            }
            self.ready.push_back(Event {
                id: field("id:").map(|id| id.parse().unwrap()),
                name: field("event:").unwrap(),
                data: serde_json::from_str(&field("data:").unwrap()).unwrap(),
            });
        }
    }

    /// The next event, or `None` if the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let next_event = async {
            while self.ready.is_empty() {
                let bytes = chunk(&mut self.stream).await.filter(|bytes| !bytes.is_empty())?;
                self.take(&String::from_utf8(bytes).unwrap());
            }
            self.ready.pop_front()
        };
        tokio::time::timeout(TIMEOUT, next_event).await.expect("an event in time")
    }
}
