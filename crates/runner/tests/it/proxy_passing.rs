//! Requests and answers pass through the proxy, and the observer is notified.

use std::io::{BufReader, Read as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use bailiwick_runner::proxy::{Admission, Key, ModelApi, ModelResponse, RenewedKey, ToolCall};
use bailiwick_testkit::scripted_model::{
    Call, INPUT_TOKENS, OUTPUT_TOKENS, Script, ScriptedModel, Turn,
};
use serde_json::json;

use crate::lab::becomes_true;
use crate::proxy_lab::{
    Answer, Host, Lab, Notification, Recorder, SECRET, STREAM, beginning, connect, post,
    read_answer, request, say, send,
};

const WIRES: [ModelApi; 4] =
    [ModelApi::Anthropic, ModelApi::Responses, ModelApi::Chat, ModelApi::Gemini];

fn model() -> ScriptedModel {
    let calls = vec![Call::shell("echo one"), Call::shell("echo two")];
    ScriptedModel::start(Script::new(vec![Turn::Calls(calls), Turn::say("finished")]))
}

#[test]
fn stream_passes_byte_by_byte_and_is_reported() {
    for wire in WIRES {
        let (model, observer) = (model(), Recorder::allowing());
        let lab = Lab::new(wire, Some(&model.base_url()), &observer);
        let (path, body) = beginning(wire);
        let answer = lab.post(path, &body);
        let direct = model.base_url().trim_start_matches("http://").parse().unwrap();
        let direct = post(direct, path, &body);
        assert_eq!((answer.status, answer.complete), (200, true), "{wire:?}");
        assert_eq!(answer.text(), direct.text(), "{wire:?}");
        assert!(answer.head.contains("text/event-stream"), "{wire:?}");
        let [request] = &observer.requests()[..] else { panic!("{:?}", observer.notifications()) };
        assert_eq!((request.model.as_str(), request.offers_tools), ("m", true), "{wire:?}");
        let [response] = &observer.responses()[..] else {
            panic!("{:?}", observer.notifications())
        };
        assert!(response.complete, "{wire:?}");
        assert_eq!(response.calls.len(), 2, "{wire:?}");
        assert_eq!(response.calls, observer.tool_calls(), "{wire:?}");
        let usage = &response.usage;
        assert_eq!((usage.input, usage.output), (INPUT_TOKENS, OUTPUT_TOKENS), "{wire:?}");
        assert_eq!(usage.model, "m", "{wire:?}");
    }
}

#[test]
fn only_the_model_gets_the_key_and_no_host_the_placeholder() {
    for wire in WIRES {
        let (model, observer) = (model(), Recorder::allowing());
        let lab = Lab::new(wire, Some(&model.base_url()), &observer);
        let (path, body) = beginning(wire);
        let answer = lab.post(path, &body);
        let requests = format!("{:?}", model.requests());
        assert!(requests.contains(SECRET), "{wire:?}");
        assert!(!requests.contains("placeholder"), "{wire:?}: {requests}");
        assert!(requests.contains("(\"x-kept\", \"yes\")"), "{wire:?}: {requests}");
        assert!(requests.contains("(\"accept-encoding\", \"identity\")"), "{wire:?}: {requests}");
        assert!(!format!("{}{}", answer.head, answer.text()).contains(SECRET), "{wire:?}");
        assert!(!format!("{:?}", observer.notifications()).contains(SECRET), "{wire:?}");
        let path = &model.requests()[0].path;
        let expected = match wire {
            ModelApi::Anthropic => "/v1/messages?beta=true",
            ModelApi::Responses => "/v1/responses",
            ModelApi::Chat => "/v1/chat/completions",
            ModelApi::Gemini => "/v1beta/models/m:streamGenerateContent?alt=sse",
        };
        assert_eq!(path, expected);
    }
}

#[test]
fn key_in_an_answer_is_not_passed_on() {
    let host = Host::start(|_, stream| {
        let body = format!("{{\"error\":\"bad key {SECRET}, yes {SECRET}\"}}");
        let length = body.len();
        say(stream, &format!("HTTP/1.1 401 No\r\nContent-Length: {length}\r\n\r\n{body}"));
    });
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let answer = lab.post(path, &body);
    assert_eq!(answer.status, 401);
    assert_eq!(answer.text(), "{\"error\":\"bad key [secret], yes [secret]\"}");
    assert!(observer.responses().is_empty(), "an error is not a turn");
}

#[test]
fn refused_key_is_reported_and_no_other_error_is() {
    for (status, expected) in [(401, 1), (403, 1), (429, 0), (500, 0)] {
        let host = Host::start(move |_, stream| {
            say(stream, &format!("HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\n{{}}"));
        });
        let observer = Recorder::allowing();
        let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
        let (path, body) = beginning(ModelApi::Anthropic);
        assert_eq!(lab.post(path, &body).status, status);
        let refused = |one: &Notification| matches!(one, Notification::KeyRefused(reported) if *reported == status);
        assert_eq!(
            observer.notifications().iter().filter(|one| refused(one)).count(),
            expected,
            "{status}"
        );
    }
}

#[test]
fn request_waits_for_its_admission() {
    let (release, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(Some(wait)));
    let observer = Recorder::with_admission(move |_| {
        let wait = wait.lock().unwrap().take().unwrap();
        Box::pin(async move {
            tokio::task::spawn_blocking(move || wait.recv()).await.unwrap().unwrap();
            Admission::Pass
        })
    });
    let model = model();
    let lab = Lab::new(ModelApi::Chat, Some(&model.base_url()), &observer);
    let (path, body) = beginning(ModelApi::Chat);
    std::thread::scope(|scope| {
        let request = scope.spawn(|| lab.post(path, &body));
        assert!(becomes_true(|| !observer.requests().is_empty()));
        std::thread::sleep(Duration::from_millis(100));
        assert!(model.requests().is_empty(), "it did not wait");
        release.send(()).unwrap();
        assert_eq!(request.join().unwrap().status, 200);
    });
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn refused_request_never_reaches_the_model() {
    for wire in WIRES {
        let model = model();
        let observer = Recorder::new(|_| Admission::Refuse("the budget is spent".to_owned()));
        let lab = Lab::new(wire, Some(&model.base_url()), &observer);
        let (path, body) = beginning(wire);
        let answer = lab.post(path, &body);
        assert_eq!(answer.status, 400, "{wire:?}");
        assert_eq!(answer.json()["error"]["message"], "bailiwick: the budget is spent");
        assert!(model.requests().is_empty(), "{wire:?}");
    }
}

#[test]
fn invalid_request_to_a_model_is_rejected() {
    let (model, observer) = (model(), Recorder::allowing());
    let lab = Lab::new(ModelApi::Anthropic, Some(&model.base_url()), &observer);
    let (path, good) = beginning(ModelApi::Anthropic);
    let address = lab.proxy.address();
    for (request, status) in [
        (request("POST", "/v1/files", "{}"), 404),
        (request("DELETE", "/v1/messages", ""), 404),
        (request("POST", path, "no json"), 400),
        (request("POST", path, "{\"model\":\"m\"}"), 400),
        (request("POST", path, "{\"messages\":[]}"), 400),
        (request("POST", path, &good.to_string()).replace("X-Kept", "Content-Encoding"), 400),
        (
            format!(
                "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 99999999\r\n\r\n"
            ),
            413,
        ),
        (request("GET", "http://example.com/", ""), 403),
        (request("POST", &format!("{}{path}", model.base_url()), &good.to_string()), 403),
    ] {
        let answer = send(address, &request);
        assert_eq!(answer.status, status, "{request}");
        assert_eq!(answer.json()["type"], "error", "{request}");
    }
    assert!(observer.requests().is_empty() && model.requests().is_empty());
    let notifications = observer.notifications();
    let is_denied_host =
        |notification: &&Notification| matches!(notification, Notification::Connected(_, false));
    assert_eq!(notifications.iter().filter(is_denied_host).count(), 2, "{notifications:?}");
    let is_rejection =
        |notification: &&Notification| matches!(notification, Notification::Rejected(_));
    assert_eq!(notifications.iter().filter(is_rejection).count(), 7, "{notifications:?}");
    assert_eq!(send(address, &request("GET", "/", "")).status, 200);
    assert_eq!(lab.post(path, &good).status, 200, "the control");
}

#[test]
fn call_is_reported_before_the_program_receives_it() {
    for wire in WIRES {
        // The bytes that the program has received when the call is reported.
        let received: Arc<Mutex<Vec<u8>>> = Arc::default();
        let at_call: Arc<Mutex<Vec<String>>> = Arc::default();
        let observer = {
            let (received, at_call) = (Arc::clone(&received), Arc::clone(&at_call));
            Recorder::on_call(move |_| {
                // Gives an answer that would come too early the time to come.
                std::thread::sleep(Duration::from_millis(100));
                let received = String::from_utf8(received.lock().unwrap().clone()).unwrap();
                at_call.lock().unwrap().push(received);
            })
        };
        let model = model();
        let (path, body) = beginning(wire);
        let direct = model.base_url().trim_start_matches("http://").parse().unwrap();
        let stream = post(direct, path, &body).text();
        let expected = stream.clone();
        let waits = Arc::clone(&received);
        let host = Host::start(move |_, out| {
            say(out, STREAM);
            say(out, ": hello\n\n");
            assert!(becomes_true(|| !waits.lock().unwrap().is_empty()));
            for byte in stream.as_bytes().chunks(7) {
                out.write_all(byte).unwrap();
                out.flush().unwrap();
            }
        });
        let lab = Lab::new(wire, Some(&host.base()), &observer);
        let mut client = connect(lab.proxy.address());
        client.write_all(request("POST", path, &body.to_string()).as_bytes()).unwrap();
        let answer = read_answer(&mut BufReader::new(client), |body| {
            *received.lock().unwrap() = body.to_vec();
        });
        assert_eq!(answer.text(), format!(": hello\n\n{expected}"));
        let at_call = at_call.lock().unwrap().clone();
        assert_eq!(at_call.len(), 2, "{wire:?}");
        for (received, call) in at_call.iter().zip(["echo one", "echo two"]) {
            assert!(received.starts_with(": hello"), "the control: the program received something");
            assert!(
                answer.text().contains(call),
                "the control: the program receives the call in the end"
            );
            let complete = match wire {
                // The input comes before the end of the part that completes the call.
                ModelApi::Anthropic => {
                    received.contains(call)
                        && received
                            .split(call)
                            .nth(1)
                            .is_some_and(|rest| rest.contains("content_block_stop"))
                }
                ModelApi::Responses => {
                    received.contains(call) && received.contains("output_item.done")
                }
                ModelApi::Chat | ModelApi::Gemini => received.contains(call),
            };
            let first_done = wire == ModelApi::Responses && call == "echo two";
            assert!(!complete || first_done, "{wire:?} {call}: {received}");
        }
    }
}

const BEGUN: &str = concat!(
    "data: {\"type\":\"message_start\",\"message\":{\"model\":\"big\",\"usage\":{\"input_tokens\":50,\"output_tokens\":1}}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"0123456789012345678901234567890123456789\"}}\n\n",
);

/// Sends a request, and counts the bytes of the answer.
fn listen(lab: &Lab, received: &AtomicUsize) -> Answer {
    let (path, body) = beginning(ModelApi::Anthropic);
    let mut client = connect(lab.proxy.address());
    client.write_all(request("POST", path, &body.to_string()).as_bytes()).unwrap();
    read_answer(&mut BufReader::new(client), |body| received.store(body.len(), Ordering::SeqCst))
}

fn only(observer: &Recorder) -> ModelResponse {
    assert!(becomes_true(|| !observer.responses().is_empty()), "{:?}", observer.notifications());
    let mut responses = observer.responses();
    assert_eq!(responses.len(), 1);
    responses.remove(0)
}

#[test]
fn interrupted_stream_is_counted_up_to_its_last_event() {
    let received = Arc::new(AtomicUsize::new(0));
    let waits = Arc::clone(&received);
    let host = Host::start(move |_, stream| {
        say(stream, &STREAM.replace("X-Host: here", "Content-Length: 99999"));
        say(stream, BEGUN);
        assert!(becomes_true(|| waits.load(Ordering::SeqCst) == BEGUN.len()));
    });
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let answer = listen(&lab, &received);
    assert_eq!((answer.complete, answer.text().as_str()), (false, BEGUN));
    let response = only(&observer);
    assert!(!response.complete);
    assert_eq!(response.text.len(), 40);
    assert_eq!((response.usage.input, response.usage.output), (50, 10));
    assert_eq!(response.usage.model, "big");
}

#[test]
fn model_that_fails_before_its_first_event_costs_nothing() {
    let silent = STREAM.replace("X-Host: here", "Content-Length: 99999");
    for early_answer in [String::new(), silent] {
        let host = Host::start(move |_, stream| say(stream, &early_answer));
        let observer = Recorder::allowing();
        let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
        let (path, body) = beginning(ModelApi::Anthropic);
        let answer = lab.post(path, &body);
        assert!(!answer.complete || answer.status != 200, "{}", answer.text());
        assert!(
            !becomes_true_soon(|| !observer.responses().is_empty()),
            "{:?}",
            observer.responses()
        );
    }
}

/// Whether a condition becomes true within a period that is normally long enough.
fn becomes_true_soon(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_millis(500);
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn stream_that_breaks_after_its_last_event_is_complete() {
    let end = format!("{BEGUN}data: {{\"type\":\"message_stop\"}}\n\n");
    let sent = end.clone();
    let host = Host::start(move |_, stream| {
        let head = STREAM.replace("X-Host: here", "Content-Length: 99999");
        say(stream, &format!("{head}{sent}"));
    });
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let answer = lab.post(path, &body);
    assert_eq!((answer.complete, answer.text()), (true, end));
    assert!(only(&observer).complete);
}

#[test]
fn stream_that_ends_early_without_an_error_is_not_complete() {
    let host = Host::start(|_, stream| {
        say(stream, STREAM);
        say(stream, BEGUN);
    });
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    assert!(lab.post(path, &body).complete);
    assert!(!only(&observer).complete);
}

/// A host whose stream never ends, and the number of bytes that were read from it.
fn endless() -> (Host, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let host = Host::start(move |_, stream| {
        say(stream, STREAM);
        say(stream, BEGUN);
        let ping = format!("data: {{\"type\":\"ping\",\"x\":\"{}\"}}\n\n", "x".repeat(60_000));
        while stream.write_all(ping.as_bytes()).is_ok() {
            count.fetch_add(ping.len(), Ordering::SeqCst);
        }
        count.store(usize::MAX, Ordering::SeqCst);
    });
    (host, sent)
}

#[test]
fn disconnected_program_ends_the_answer_of_the_model() {
    let (host, sent) = endless();
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let mut client = connect(lab.proxy.address());
    client.write_all(request("POST", path, &body.to_string()).as_bytes()).unwrap();
    let mut received = String::new();
    while !received.contains("text_delta") {
        let mut piece = [0; 100];
        let count = client.read(&mut piece).unwrap();
        received.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    drop(client);
    let response = only(&observer);
    assert!(!response.complete);
    assert_eq!((response.usage.input, observer.released_requests()), (50, 0));
    assert!(becomes_true(|| sent.load(Ordering::SeqCst) == usize::MAX), "the host still sends");
}

#[test]
fn answer_that_nobody_waits_for_is_still_counted() {
    let (request_sent, request_received) = mpsc::channel();
    let request_sent = Mutex::new(request_sent);
    let host = Host::start(move |_, stream| {
        request_sent.lock().unwrap().send(()).unwrap();
        // Until the proxy has stopped too.
        let _ = stream.read(&mut [0; 1]);
    });
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let mut client = connect(lab.proxy.address());
    client.write_all(request("POST", path, &body.to_string()).as_bytes()).unwrap();
    request_received.recv().unwrap();
    drop(client);
    let response = only(&observer);
    assert!(!response.complete);
    let about = body.to_string().len().div_ceil(4) as u64;
    assert_eq!((response.usage.input, response.usage.output), (about, 1));
}

#[test]
fn program_that_does_not_read_slows_the_model_down() {
    let (host, sent) = endless();
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let mut client = connect(lab.proxy.address());
    client.write_all(request("POST", path, &body.to_string()).as_bytes()).unwrap();
    let mut last = usize::MAX;
    let stalled = becomes_true(|| {
        std::thread::sleep(Duration::from_millis(300));
        let current = sent.load(Ordering::SeqCst);
        current > 0 && std::mem::replace(&mut last, current) == current
    });
    assert!(stalled, "the host never stops sending");
    assert!(last < 64 << 20, "{last} bytes are buffered");
    lab.stop();
    assert!(!only(&observer).complete, "a stopped proxy has reported");
}

#[test]
fn unreadable_answer_is_not_passed_on() {
    for bad in ["data: no json\n\n".to_owned(), format!("data: {}", "x".repeat(17 << 20))] {
        let received = Arc::new(AtomicUsize::new(0));
        let (sent, waits) = (bad.clone(), Arc::clone(&received));
        let host = Host::start(move |_, stream| {
            say(stream, STREAM);
            say(stream, BEGUN);
            assert!(becomes_true(|| waits.load(Ordering::SeqCst) == BEGUN.len()));
            say(stream, &sent);
        });
        let observer = Recorder::allowing();
        let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
        let answer = listen(&lab, &received);
        assert_eq!((answer.complete, answer.text().as_str()), (false, BEGUN));
        assert!(!only(&observer).complete);
        let is_rejection =
            |notification: &Notification| matches!(notification, Notification::Rejected(_));
        assert!(observer.notifications().iter().any(is_rejection));
    }
    let host = Host::start(|_, stream| {
        let head = STREAM.replace("X-Host: here", "Content-Encoding: gzip");
        say(stream, &head);
    });
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    assert_eq!(lab.post(path, &body).status, 502);
}

fn host_with_answer(text: &str) -> Host {
    let text = text.to_owned();
    Host::start(move |_, stream| {
        let length = text.len();
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            ),
        );
    })
}

#[test]
fn answer_that_is_not_a_stream_is_read_too() {
    let text = json!({"model": "m", "choices": [{"finish_reason": "tool_calls", "message": {
        "content": "Look.", "tool_calls": [{"id": "a", "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}],
    }}]});
    let host = host_with_answer(&format!(" {text} "));
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Chat, Some(&host.base()), &observer);
    let (path, mut body) = beginning(ModelApi::Chat);
    body["stream"] = json!(false);
    let answer = lab.post(path, &body);
    assert_eq!((answer.status, answer.text()), (200, format!(" {text} ")));
    let response = only(&observer);
    assert!(response.complete);
    let call = ToolCall { id: "a".into(), tool: "bash".into(), input: json!({"command": "ls"}) };
    assert_eq!((response.calls, response.text.as_str()), (vec![call], "Look."));
    assert!(response.usage.input > 0 && response.usage.output > 0, "the usage is counted");
}

#[test]
fn side_paths_pass_and_are_not_turns() {
    let host = host_with_answer("{\"input_tokens\":5}");
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (_, body) = beginning(ModelApi::Anthropic);
    let answer = lab.post("/v1/messages/count_tokens?beta=true", &body);
    assert_eq!((answer.status, answer.text().as_str()), (200, "{\"input_tokens\":5}"));
    assert!(observer.notifications().is_empty(), "{:?}", observer.notifications());
    assert!(host.heads.lock().unwrap()[0].contains(SECRET));
}

/// At Google, other parameters select the format of the answer or who pays for it.
#[test]
fn unknown_parameters_do_not_reach_an_anthropic_model() {
    let host = host_with_answer("{\"input_tokens\":5}");
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (_, body) = beginning(ModelApi::Anthropic);
    let google = "/publishers/anthropic/models/some-model:streamRawPredict";
    for path in ["/v1/messages", "/v1/messages/count_tokens", google] {
        for query in ["alt=json", "beta=true&$alt=proto", "beta=true&userProject=other"] {
            assert_eq!(lab.post(&format!("{path}?{query}"), &body).status, 400, "{path}?{query}");
        }
    }
    let refused = observer
        .notifications()
        .iter()
        .all(|notification| matches!(notification, Notification::Rejected(_)));
    assert!(refused && observer.notifications().len() == 9, "{:?}", observer.notifications());
    assert_eq!(*host.heads.lock().unwrap(), [""; 0], "no request has reached the host");
    assert_eq!(lab.post("/v1/messages/count_tokens?beta=true", &body).status, 200);
}

#[test]
fn base_may_have_a_path_and_errors_pass_unchanged() {
    let host = Host::start(|_, stream| {
        say(stream, "HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nslow");
    });
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&format!("{}/deep/er/", host.base())), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let Answer { status, head, body, .. } = lab.post(&format!("/mine{path}"), &body);
    assert_eq!((status, body.as_slice()), (429, b"slow".as_slice()));
    assert!(head.contains("retry-after: 7"), "{head}");
    let heads = host.heads.lock().unwrap().clone();
    assert!(heads[0].starts_with("post /deep/er/v1/messages?beta=true "), "{heads:?}");
    assert!(observer.responses().is_empty());
    assert_eq!(
        observer.released_requests(),
        1,
        "the observer is notified that the request ended without an answer"
    );
}

#[test]
fn missing_or_unreachable_model_is_an_error() {
    let (path, body) = beginning(ModelApi::Responses);
    let lab = Lab::new(ModelApi::Responses, None, &Recorder::allowing());
    assert_eq!(lab.post(path, &body).status, 400);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Responses, Some(&format!("http://{closed}")), &observer);
    let answer = lab.post(path, &body);
    assert!(observer.responses().is_empty(), "nothing was sent and nothing is counted");
    assert_eq!(observer.released_requests(), 1);
    assert_eq!(answer.status, 502);
    assert!(!answer.text().contains(SECRET));
    // The host is reached but does not speak TLS: the key is not sent.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    let received = std::thread::spawn(move || {
        let mut bytes = vec![0; 4096];
        let count = listener.accept().unwrap().0.read(&mut bytes).unwrap();
        bytes[..count].to_vec()
    });
    let lab = Lab::new(ModelApi::Responses, Some(&base), &Recorder::allowing());
    assert_eq!(lab.post(path, &body).status, 502);
    let received = received.join().unwrap();
    assert_eq!(received.first(), Some(&22), "the beginning of TLS");
    assert!(!String::from_utf8_lossy(&received).contains(SECRET));
}

