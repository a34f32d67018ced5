//! Exchanges with an API server as files: recorded from a real one, and replayed without it.
//!
//! A file of `recorded/` has one exchange in each line. What differs each time (IDs, versions, times, the namespace) is
//! replaced when it is recorded, so that an operator that is replayed sends the same requests.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The namespace of all recorded exchanges.
pub(crate) const NAMESPACE: &str = "agents";
const TIME: &str = "2026-01-01T00:00:00Z";

/// A request, and how it was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    method: String,
    path: String,
    query: String,
    body: Value,
    status: u16,
    /// The objects of the answer: one, or those of a watch.
    answer: Vec<Value>,
}

/// Replaces what differs each time, always in the same way.
#[derive(Debug, Default)]
struct Names {
    known: BTreeMap<String, String>,
    namespace: String,
}

impl Names {
    fn name(&mut self, kind: &str, text: &str) -> String {
        let next = format!("{kind}-{}", self.known.len() + 1);
        self.known.entry(text.to_owned()).or_insert(next).clone()
    }

    fn text(&self, text: &str) -> String {
        match self.namespace.is_empty() {
            true => text.to_owned(),
            false => text.replace(&self.namespace, NAMESPACE),
        }
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("managedFields");
                for (key, value) in fields.iter_mut() {
                    match (key.as_str(), &*value) {
                        ("uid", Value::String(text)) => *value = json!(self.name("uid", text)),
                        ("resourceVersion", Value::String(text)) => {
                            *value = json!(self.name("version", text));
                        }
                        _ => self.value(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::String(text) => *text = self.text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Replaces times, and the digests in names of Events, which depend on them.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_event = fields.contains_key("involvedObject");
            for (key, value) in fields.iter_mut() {
                if is_time(key) && value.is_string() {
                    *value = json!(TIME);
                } else if is_event && key == "metadata" {
                    value["name"] = json!("event");
                } else {
                    without_times(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_time(key: &str) -> bool {
    key.ends_with("Timestamp") || key == "lastTransitionTime" || key == "eventTime"
}

/// The objects of a body: one, or one in each line.
fn objects(bytes: &Bytes) -> Vec<Value> {
    let stream = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    stream.map(Result::unwrap).collect()
}

/// The exchanges of one client, as they are recorded.
#[derive(Clone)]
pub(crate) struct Recorder {
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    names: Arc<Mutex<Names>>,
}

impl Recorder {
    /// Of a client that works in this namespace.
    pub(crate) fn new(namespace: &str) -> Self {
        let names = Names { namespace: namespace.to_owned(), ..Names::default() };
        Self { exchanges: Arc::default(), names: Arc::new(Mutex::new(names)) }
    }

    /// A client that does what the other one does, and records it.
    pub(crate) fn client(&self, inner: &Client) -> Client {
        let (recorder, inner) = (self.clone(), inner.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (recorder, inner) = (recorder.clone(), inner.clone());
            async move {
                let (head, body) = request.into_parts();
                let sent = body.collect_bytes().await?;
                let (method, uri) = (head.method.clone(), head.uri.clone());
                let request = Request::from_parts(head, Body::from(sent.to_vec()));
                let response = inner.send(request).await?;
                let (head, body) = response.into_parts();
                let answer = body.collect_bytes().await?;
                recorder.add(method.as_str(), &uri, &sent, head.status.as_u16(), &answer);
                let response = Response::from_parts(head, Body::from(answer.to_vec()));
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, NAMESPACE)
    }

    fn add(&self, method: &str, uri: &http::Uri, sent: &Bytes, status: u16, answer: &Bytes) {
        let mut names = self.names.lock().unwrap();
        let mut body = serde_json::from_slice(sent).unwrap_or_default();
        let mut answer = objects(answer);
        for value in std::iter::once(&mut body).chain(&mut answer) {
            names.value(value);
            without_times(value);
        }
        let exchange = Exchange {
            method: method.to_owned(),
            path: names.text(uri.path()),
            query: names.text(uri.query().unwrap_or_default()),
            body,
            status,
            answer,
        };
        self.exchanges.lock().unwrap().push(exchange);
    }

    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.lock().unwrap().clone()
    }
}

/// An API server that answers as it was recorded, and only to the same requests in the same order.
#[derive(Clone)]
pub(crate) struct Replay {
    left: Arc<Mutex<VecDeque<Exchange>>>,
    differences: Arc<Mutex<Vec<String>>>,
}

impl Replay {
    pub(crate) fn new(exchanges: Vec<Exchange>) -> Self {
        Self { left: Arc::new(Mutex::new(exchanges.into())), differences: Arc::default() }
    }

    pub(crate) fn client(&self) -> Client {
        let replay = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let replay = replay.clone();
            async move {
                let (head, body) = request.into_parts();
                let sent = body.collect_bytes().await?;
                let (status, answer) = replay.answer(head.method.as_str(), &head.uri, &sent);
                let mut bytes = Vec::new();
                for object in answer {
                    serde_json::to_writer(&mut bytes, &object).unwrap();
                    bytes.push(b'\n');
                }
                let response = Response::builder().status(status).body(Body::from(bytes));
                Ok::<_, kube::Error>(response.unwrap())
            }
        });
        Client::new(service, NAMESPACE)
    }

    fn answer(&self, method: &str, uri: &http::Uri, sent: &Bytes) -> (u16, Vec<Value>) {
        let mut body: Value = serde_json::from_slice(sent).unwrap_or_default();
        without_times(&mut body);
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let actual = json!({ "method": method, "path": path, "query": query, "body": body });
        let expected = self.left.lock().unwrap().pop_front();
        let is_expected = expected.as_ref().is_some_and(|expected| {
            let Exchange { method, path, query, body, .. } = expected;
            actual == json!({ "method": method, "path": path, "query": query, "body": body })
        });
        match expected {
            Some(expected) if is_expected => (expected.status, expected.answer),
            expected => {
                let difference = format!("expected {expected:#?}, got {actual:#}");
                self.differences.lock().unwrap().push(difference);
                let refusal = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "message": "not as it was recorded", "reason": "Replay", "code": 400 });
                (400, vec![refusal])
            }
        }
    }

    /// How the requests differ from the recorded ones, with those that were not sent.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut all = self.differences.lock().unwrap().clone();
        all.extend(self.left.lock().unwrap().iter().map(|left| format!("not sent: {left:#?}")));
        all
    }
}

fn file(scenario: &str) -> PathBuf {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/recorded");
    directory.join(format!("{scenario}.jsonl"))
}

/// What was recorded of a scenario; nothing if it was not yet.
pub(crate) fn recorded(scenario: &str) -> Option<Vec<Exchange>> {
    let text = std::fs::read_to_string(file(scenario)).ok()?;
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Writes what was recorded of a scenario into a directory.
pub(crate) fn store(directory: &std::path::Path, scenario: &str, exchanges: &[Exchange]) {
    let lines = exchanges.iter().map(|one| serde_json::to_string(one).unwrap() + "\n");
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join(format!("{scenario}.jsonl")), lines.collect::<String>()).unwrap();
}
