//! A proxy with an observer that records, a host behind it that sends what a test specifies, and a
//! client that speaks plain HTTP.

use std::future::Future;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bailiwick_runner::proxy::{
    Admission, HttpGate, Key, ModelApi, ModelRequest, ModelResponse, Models, Observer, Proxy,
    Setup, ToolCall, Upstream, start,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The key that only the model may see.
pub(crate) const SECRET: &str = "sk-the-real-key-1234567890";

/// A notification of the proxy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Notification {
    ModelRequest(ModelRequest),
    ToolCalled(Option<String>, ToolCall),
    ModelResponse(ModelResponse),
    Connected(String, bool),
    Rejected(String),
    KeyRefused(u16),
}

type Admit = dyn Fn(&ModelRequest) -> Pin<Box<dyn Future<Output = Admission> + Send>> + Send + Sync;
type OnCall = dyn Fn(&ToolCall) + Send + Sync;

pub(crate) struct Recorder {
    notifications: Mutex<Vec<Notification>>,
    released_requests: AtomicUsize,
    admits: Box<Admit>,
    on_call: Box<OnCall>,
}

impl Recorder {
    /// Decides immediately.
    pub(crate) fn new(
        admits: impl Fn(&ModelRequest) -> Admission + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::with_admission(move |request| {
            let admission = admits(request);
            Box::pin(async move { admission })
        })
    }

    pub(crate) fn with_admission(
        admits: impl Fn(&ModelRequest) -> Pin<Box<dyn Future<Output = Admission> + Send>>
        + Send
        + Sync
        + 'static,
    ) -> Arc<Self> {
        let notifications = Mutex::new(Vec::new());
        let released_requests = AtomicUsize::new(0);
        Arc::new(Self {
            notifications,
            released_requests,
            admits: Box::new(admits),
            on_call: Box::new(|_| {}),
        })
    }

    pub(crate) fn allowing() -> Arc<Self> {
        Self::new(|_| Admission::Pass)
    }

    /// Allows everything, and calls this function on each tool call.
    pub(crate) fn on_call(on_call: impl Fn(&ToolCall) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            notifications: Mutex::new(Vec::new()),
            released_requests: AtomicUsize::new(0),
            admits: Box::new(|_| Box::pin(async { Admission::Pass })),
            on_call: Box::new(on_call),
        })
    }

    pub(crate) fn notifications(&self) -> Vec<Notification> {
        self.notifications.lock().unwrap().clone()
    }

    fn note(&self, notification: Notification) {
        self.notifications.lock().unwrap().push(notification);
    }

    fn only<T>(&self, select: impl Fn(Notification) -> Option<T>) -> Vec<T> {
        self.notifications().into_iter().filter_map(select).collect()
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.only(|notification| {
            if let Notification::ModelRequest(request) = notification {
                Some(request)
            } else {
                None
            }
        })
    }

    pub(crate) fn responses(&self) -> Vec<ModelResponse> {
        self.only(|notification| {
            if let Notification::ModelResponse(response) = notification {
                Some(response)
            } else {
                None
            }
        })
    }

    /// The number of requests without an answer.
    pub(crate) fn released_requests(&self) -> usize {
        self.released_requests.load(Ordering::SeqCst)
    }

    pub(crate) fn tool_calls(&self) -> Vec<ToolCall> {
        self.only(|notification| {
            if let Notification::ToolCalled(_, call) = notification { Some(call) } else { None }
        })
    }
}

impl Observer for Recorder {
    fn admit<'a>(
        &'a self,
        request: ModelRequest,
    ) -> Pin<Box<dyn Future<Output = Admission> + Send + 'a>> {
        self.note(Notification::ModelRequest(request.clone()));
        (self.admits)(&request)
    }

    fn on_tool_call(&self, agent: Option<&str>, call: &ToolCall) {
        (self.on_call)(call);
        self.note(Notification::ToolCalled(agent.map(str::to_owned), call.clone()));
    }

    fn on_response(&self, response: ModelResponse) {
        self.note(Notification::ModelResponse(response));
    }

    fn release_request(&self) {
        self.released_requests.fetch_add(1, Ordering::SeqCst);
    }

    fn on_connect(&self, host: &str, allowed: bool) {
        self.note(Notification::Connected(host.to_owned(), allowed));
    }

    fn key_refused(&self, status: u16) {
        self.note(Notification::KeyRefused(status));
    }

    fn on_rejected(&self, what: &str, why: &str) {
        self.note(Notification::Rejected(format!("{what}: {why}")));
    }
}