#[test]
fn concurrent_requests_are_all_answered() {
    let (model, observer) = (model(), Recorder::allowing());
    let lab = Lab::new(ModelApi::Anthropic, Some(&model.base_url()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..40).map(|_| scope.spawn(|| lab.post(path, &body))).collect();
        for request in all {
            let answer = request.join().unwrap();
            assert_eq!((answer.status, answer.complete), (200, true));
        }
    });
    assert_eq!(observer.responses().len(), 40);
    assert_eq!(observer.tool_calls().len(), 80);
}

#[test]
fn concurrent_long_requests_are_not_all_buffered() {
    let (release, wait) = tokio::sync::watch::channel(false);
    let observer = Recorder::with_admission(move |_| {
        let mut wait = wait.clone();
        Box::pin(async move {
            wait.wait_for(|released| *released).await.unwrap();
            Admission::Say("read".to_owned())
        })
    });
    let lab = Lab::new(ModelApi::Anthropic, None, &observer);
    let address = lab.proxy.address();
    let (path, mut body) = beginning(ModelApi::Anthropic);
    body["messages"] = json!([{"role": "user", "content": "x".repeat(63 << 20)}]);
    let long = request("POST", path, &body.to_string());
    body["messages"] = json!([{"role": "user", "content": "x".repeat(3 << 20)}]);
    let short = request("POST", path, &body.to_string());
    std::thread::scope(|scope| {
        let long_requests: Vec<_> = (0..2).map(|_| scope.spawn(|| send(address, &long))).collect();
        assert!(becomes_true(|| observer.requests().len() == 2));
        let mut third = connect(address);
        // It may be rejected before it has sent everything.
        let _ = third.write_all(short.as_bytes());
        let is_rejection =
            |notification: &Notification| matches!(notification, Notification::Rejected(_));
        assert!(becomes_true(|| observer.notifications().iter().any(is_rejection)));
        assert_eq!(observer.requests().len(), 2);
        release.send(true).unwrap();
        for pending in long_requests {
            assert_eq!(pending.join().unwrap().status, 200);
        }
    });
    assert_eq!(send(address, &short).status, 200, "memory is available again");
}

