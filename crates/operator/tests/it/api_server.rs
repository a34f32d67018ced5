//! A fake API server behind kube's own client; the test provides its answers.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A request that the API server received.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

pub(crate) type Answer = (StatusCode, Value);

/// A request with this answer stays open, as a watch without events.
pub(crate) const OPEN: Answer = (StatusCode::PROCESSING, Value::Null);

/// Answers requests in order, and records them.
pub(crate) struct ApiServer {
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    pub(crate) client: Client,
}

impl ApiServer {
    pub(crate) fn new(mut answer: impl FnMut(&ReceivedRequest) -> Answer + Send + 'static) -> Self {
        let (service, mut handle) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Some((request, respond)) = handle.next_request().await {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let request = ReceivedRequest {
                    method: head.method,
                    path: head.uri.path().to_owned(),
                    query: head.uri.query().unwrap_or_default().to_owned(),
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                };
                let (status, body) = answer(&request);
                recorded.lock().unwrap().push(request);
                if status == StatusCode::PROCESSING {
                    open.push(respond);
                    continue;
                }
                // One line, as in the stream of a watch.
                let mut bytes = serde_json::to_vec(&body).unwrap();
                bytes.push(b'\n');
                let bytes = if body.is_null() { Vec::new() } else { bytes };
                let response = Response::builder().status(status).body(Body::from(bytes));
                respond.send_response(response.unwrap());
            }
        });
        Self { requests, client: Client::new(service, "agents") }
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// The methods and paths of the requests.
    pub(crate) fn calls(&self) -> Vec<String> {
        let short = |request: &ReceivedRequest| {
            let path = request.path.split("/namespaces/agents/").last().unwrap();
            format!("{} {path}", request.method)
        };
        self.requests().iter().map(short).collect()
    }
}

/// The answer of an API server that refuses a request.
pub(crate) fn refusal(code: StatusCode, reason: &str) -> Answer {
    let body = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": reason, "reason": reason, "code": code.as_u16() });
    (code, body)
}

/// One object with server-side apply: merges spec, status and metadata, and counts versions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored(pub(crate) Value);

impl Stored {
    pub(crate) fn apply(&mut self, request: &ReceivedRequest) -> Answer {
        let version = |value: &Value| value["metadata"]["resourceVersion"].clone();
        let (requested, current) = (version(&request.body), version(&self.0));
        if !requested.is_null() && requested != current {
            return refusal(StatusCode::CONFLICT, "Conflict");
        }
        if self.0.is_null() {
            self.0 = request.body.clone();
            self.0["metadata"]["uid"] = json!("created");
            self.0["metadata"]["namespace"] = json!("agents");
            self.0["metadata"]["generation"] = json!(1);
        }
        match request.path.ends_with("/status") {
            true => self.0["status"] = request.body["status"].clone(),
            false => {
                let finalizers = request.body["metadata"]["finalizers"].clone();
                self.0["metadata"]["finalizers"] = finalizers;
                if !request.body["spec"].is_null() {
                    self.0["spec"] = request.body["spec"].clone();
                }
            }
        }
        let next = current.as_str().map_or(0, |text| text.parse().unwrap()) + 1;
        self.0["metadata"]["resourceVersion"] = json!(next.to_string());
        (StatusCode::OK, self.0.clone())
    }
}
