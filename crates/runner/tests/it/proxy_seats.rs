//! A client with many connections to the proxy does not block others, above all not the gate.

use std::future::Future;
use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_runner::proxy::{Admission, GATE_PATH, HttpGate, ModelApi};
use bailiwick_testkit::scripted_model::{Script, ScriptedModel, Turn};
use serde_json::json;
use tokio::sync::watch;

use crate::proxy_lab::{Lab, Recorder, beginning, connect, post, read_answer, request};

/// More than the proxy accepts at once.
const MANY: usize = 300;

/// Allows everything.
struct AllowAll;

impl HttpGate for AllowAll {
    fn ask<'a>(
        &'a self,
        _posted: &'a [u8],
    ) -> Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>> {
        Box::pin(std::future::ready(Some("{}".to_owned())))
    }
}

/// A request that keeps the connection open.
fn keep_alive(path: &str, body: &str) -> String {
    request("POST", path, body).replace("Connection: close\r\n", "")
}

/// Sends a request over an open connection.
fn ask(stream: &TcpStream, path: &str, body: &str) -> u16 {
    let mut writer = stream;
    writer.write_all(keep_alive(path, body).as_bytes()).unwrap();
    read_answer(&mut BufReader::new(stream.try_clone().unwrap()), |_| {}).status
}

#[track_caller]
fn becomes_true(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "the condition did not become true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the other side has closed the connection.
fn has_ended(stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut reader = stream;
    !matches!(&reader.read(&mut [0; 1]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

/// What a client does first with a connection.
type Beginning<'a> = &'a dyn Fn(&TcpStream);

#[test]
fn idle_connections_are_closed_for_new_ones() {
    let model = ScriptedModel::start(Script::new(vec![Turn::say("the model")]));
    let (path, body) = beginning(ModelApi::Responses);
    let text = body.to_string();
    let cases: [(&str, Beginning<'_>); 3] = [
        ("said nothing", &|_| {}),
        ("said half of it", &|stream| {
            let mut writer = stream;
            writer.write_all(b"POST /v1/responses HTTP/1.1\r\nHost: mo").unwrap();
        }),
        ("have their answer", &|stream| assert_eq!(ask(stream, path, &text), 200)),
    ];
    for (client, begin) in cases {
        let recorder = Recorder::allowing();
        let lab = Lab::with_http_gate(
            ModelApi::Responses,
            &model.base_url(),
            &recorder,
            Arc::new(AllowAll),
        );
        let address = lab.proxy.address();
        // The agent's program has called the gate before the agent starts, and stays connected.
        let program = connect(address);
        assert_eq!(ask(&program, GATE_PATH, "{}"), 200);
        let idle: Vec<TcpStream> = (0..MANY)
            .map(|_| {
                let stream = connect(address);
                begin(&stream);
                stream
            })
            .collect();
        // The gate and the model answer a new client, and the earlier one too.
        assert_eq!(post(address, GATE_PATH, &json!({})).status, 200, "{client}");
        assert_eq!(post(address, path, &body).status, 200, "{client}");
        assert_eq!(ask(&program, GATE_PATH, "{}"), 200, "{client}");
        let closed = || idle.iter().filter(|stream| has_ended(stream)).count();
        assert!(closed() > 0, "{client}: no connection was closed");
        if client == "have their answer" {
            assert!(!has_ended(idle.last().unwrap()), "the newest connection was closed");
        }
    }
}

#[test]
fn connection_without_a_request_is_closed_and_one_with_a_request_is_not() {
    let model = ScriptedModel::start(Script::new(vec![Turn::say("the model")]));
    let recorder = Recorder::allowing();
    let lab =
        Lab::with_http_gate(ModelApi::Responses, &model.base_url(), &recorder, Arc::new(AllowAll));
    let (silent, used) = (connect(lab.proxy.address()), connect(lab.proxy.address()));
    let (path, body) = beginning(ModelApi::Responses);
    assert_eq!(ask(&used, path, &body.to_string()), 200);
    becomes_true(|| has_ended(&silent));
    assert!(!has_ended(&used));
    used.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(ask(&used, path, &body.to_string()), 200);
}

#[test]
fn waiting_requests_leave_room_for_the_gate() {
    let model = ScriptedModel::start(Script::new(vec![Turn::say("the model")]));
    let (release, blocked) = watch::channel(false);
    let recorder = Recorder::with_admission(move |_| {
        let mut blocked = blocked.clone();
        Box::pin(async move {
            let _ = blocked.wait_for(|go| *go).await;
            Admission::Pass
        })
    });
    let lab =
        Lab::with_http_gate(ModelApi::Responses, &model.base_url(), &recorder, Arc::new(AllowAll));
    let address = lab.proxy.address();
    let (path, body) = beginning(ModelApi::Responses);
    let text = body.to_string();
    let mut waiting: Vec<TcpStream> = (0..MANY)
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(request("POST", path, &text).as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(post(address, GATE_PATH, &json!({})).status, 200);
    // Further requests are rejected and may be retried.
    assert_eq!(post(address, path, &body).status, 503);
    release.send(true).unwrap();
    let first_waiting = waiting.remove(0);
    assert_eq!(read_answer(&mut BufReader::new(first_waiting), |_| {}).status, 200);
    drop(waiting);
    becomes_true(|| post(address, path, &body).status == 200);
}

#[test]
fn incomplete_questions_do_not_block_others() {
    let recorder = Recorder::allowing();
    let lab = Lab::with_http_gate(
        ModelApi::Responses,
        "http://127.0.0.1:1",
        &recorder,
        Arc::new(AllowAll),
    );
    let address = lab.proxy.address();
    // They announce more bytes than they send. As many as are served at once, and some more.
    let open = request("POST", GATE_PATH, "{}").replace("Content-Length: 2", "Content-Length: 200");
    let incomplete: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(open.as_bytes()).unwrap();
            stream
        })
        .collect();
    let mut asking = connect(address);
    asking.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    asking.write_all(request("POST", GATE_PATH, "{}").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut BufReader::new(asking), |_| {}).status, 200);
    drop(incomplete);
}