#[test]
fn details_of_an_expired_login_are_shown_to_the_observer_only() {
    let key = Key::new("x-api-key", SECRET).unwrap();
    let first = RenewedKey { key, until: Some(std::time::SystemTime::UNIX_EPOCH) };
    let key = Key::renewed(first, || Err("aws: ada@acme, account 1234".to_owned()));
    let observer = Recorder::allowing();
    let lab = Lab::with_key(ModelApi::Anthropic, "http://127.0.0.1:1", &observer, key);
    let (path, body) = beginning(ModelApi::Anthropic);
    let answer = lab.post(path, &body);
    assert_eq!(answer.status, 502);
    let text = answer.text();
    assert!(text.contains("a person must log in again") && !text.contains("acme"), "{text}");
    let is_reported = |notification: &Notification| matches!(notification, Notification::Rejected(why) if why.contains("ada@acme"));
    assert!(observer.notifications().iter().any(is_reported), "{:?}", observer.notifications());
}

/// A key with this number, valid for an hour.
fn numbered(number: usize) -> RenewedKey {
    let key = Key::new("authorization", &format!("Bearer the-renewed-token-{number}")).unwrap();
    let until = std::time::SystemTime::now().checked_add(Duration::from_hours(1));
    RenewedKey { key, until }
}

