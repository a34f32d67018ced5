//! Who holds many connections to the proxy does not keep others from it, the gate above all.

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

/// More than the proxy takes at once.
const MANY: usize = 300;

/// Says yes.
struct Yes;

impl HttpGate for Yes {
    fn ask<'a>(
        &'a self,
        _posted: &'a [u8],
    ) -> Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>> {
        Box::pin(std::future::ready(Some("{}".to_owned())))
    }
}

/// A request after which the connection stays open.
fn staying(path: &str, body: &str) -> String {
    request("POST", path, body).replace("Connection: close\r\n", "")
}

/// Asks over a connection that is open already.
fn ask(stream: &TcpStream, path: &str, body: &str) -> u16 {
    let mut writer = stream;
    writer.write_all(staying(path, body).as_bytes()).unwrap();
    read_answer(&mut BufReader::new(stream.try_clone().unwrap()), |_| {}).status
}

#[track_caller]
fn comes_true(holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "it was waited for in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the other side has ended it.
fn has_ended(stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut reader = stream;
    !matches!(&reader.read(&mut [0; 1]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

/// What somebody does once with a connection.
type Beginning<'a> = &'a dyn Fn(&TcpStream);

#[test]
fn connections_that_ask_for_nothing_give_way() {
    let model = ScriptedModel::start(Script::new(vec![Turn::say("the model")]));
    let (path, body) = beginning(ModelApi::Responses);
    let text = body.to_string();
    let before: [(&str, Beginning<'_>); 3] = [
        ("said nothing", &|_| {}),
        ("said half of it", &|stream| {
            let mut writer = stream;
            writer.write_all(b"POST /v1/responses HTTP/1.1\r\nHost: mo").unwrap();
        }),
        ("have their answer", &|stream| assert_eq!(ask(stream, path, &text), 200)),
    ];
    for (who, begin) in before {
        let recorder = Recorder::passes();
        let lab =
            Lab::with_http_gate(ModelApi::Responses, &model.base_url(), &recorder, Arc::new(Yes));
        let address = lab.proxy.address();
        // Its own program has asked its gate before the agent does anything, and stays connected.
        let own = connect(address);
        assert_eq!(ask(&own, GATE_PATH, "{}"), 200);
        let held: Vec<TcpStream> = (0..MANY)
            .map(|_| {
                let stream = connect(address);
                begin(&stream);
                stream
            })
            .collect();
        // Somebody new is heard, by the gate and by the model; and so is who was there before.
        assert_eq!(post(address, GATE_PATH, &json!({})).status, 200, "{who}");
        assert_eq!(post(address, path, &body).status, 200, "{who}");
        assert_eq!(ask(&own, GATE_PATH, "{}"), 200, "{who}");
        let ended = || held.iter().filter(|stream| has_ended(stream)).count();
        assert!(ended() > 0, "{who}: nobody has given way");
        if who == "have their answer" {
            assert!(!has_ended(held.last().unwrap()), "not the one that has waited longest");
        }
    }
}

#[test]
fn who_says_nothing_at_all_is_ended_and_who_has_asked_is_not() {
    let model = ScriptedModel::start(Script::new(vec![Turn::say("the model")]));
    let recorder = Recorder::passes();
    let lab = Lab::with_http_gate(ModelApi::Responses, &model.base_url(), &recorder, Arc::new(Yes));
    let (silent, asked) = (connect(lab.proxy.address()), connect(lab.proxy.address()));
    let (path, body) = beginning(ModelApi::Responses);
    assert_eq!(ask(&asked, path, &body.to_string()), 200);
    comes_true(|| has_ended(&silent));
    assert!(!has_ended(&asked));
    asked.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(ask(&asked, path, &body.to_string()), 200);
}

#[test]
fn requests_that_wait_leave_room_for_the_gate() {
    let model = ScriptedModel::start(Script::new(vec![Turn::say("the model")]));
    let (let_go, held) = watch::channel(false);
    let recorder = Recorder::later(move |_| {
        let mut held = held.clone();
        Box::pin(async move {
            let _ = held.wait_for(|go| *go).await;
            Admission::Pass
        })
    });
    let lab = Lab::with_http_gate(ModelApi::Responses, &model.base_url(), &recorder, Arc::new(Yes));
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
    // More than that is turned away, and may try again.
    assert_eq!(post(address, path, &body).status, 503);
    let_go.send(true).unwrap();
    let first = waiting.remove(0);
    assert_eq!(read_answer(&mut BufReader::new(first), |_| {}).status, 200);
    drop(waiting);
    comes_true(|| post(address, path, &body).status == 200);
}

#[test]
fn questions_that_cannot_be_read_take_no_place_from_others() {
    let recorder = Recorder::passes();
    let lab =
        Lab::with_http_gate(ModelApi::Responses, "http://127.0.0.1:1", &recorder, Arc::new(Yes));
    let address = lab.proxy.address();
    // They say that more will come than they send. As many as can ask at once, and some more.
    let open = request("POST", GATE_PATH, "{}").replace("Content-Length: 2", "Content-Length: 200");
    let held: Vec<TcpStream> = (0..100)
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
    drop(held);
}
