//! An API server that a test answers for, through kube's own client.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A request as the API server got it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

pub(crate) type Answer = (StatusCode, Value);

/// A request with this answer stays open, as a watch without news.
pub(crate) const OPEN: Answer = (StatusCode::PROCESSING, Value::Null);

/// Answers requests in order, and notes them.
pub(crate) struct ApiServer {
    seen: Arc<Mutex<Vec<Seen>>>,
    pub(crate) client: Client,
}

impl ApiServer {
    pub(crate) fn new(mut answer: impl FnMut(&Seen) -> Answer + Send + 'static) -> Self {
        let (service, mut handle) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Some((request, respond)) = handle.next_request().await {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let request = Seen {
                    method: head.method,
                    path: head.uri.path().to_owned(),
                    query: head.uri.query().unwrap_or_default().to_owned(),
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                };
                let (status, body) = answer(&request);
                noted.lock().unwrap().push(request);
                if status == StatusCode::PROCESSING {
                    open.push(respond);
                    continue;
                }
                // A line, as a watch has them.
                let mut bytes = serde_json::to_vec(&body).unwrap();
                bytes.push(b'\n');
                let bytes = if body.is_null() { Vec::new() } else { bytes };
                let response = Response::builder().status(status).body(Body::from(bytes));
                respond.send_response(response.unwrap());
            }
        });
        Self { seen, client: Client::new(service, "agents") }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The methods and paths of the requests.
    pub(crate) fn calls(&self) -> Vec<String> {
        let short = |seen: &Seen| {
            let path = seen.path.split("/namespaces/agents/").last().unwrap();
            format!("{} {path}", seen.method)
        };
        self.seen().iter().map(short).collect()
    }
}

/// An answer as the API server refuses a request.
pub(crate) fn refusal(code: StatusCode, reason: &str) -> Answer {
    let body = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": reason, "reason": reason, "code": code.as_u16() });
    (code, body)
}

/// What server-side apply makes of one object: merges spec, status and metadata, and counts versions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored(pub(crate) Value);

impl Stored {
    pub(crate) fn apply(&mut self, request: &Seen) -> Answer {
        let version = |value: &Value| value["metadata"]["resourceVersion"].clone();
        let (named, there) = (version(&request.body), version(&self.0));
        if !named.is_null() && named != there {
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
        let next = there.as_str().map_or(0, |text| text.parse().unwrap()) + 1;
        self.0["metadata"]["resourceVersion"] = json!(next.to_string());
        (StatusCode::OK, self.0.clone())
    }
}