/// A proxy on its own runtime.
pub(crate) struct Lab {
    pub(crate) runtime: Runtime,
    pub(crate) proxy: Proxy,
}

/// The prefix that the wire's programs put before its paths.
pub(crate) fn prefix(wire: ModelApi) -> &'static str {
    match wire {
        ModelApi::Responses | ModelApi::Chat => "/v1",
        ModelApi::Anthropic | ModelApi::Gemini => "",
    }
}

impl Lab {
    /// In front of a model at `base`, which has no path.
    pub(crate) fn new(wire: ModelApi, base: Option<&str>, observer: &Arc<Recorder>) -> Self {
        Self::with_hosts(wire, base, observer, &[])
    }

    pub(crate) fn with_hosts(
        wire: ModelApi,
        base: Option<&str>,
        observer: &Arc<Recorder>,
        hosts: &[String],
    ) -> Self {
        Self::set_up(wire, base, observer, |setup| Setup { hosts: hosts.to_vec(), ..setup })
    }

    /// In front of a model that accepts this key.
    pub(crate) fn with_key(wire: ModelApi, base: &str, observer: &Arc<Recorder>, key: Key) -> Self {
        let upstream = Upstream { base: format!("{base}{}", prefix(wire)), key, origin: None };
        Self::set_up(wire, None, observer, |setup| Setup { upstream: Some(upstream), ..setup })
    }

    /// With a gate that answers questions over HTTP beside the model.
    pub(crate) fn with_http_gate(
        wire: ModelApi,
        base: &str,
        observer: &Arc<Recorder>,
        http_gate: Arc<dyn HttpGate>,
    ) -> Self {
        Self::set_up(wire, Some(base), observer, |setup| Setup {
            http_gate: Some(http_gate),
            ..setup
        })
    }

    /// For a run that may ask these models.
    pub(crate) fn with_models(
        wire: ModelApi,
        base: &str,
        observer: &Arc<Recorder>,
        models: Models,
    ) -> Self {
        Self::set_up(wire, Some(base), observer, |setup| Setup { models, ..setup })
    }

    /// For a run whose model may use these server-side tools.
    pub(crate) fn with_server_side(
        wire: ModelApi,
        base: &str,
        observer: &Arc<Recorder>,
        hosts: &[String],
        searches: bool,
    ) -> Self {
        let hosts = hosts.to_vec();
        Self::set_up(wire, Some(base), observer, |setup| Setup { hosts, searches, ..setup })
    }

    fn set_up(
        wire: ModelApi,
        base: Option<&str>,
        observer: &Arc<Recorder>,
        change: impl FnOnce(Setup) -> Setup,
    ) -> Self {
        let (header, value) = match wire {
            ModelApi::Anthropic => ("x-api-key", SECRET.to_owned()),
            ModelApi::Responses | ModelApi::Chat => ("authorization", format!("Bearer {SECRET}")),
            ModelApi::Gemini => ("x-goog-api-key", SECRET.to_owned()),
        };
        let upstream = base.map(|base| Upstream {
            base: format!("{base}{}", prefix(wire)),
            key: Key::new(header, &value).unwrap(),
            origin: None,
        });
        let runtime = Runtime::new().unwrap();
        let setup = Setup {
            wire,
            upstream,
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            hosts: Vec::new(),
            models: Models::Any,
            searches: false,
            callers: None,
            observer: Arc::clone(observer) as Arc<dyn Observer>,
            http_gate: None,
        };
        let proxy = start(change(setup), runtime.handle()).unwrap();
        Self { runtime, proxy }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.proxy.address())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        post(self.proxy.address(), path, body)
    }

    /// Stops the proxy; every request in progress has been reported.
    pub(crate) fn stop(self) {
        self.runtime.block_on(self.proxy.stop());
    }
}