#[test]
fn key_that_the_model_refuses_is_renewed_and_the_request_retried_once() {
    let unauthorized = "401 Unauthorized";
    let expired = "403 Forbidden\r\nx-amzn-ErrorType: ExpiredTokenException:http://internal";
    let forbidden = "403 Forbidden\r\nx-amzn-ErrorType: AccessDeniedException";
    // The numbers of the later keys, how many requests are refused and how, the status that the program
    // gets, and the keys that were tried.
    let cases: [(&[usize], _, u16, &[usize]); 7] = [
        (&[1], (1, unauthorized), 200, &[0, 1]),
        (&[1, 2], (9, unauthorized), 401, &[0, 1]),
        // The same key again is not a new one, and there may be no further key.
        (&[0], (9, unauthorized), 401, &[0]),
        (&[], (9, unauthorized), 401, &[0]),
        // Amazon's key has expired, or lacks the permission.
        (&[1], (1, expired), 200, &[0, 1]),
        (&[1], (1, forbidden), 403, &[0]),
        (&[1], (1, "403 Forbidden"), 403, &[0]),
    ];
    for (available, (refused, refusal), status, tried) in cases {
        let requests = AtomicUsize::new(0);
        let host = Host::start(move |_, stream| {
            if requests.fetch_add(1, Ordering::SeqCst) < refused {
                let head = "Content-Length: 2\r\nConnection: close";
                say(stream, &format!("HTTP/1.1 {refusal}\r\n{head}\r\n\r\n{{}}"));
            } else {
                say(stream, STREAM);
            }
        });
        let (available, next) = (available.to_vec(), AtomicUsize::new(0));
        let key = Key::renewed(numbered(0), move || {
            let index = next.fetch_add(1, Ordering::SeqCst);
            available
                .get(index)
                .map(|number| numbered(*number))
                .ok_or_else(|| "there is none".to_owned())
        });
        let hidden: Arc<Mutex<Vec<String>>> = Arc::default();
        let hides = Arc::clone(&hidden);
        key.on_secret(move |secret| hides.lock().unwrap().push(secret));
        let lab = Lab::with_key(ModelApi::Anthropic, &host.base(), &Recorder::allowing(), key);
        let (path, body) = beginning(ModelApi::Anthropic);
        let answer = lab.post(path, &body);
        assert_eq!(answer.status, status, "{tried:?}");
        assert!(!answer.text().contains("the-renewed-token"), "{tried:?}");
        let heads = host.heads.lock().unwrap().clone();
        let token = |head: &String| {
            let line = head.lines().find_map(|line| line.strip_prefix("authorization: bearer "));
            line.map(str::to_owned).unwrap_or_default()
        };
        let tokens_seen: Vec<String> = heads.iter().map(token).collect();
        let expected: Vec<String> =
            tried.iter().map(|number| format!("the-renewed-token-{number}")).collect();
        assert_eq!(tokens_seen, expected);
        // The redaction knows every renewed token.
        let hidden = hidden.lock().unwrap();
        assert!(tokens_seen.iter().skip(1).all(|token| hidden.contains(token)), "{hidden:?}");
    }
}

#[test]
fn dropped_proxy_closes_its_connections() {
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Chat, None, &observer);
    let address = lab.proxy.address();
    let mut open = connect(address);
    let Lab { runtime, proxy } = lab;
    drop(proxy);
    assert!(becomes_true(|| std::net::TcpStream::connect(address).is_err()));
    let read_bytes = open.read(&mut [0; 1]);
    assert_eq!(read_bytes.unwrap_or(0), 0, "a connection stayed open");
    drop(runtime);
}
