//! The HTTP gate beside the model: it answers its own requests, and none of them reaches the model.

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bailiwick_policy::dialects::MAX_PAYLOAD_SIZE;
use bailiwick_runner::proxy::{GATE_PATH, HttpGate, ModelApi};
use bailiwick_testkit::scripted_model::{Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::proxy_lab::{Lab, Notification, Recorder, connect, request};

/// Echoes the question; gives no answer to null.
#[derive(Default)]
struct Echo {
    requests: AtomicUsize,
}

impl HttpGate for Echo {
    fn ask<'a>(
        &'a self,
        posted: &'a [u8],
    ) -> Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let value: Value = serde_json::from_slice(posted).unwrap();
        let answer = (!value.is_null()).then(|| json!({"heard": value}).to_string());
        Box::pin(std::future::ready(answer))
    }
}

#[test]
fn request_to_the_http_gate_is_answered_and_not_forwarded() {
    let model = ScriptedModel::start(Script::new(vec![Turn::say("the model")]));
    let (recorder, http_gate) = (Recorder::allowing(), Arc::new(Echo::default()));
    let lab = Lab::with_http_gate(
        ModelApi::Responses,
        &model.base_url(),
        &recorder,
        Arc::clone(&http_gate) as _,
    );
    let answer = lab.post(GATE_PATH, &json!({"a": 1}));
    assert_eq!((answer.status, answer.json()), (200, json!({"heard": {"a": 1}})));
    let silent = lab.post(GATE_PATH, &Value::Null);
    assert_eq!((silent.status, silent.body.len()), (202, 0));
    assert_eq!(http_gate.requests.load(Ordering::SeqCst), 2);
    assert!(model.requests().is_empty(), "{:#?}", model.requests());
    // The model keeps its usual path.
    let (path, body) = crate::proxy_lab::beginning(ModelApi::Responses);
    assert_eq!(lab.post(path, &body).status, 200);
    assert_eq!(model.requests().len(), 1);
}

/// A program may treat any answer except a denial as an approval, even an error.
#[test]
fn question_that_is_too_long_gets_no_answer() {
    let http_gate = Arc::new(Echo::default());
    let recorder = Recorder::allowing();
    let lab = Lab::with_http_gate(
        ModelApi::Responses,
        "http://127.0.0.1:1",
        &recorder,
        Arc::clone(&http_gate) as _,
    );
    let long = request("POST", GATE_PATH, &json!("x".repeat(2 * MAX_PAYLOAD_SIZE)).to_string());
    let mut stream = connect(lab.proxy.address());
    // The proxy may stop reading before everything is sent.
    let _ = stream.write_all(long.as_bytes());
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_rejection = |notification: &Notification| matches!(notification, Notification::Rejected(what) if what.contains("question"));
    while !recorder.notifications().iter().any(is_rejection) {
        assert!(Instant::now() < deadline, "{:?}", recorder.notifications());
        std::thread::sleep(Duration::from_millis(5));
    }
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let silent = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(silent.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(http_gate.requests.load(Ordering::SeqCst), 0);
    // Other questions are answered at the same time.
    assert_eq!(lab.post(GATE_PATH, &json!({})).status, 200);
}

#[test]
fn without_an_http_gate_its_path_is_not_found() {
    let recorder = Recorder::allowing();
    let lab = Lab::new(ModelApi::Responses, Some("http://127.0.0.1:1"), &recorder);
    assert_eq!(lab.post(GATE_PATH, &json!({})).status, 404);
}