/// The request of a program that starts a conversation: its path and its body.
pub(crate) fn beginning(wire: ModelApi) -> (&'static str, Value) {
    let words = "Go.";
    match wire {
        ModelApi::Anthropic => (
            "/v1/messages?beta=true",
            json!({"model": "m", "stream": true, "tools": [{}],
                "messages": [{"role": "user", "content": words}]}),
        ),
        ModelApi::Responses => (
            "/v1/responses",
            json!({"model": "m", "stream": true, "tools": [{"type": "function"}],
                "input": [{"type": "message", "role": "user", "content": words}]}),
        ),
        ModelApi::Chat => (
            "/v1/chat/completions",
            json!({"model": "m", "stream": true, "tools": [{"type": "function"}],
                "stream_options": {"include_usage": true},
                "messages": [{"role": "user", "content": words}]}),
        ),
        ModelApi::Gemini => (
            "/v1beta/models/m:streamGenerateContent?alt=sse&key=placeholder",
            json!({"tools": [{"functionDeclarations": [{}]}],
                "contents": [{"role": "user", "parts": [{"text": words}]}]}),
        ),
    }
}

/// The response on a connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body was complete.
    pub(crate) complete: bool,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A program's request, with the placeholders that programs get instead of keys.
pub(crate) fn request(method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: model\r\nConnection: close\r\nX-Kept: yes\r\n\
         X-Api-Key: placeholder\r\nAuthorization: Bearer placeholder\r\n\
         X-Goog-Api-Key: placeholder\r\nAccept-Encoding: gzip\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Answer {
    send(address, &request("POST", path, &body.to_string()))
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

pub(crate) fn send(address: SocketAddr, request: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    read_answer(&mut BufReader::new(stream), |_| {})
}

/// Reads an answer to its end, and reports the body while it grows.
pub(crate) fn read_answer(
    reader: &mut BufReader<TcpStream>,
    mut grows: impl FnMut(&[u8]),
) -> Answer {
    let head = read_head(reader);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let small = head.to_ascii_lowercase();
    let mut body = Vec::new();
    let length = small.lines().find_map(|line| line.strip_prefix("content-length: "));
    let complete = if let Some(length) = length {
        let mut remaining: usize = length.trim().parse().unwrap();
        while remaining > 0 {
            let mut piece = vec![0; remaining.min(8192)];
            match reader.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    body.extend(piece.iter().take(count));
                    remaining -= count;
                    grows(&body);
                }
            }
        }
        remaining == 0
    } else {
        read_chunks(reader, &mut body, &mut grows)
    };
    Answer { status, head, body, complete }
}

fn read_chunks(
    reader: &mut BufReader<TcpStream>,
    body: &mut Vec<u8>,
    grows: &mut impl FnMut(&[u8]),
) -> bool {
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        let Ok(size) = usize::from_str_radix(line.trim(), 16) else { return false };
        let mut piece = vec![0; size + 2];
        if reader.read_exact(&mut piece).is_err() {
            return false;
        }
        if size == 0 {
            return true;
        }
        body.extend(piece.iter().take(size));
        grows(body);
    }
}

pub(crate) fn read_head(reader: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        let count = reader.read_line(&mut line).unwrap();
        assert!(count > 0, "the connection ended: {head}");
        if line == "\r\n" {
            return head;
        }
        head.push_str(&line);
    }
}

/// A host that handles each request as the test specifies.
pub(crate) struct Host {
    address: SocketAddr,
    pub(crate) heads: Arc<Mutex<Vec<String>>>,
}

impl Host {
    pub(crate) fn start(answers: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (heads_seen, answers) = (Arc::clone(&heads), Arc::new(answers));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (heads_seen, answers) = (Arc::clone(&heads_seen), Arc::clone(&answers));
                std::thread::spawn(move || {
                    let stream = stream.unwrap();
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let head = read_head(&mut reader).to_ascii_lowercase();
                    let length =
                        head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    let length = length.map_or(0, |length| length.trim().parse().unwrap());
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    heads_seen.lock().unwrap().push(head);
                    let mut stream = stream;
                    answers(&String::from_utf8(body).unwrap(), &mut stream);
                });
            }
        });
        Self { address, heads }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// The head of a stream that ends with its connection.
pub(crate) const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Host: here\r\nConnection: close\r\n\r\n";

pub(crate) fn say(stream: &mut TcpStream, text: &str) {
    // Some tests are about a program that has disconnected.
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.flush();
}
