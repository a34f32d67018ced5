//! What passes through the proxy, and what is told of it.

use std::io::{BufReader, Read as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use bailiwick_runner::proxy::{Admission, Key, ModelApi, ModelResponse, RenewedKey, ToolCall};
use bailiwick_testkit::scripted_model::{
    Call, INPUT_TOKENS, OUTPUT_TOKENS, Script, ScriptedModel, Turn,
};
use serde_json::json;

use crate::lab::comes_true;
use crate::proxy_lab::{
    Answer, Host, Lab, Recorder, SECRET, STREAM, Told, beginning, connect, post, read_answer,
    request, say, send,
};

const WIRES: [ModelApi; 4] =
    [ModelApi::Anthropic, ModelApi::Responses, ModelApi::Chat, ModelApi::Gemini];

fn model() -> ScriptedModel {
    let calls = vec![Call::shell("echo one"), Call::shell("echo two")];
    ScriptedModel::start(Script::new(vec![Turn::Calls(calls), Turn::say("finished")]))
}

#[test]
fn a_stream_passes_byte_by_byte_and_is_told() {
    for wire in WIRES {
        let (model, observer) = (model(), Recorder::passes());
        let lab = Lab::new(wire, Some(&model.base_url()), &observer);
        let (path, body) = beginning(wire);
        let through = lab.post(path, &body);
        let direct = model.base_url().trim_start_matches("http://").parse().unwrap();
        let direct = post(direct, path, &body);
        assert_eq!((through.status, through.whole), (200, true), "{wire:?}");
        assert_eq!(through.text(), direct.text(), "{wire:?}");
        assert!(through.head.contains("text/event-stream"), "{wire:?}");
        let [asked] = &observer.asked()[..] else { panic!("{:?}", observer.told()) };
        assert_eq!((asked.model.as_str(), asked.offers_tools), ("m", true), "{wire:?}");
        let [answered] = &observer.answered()[..] else { panic!("{:?}", observer.told()) };
        assert!(answered.complete, "{wire:?}");
        assert_eq!(answered.calls.len(), 2, "{wire:?}");
        assert_eq!(answered.calls, observer.called(), "{wire:?}");
        let usage = &answered.usage;
        assert_eq!((usage.input, usage.output), (INPUT_TOKENS, OUTPUT_TOKENS), "{wire:?}");
        assert_eq!(usage.model, "m", "{wire:?}");
    }
}

#[test]
fn the_key_is_seen_by_the_model_alone_and_the_placeholder_by_nobody() {
    for wire in WIRES {
        let (model, observer) = (model(), Recorder::passes());
        let lab = Lab::new(wire, Some(&model.base_url()), &observer);
        let (path, body) = beginning(wire);
        let answer = lab.post(path, &body);
        let requests = format!("{:?}", model.requests());
        assert!(requests.contains(SECRET), "{wire:?}");
        assert!(!requests.contains("placeholder"), "{wire:?}: {requests}");
        assert!(requests.contains("(\"x-kept\", \"yes\")"), "{wire:?}: {requests}");
        assert!(requests.contains("(\"accept-encoding\", \"identity\")"), "{wire:?}: {requests}");
        assert!(!format!("{}{}", answer.head, answer.text()).contains(SECRET), "{wire:?}");
        assert!(!format!("{:?}", observer.told()).contains(SECRET), "{wire:?}");
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
fn a_host_that_repeats_the_key_is_not_repeated() {
    let host = Host::start(|_, stream| {
        let body = format!("{{\"error\":\"bad key {SECRET}, yes {SECRET}\"}}");
        let length = body.len();
        say(stream, &format!("HTTP/1.1 401 No\r\nContent-Length: {length}\r\n\r\n{body}"));
    });
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let answer = lab.post(path, &body);
    assert_eq!(answer.status, 401);
    assert_eq!(answer.text(), "{\"error\":\"bad key [secret], yes [secret]\"}");
    assert!(observer.answered().is_empty(), "an error is no turn");
}

#[test]
fn a_refused_key_is_told_and_no_other_error_is() {
    for (status, told) in [(401, 1), (403, 1), (429, 0), (500, 0)] {
        let host = Host::start(move |_, stream| {
            say(stream, &format!("HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\n{{}}"));
        });
        let observer = Recorder::passes();
        let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
        let (path, body) = beginning(ModelApi::Anthropic);
        assert_eq!(lab.post(path, &body).status, status);
        let refused = |one: &Told| matches!(one, Told::KeyRefused(as_said) if *as_said == status);
        assert_eq!(observer.told().iter().filter(|one| refused(one)).count(), told, "{status}");
    }
}

#[test]
fn a_request_waits_for_its_admission() {
    let (let_go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(Some(wait)));
    let observer = Recorder::later(move |_| {
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
        let asks = scope.spawn(|| lab.post(path, &body));
        assert!(comes_true(|| !observer.asked().is_empty()));
        std::thread::sleep(Duration::from_millis(100));
        assert!(model.requests().is_empty(), "it did not wait");
        let_go.send(()).unwrap();
        assert_eq!(asks.join().unwrap().status, 200);
    });
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn a_refused_request_never_reaches_the_model() {
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
fn what_is_no_request_to_a_model_goes_nowhere() {
    let (model, observer) = (model(), Recorder::passes());
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
    assert!(observer.asked().is_empty() && model.requests().is_empty());
    let told = observer.told();
    let host = |told: &&Told| matches!(told, Told::Connected(_, false));
    assert_eq!(told.iter().filter(host).count(), 2, "{told:?}");
    let away = |told: &&Told| matches!(told, Told::TurnedAway(_));
    assert_eq!(told.iter().filter(away).count(), 7, "{told:?}");
    assert_eq!(send(address, &request("GET", "/", "")).status, 200);
    assert_eq!(lab.post(path, &good).status, 200, "the control");
}

#[test]
fn a_call_is_told_before_the_program_hears_of_it() {
    for wire in WIRES {
        // What the program has heard by the time that we are told.
        let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
        let at_call: Arc<Mutex<Vec<String>>> = Arc::default();
        let observer = {
            let (heard, at_call) = (Arc::clone(&heard), Arc::clone(&at_call));
            Recorder::hearing(move |_| {
                // What would come too early has time to come.
                std::thread::sleep(Duration::from_millis(100));
                let heard = String::from_utf8(heard.lock().unwrap().clone()).unwrap();
                at_call.lock().unwrap().push(heard);
            })
        };
        let model = model();
        let (path, body) = beginning(wire);
        let direct = model.base_url().trim_start_matches("http://").parse().unwrap();
        let stream = post(direct, path, &body).text();
        let expected = stream.clone();
        let waits = Arc::clone(&heard);
        let host = Host::start(move |_, out| {
            say(out, STREAM);
            say(out, ": hello\n\n");
            assert!(comes_true(|| !waits.lock().unwrap().is_empty()));
            for byte in stream.as_bytes().chunks(7) {
                out.write_all(byte).unwrap();
                out.flush().unwrap();
            }
        });
        let lab = Lab::new(wire, Some(&host.base()), &observer);
        let mut client = connect(lab.proxy.address());
        client.write_all(request("POST", path, &body.to_string()).as_bytes()).unwrap();
        let answer = read_answer(&mut BufReader::new(client), |body| {
            *heard.lock().unwrap() = body.to_vec();
        });
        assert_eq!(answer.text(), format!(": hello\n\n{expected}"));
        let at_call = at_call.lock().unwrap().clone();
        assert_eq!(at_call.len(), 2, "{wire:?}");
        for (heard, call) in at_call.iter().zip(["echo one", "echo two"]) {
            assert!(heard.starts_with(": hello"), "the control: something was heard");
            assert!(answer.text().contains(call), "the control: it is heard in the end");
            let whole = match wire {
                // The input comes before the end of the part that makes a call of it.
                ModelApi::Anthropic => {
                    heard.contains(call)
                        && heard
                            .split(call)
                            .nth(1)
                            .is_some_and(|rest| rest.contains("content_block_stop"))
                }
                ModelApi::Responses => heard.contains(call) && heard.contains("output_item.done"),
                ModelApi::Chat | ModelApi::Gemini => heard.contains(call),
            };
            let first_done = wire == ModelApi::Responses && call == "echo two";
            assert!(!whole || first_done, "{wire:?} {call}: {heard}");
        }
    }
}

const BEGUN: &str = concat!(
    "data: {\"type\":\"message_start\",\"message\":{\"model\":\"big\",\"usage\":{\"input_tokens\":50,\"output_tokens\":1}}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"0123456789012345678901234567890123456789\"}}\n\n",
);

/// Asks, and says how much has been heard of the answer.
fn listen(lab: &Lab, heard: &AtomicUsize) -> Answer {
    let (path, body) = beginning(ModelApi::Anthropic);
    let mut client = connect(lab.proxy.address());
    client.write_all(request("POST", path, &body.to_string()).as_bytes()).unwrap();
    read_answer(&mut BufReader::new(client), |body| heard.store(body.len(), Ordering::SeqCst))
}

fn only(observer: &Recorder) -> ModelResponse {
    assert!(comes_true(|| !observer.answered().is_empty()), "{:?}", observer.told());
    let mut answered = observer.answered();
    assert_eq!(answered.len(), 1);
    answered.remove(0)
}

#[test]
fn a_stream_that_breaks_off_is_counted_as_far_as_it_came() {
    let heard = Arc::new(AtomicUsize::new(0));
    let waits = Arc::clone(&heard);
    let host = Host::start(move |_, stream| {
        say(stream, &STREAM.replace("X-Host: here", "Content-Length: 99999"));
        say(stream, BEGUN);
        assert!(comes_true(|| waits.load(Ordering::SeqCst) == BEGUN.len()));
    });
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let answer = listen(&lab, &heard);
    assert_eq!((answer.whole, answer.text().as_str()), (false, BEGUN));
    let answered = only(&observer);
    assert!(!answered.complete);
    assert_eq!(answered.text.len(), 40);
    assert_eq!((answered.usage.input, answered.usage.output), (50, 10));
    assert_eq!(answered.usage.model, "big");
}

#[test]
fn a_model_that_fails_before_it_says_anything_costs_nothing() {
    let silent = STREAM.replace("X-Host: here", "Content-Length: 99999");
    for said in [String::new(), silent] {
        let host = Host::start(move |_, stream| say(stream, &said));
        let observer = Recorder::passes();
        let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
        let (path, body) = beginning(ModelApi::Anthropic);
        let answer = lab.post(path, &body);
        assert!(!answer.whole || answer.status != 200, "{}", answer.text());
        assert!(!comes_soon(|| !observer.answered().is_empty()), "{:?}", observer.answered());
    }
}

/// Whether something holds within a moment in which it would long have come.
fn comes_soon(holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_millis(500);
    while Instant::now() < deadline {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn a_stream_that_breaks_off_after_its_last_word_is_whole() {
    let end = format!("{BEGUN}data: {{\"type\":\"message_stop\"}}\n\n");
    let sent = end.clone();
    let host = Host::start(move |_, stream| {
        let head = STREAM.replace("X-Host: here", "Content-Length: 99999");
        say(stream, &format!("{head}{sent}"));
    });
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let answer = lab.post(path, &body);
    assert_eq!((answer.whole, answer.text()), (true, end));
    assert!(only(&observer).complete);
}

#[test]
fn a_stream_that_ends_early_without_an_error_is_not_complete() {
    let host = Host::start(|_, stream| {
        say(stream, STREAM);
        say(stream, BEGUN);
    });
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    assert!(lab.post(path, &body).whole);
    assert!(!only(&observer).complete);
}

/// A host whose stream never ends, and how much of it has been taken.
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
fn a_program_that_goes_away_ends_the_models_answer_too() {
    let (host, sent) = endless();
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let mut client = connect(lab.proxy.address());
    client.write_all(request("POST", path, &body.to_string()).as_bytes()).unwrap();
    let mut heard = String::new();
    while !heard.contains("text_delta") {
        let mut piece = [0; 100];
        let count = client.read(&mut piece).unwrap();
        heard.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    drop(client);
    let answered = only(&observer);
    assert!(!answered.complete);
    assert_eq!((answered.usage.input, observer.dismissed()), (50, 0));
    assert!(comes_true(|| sent.load(Ordering::SeqCst) == usize::MAX), "the host still sends");
}

#[test]
fn what_nobody_waited_for_is_counted_all_the_same() {
    let (asked, hears) = mpsc::channel();
    let asked = Mutex::new(asked);
    let host = Host::start(move |_, stream| {
        asked.lock().unwrap().send(()).unwrap();
        // Until the proxy is gone too.
        let _ = stream.read(&mut [0; 1]);
    });
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let mut client = connect(lab.proxy.address());
    client.write_all(request("POST", path, &body.to_string()).as_bytes()).unwrap();
    hears.recv().unwrap();
    drop(client);
    let answered = only(&observer);
    assert!(!answered.complete);
    let about = body.to_string().len().div_ceil(4) as u64;
    assert_eq!((answered.usage.input, answered.usage.output), (about, 1));
}

#[test]
fn a_program_that_does_not_read_holds_the_model_back() {
    let (host, sent) = endless();
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let mut client = connect(lab.proxy.address());
    client.write_all(request("POST", path, &body.to_string()).as_bytes()).unwrap();
    let mut last = usize::MAX;
    let stands = comes_true(|| {
        std::thread::sleep(Duration::from_millis(300));
        let now = sent.load(Ordering::SeqCst);
        now > 0 && std::mem::replace(&mut last, now) == now
    });
    assert!(stands, "it goes on for ever");
    assert!(last < 64 << 20, "{last} bytes are kept somewhere");
    lab.stop();
    assert!(!only(&observer).complete, "a stopped proxy has reported");
}

#[test]
fn what_cannot_be_read_is_not_handed_on() {
    for bad in ["data: no json\n\n".to_owned(), format!("data: {}", "x".repeat(17 << 20))] {
        let heard = Arc::new(AtomicUsize::new(0));
        let (sent, waits) = (bad.clone(), Arc::clone(&heard));
        let host = Host::start(move |_, stream| {
            say(stream, STREAM);
            say(stream, BEGUN);
            assert!(comes_true(|| waits.load(Ordering::SeqCst) == BEGUN.len()));
            say(stream, &sent);
        });
        let observer = Recorder::passes();
        let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
        let answer = listen(&lab, &heard);
        assert_eq!((answer.whole, answer.text().as_str()), (false, BEGUN));
        assert!(!only(&observer).complete);
        let away = |told: &Told| matches!(told, Told::TurnedAway(_));
        assert!(observer.told().iter().any(away));
    }
    let host = Host::start(|_, stream| {
        let head = STREAM.replace("X-Host: here", "Content-Encoding: gzip");
        say(stream, &head);
    });
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    assert_eq!(lab.post(path, &body).status, 502);
}

fn whole_answer(text: &str) -> Host {
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
fn an_answer_that_is_no_stream_is_read_too() {
    let text = json!({"model": "m", "choices": [{"finish_reason": "tool_calls", "message": {
        "content": "Look.", "tool_calls": [{"id": "a", "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}],
    }}]});
    let host = whole_answer(&format!(" {text} "));
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Chat, Some(&host.base()), &observer);
    let (path, mut body) = beginning(ModelApi::Chat);
    body["stream"] = json!(false);
    let answer = lab.post(path, &body);
    assert_eq!((answer.status, answer.text()), (200, format!(" {text} ")));
    let answered = only(&observer);
    assert!(answered.complete);
    let call = ToolCall { id: "a".into(), tool: "bash".into(), input: json!({"command": "ls"}) };
    assert_eq!((answered.calls, answered.text.as_str()), (vec![call], "Look."));
    assert!(answered.usage.input > 0 && answered.usage.output > 0, "nothing is free");
}

#[test]
fn side_paths_pass_and_are_no_turn() {
    let host = whole_answer("{\"input_tokens\":5}");
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (_, body) = beginning(ModelApi::Anthropic);
    let answer = lab.post("/v1/messages/count_tokens?beta=true", &body);
    assert_eq!((answer.status, answer.text().as_str()), (200, "{\"input_tokens\":5}"));
    assert!(observer.told().is_empty(), "{:?}", observer.told());
    assert!(host.heads.lock().unwrap()[0].contains(SECRET));
}

/// At Google's, other parameters say how the answer is written, or who pays for it.
#[test]
fn parameters_that_no_program_sends_do_not_reach_a_model_of_anthropic() {
    let host = whole_answer("{\"input_tokens\":5}");
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Anthropic, Some(&host.base()), &observer);
    let (_, body) = beginning(ModelApi::Anthropic);
    let google = "/publishers/anthropic/models/some-model:streamRawPredict";
    for path in ["/v1/messages", "/v1/messages/count_tokens", google] {
        for query in ["alt=json", "beta=true&$alt=proto", "beta=true&userProject=other"] {
            assert_eq!(lab.post(&format!("{path}?{query}"), &body).status, 400, "{path}?{query}");
        }
    }
    let refused = observer.told().iter().all(|told| matches!(told, Told::TurnedAway(_)));
    assert!(refused && observer.told().len() == 9, "{:?}", observer.told());
    assert_eq!(*host.heads.lock().unwrap(), [""; 0], "nothing has reached it");
    assert_eq!(lab.post("/v1/messages/count_tokens?beta=true", &body).status, 200);
}

#[test]
fn a_base_may_have_a_path_and_errors_pass_as_they_are() {
    let host = Host::start(|_, stream| {
        say(stream, "HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nslow");
    });
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Anthropic, Some(&format!("{}/deep/er/", host.base())), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    let Answer { status, head, body, .. } = lab.post(&format!("/mine{path}"), &body);
    assert_eq!((status, body.as_slice()), (429, b"slow".as_slice()));
    assert!(head.contains("retry-after: 7"), "{head}");
    let heads = host.heads.lock().unwrap().clone();
    assert!(heads[0].starts_with("post /deep/er/v1/messages?beta=true "), "{heads:?}");
    assert!(observer.answered().is_empty());
    assert_eq!(
        observer.dismissed(),
        1,
        "the observer is told that the request ended without an answer"
    );
}

#[test]
fn without_a_model_or_with_one_that_is_gone_there_is_an_error() {
    let (path, body) = beginning(ModelApi::Responses);
    let lab = Lab::new(ModelApi::Responses, None, &Recorder::passes());
    assert_eq!(lab.post(path, &body).status, 400);
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Responses, Some(&format!("http://{gone}")), &observer);
    let answer = lab.post(path, &body);
    assert!(observer.answered().is_empty(), "nothing was asked, and nothing is paid for");
    assert_eq!(observer.dismissed(), 1);
    assert_eq!(answer.status, 502);
    assert!(!answer.text().contains(SECRET));
    // It is reached, and does not speak TLS: the key stays here.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    let heard = std::thread::spawn(move || {
        let mut bytes = vec![0; 4096];
        let count = listener.accept().unwrap().0.read(&mut bytes).unwrap();
        bytes[..count].to_vec()
    });
    let lab = Lab::new(ModelApi::Responses, Some(&base), &Recorder::passes());
    assert_eq!(lab.post(path, &body).status, 502);
    let heard = heard.join().unwrap();
    assert_eq!(heard.first(), Some(&22), "the beginning of TLS");
    assert!(!String::from_utf8_lossy(&heard).contains(SECRET));
}

#[test]
fn many_ask_at_once() {
    let (model, observer) = (model(), Recorder::passes());
    let lab = Lab::new(ModelApi::Anthropic, Some(&model.base_url()), &observer);
    let (path, body) = beginning(ModelApi::Anthropic);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..40).map(|_| scope.spawn(|| lab.post(path, &body))).collect();
        for one in all {
            let answer = one.join().unwrap();
            assert_eq!((answer.status, answer.whole), (200, true));
        }
    });
    assert_eq!(observer.answered().len(), 40);
    assert_eq!(observer.called().len(), 80);
}

#[test]
fn many_long_requests_at_once_are_not_all_kept() {
    let (let_go, wait) = tokio::sync::watch::channel(false);
    let observer = Recorder::later(move |_| {
        let mut wait = wait.clone();
        Box::pin(async move {
            wait.wait_for(|go| *go).await.unwrap();
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
        let held: Vec<_> = (0..2).map(|_| scope.spawn(|| send(address, &long))).collect();
        assert!(comes_true(|| observer.asked().len() == 2));
        let mut third = connect(address);
        // It may be turned away before it has said all.
        let _ = third.write_all(short.as_bytes());
        let away = |told: &Told| matches!(told, Told::TurnedAway(_));
        assert!(comes_true(|| observer.told().iter().any(away)));
        assert_eq!(observer.asked().len(), 2);
        let_go.send(true).unwrap();
        for one in held {
            assert_eq!(one.join().unwrap().status, 200);
        }
    });
    assert_eq!(send(address, &short).status, 200, "there is room again");
}

#[test]
fn what_is_said_of_a_login_that_is_over_is_for_the_observer_alone() {
    let key = Key::new("x-api-key", SECRET).unwrap();
    let first = RenewedKey { key, until: Some(std::time::SystemTime::UNIX_EPOCH) };
    let key = Key::renewed(first, || Err("aws: ada@acme, account 1234".to_owned()));
    let observer = Recorder::passes();
    let lab = Lab::with_key(ModelApi::Anthropic, "http://127.0.0.1:1", &observer, key);
    let (path, body) = beginning(ModelApi::Anthropic);
    let answer = lab.post(path, &body);
    assert_eq!(answer.status, 502);
    let text = answer.text();
    assert!(text.contains("a person must log in again") && !text.contains("acme"), "{text}");
    let heard = |told: &Told| matches!(told, Told::TurnedAway(why) if why.contains("ada@acme"));
    assert!(observer.told().iter().any(heard), "{:?}", observer.told());
}

/// A key with this number, good for an hour.
fn numbered(number: usize) -> RenewedKey {
    let key = Key::new("authorization", &format!("Bearer the-renewed-token-{number}")).unwrap();
    let until = std::time::SystemTime::now().checked_add(Duration::from_hours(1));
    RenewedKey { key, until }
}

#[test]
fn a_key_that_the_model_refuses_is_had_anew_and_the_request_sent_once_more() {
    let no = "401 Unauthorized";
    let over = "403 Forbidden\r\nx-amzn-ErrorType: ExpiredTokenException:http://internal";
    let forbidden = "403 Forbidden\r\nx-amzn-ErrorType: AccessDeniedException";
    // Which keys can be had after the first, how many requests are refused and how, what the program gets, and
    // the keys that were tried.
    let cases: [(&[usize], _, u16, &[usize]); 7] = [
        (&[1], (1, no), 200, &[0, 1]),
        (&[1, 2], (9, no), 401, &[0, 1]),
        // The same once more is no other, and none is none.
        (&[0], (9, no), 401, &[0]),
        (&[], (9, no), 401, &[0]),
        // Amazon's key is over, or may not do that.
        (&[1], (1, over), 200, &[0, 1]),
        (&[1], (1, forbidden), 403, &[0]),
        (&[1], (1, "403 Forbidden"), 403, &[0]),
    ];
    for (had, (refused, refusal), status, tried) in cases {
        let asked = AtomicUsize::new(0);
        let host = Host::start(move |_, stream| {
            if asked.fetch_add(1, Ordering::SeqCst) < refused {
                let head = "Content-Length: 2\r\nConnection: close";
                say(stream, &format!("HTTP/1.1 {refusal}\r\n{head}\r\n\r\n{{}}"));
            } else {
                say(stream, STREAM);
            }
        });
        let (had, next) = (had.to_vec(), AtomicUsize::new(0));
        let key = Key::renewed(numbered(0), move || {
            let place = next.fetch_add(1, Ordering::SeqCst);
            had.get(place).map(|number| numbered(*number)).ok_or_else(|| "there is none".to_owned())
        });
        let hidden: Arc<Mutex<Vec<String>>> = Arc::default();
        let hides = Arc::clone(&hidden);
        key.on_secret(move |secret| hides.lock().unwrap().push(secret));
        let lab = Lab::with_key(ModelApi::Anthropic, &host.base(), &Recorder::passes(), key);
        let (path, body) = beginning(ModelApi::Anthropic);
        let answer = lab.post(path, &body);
        assert_eq!(answer.status, status, "{tried:?}");
        assert!(!answer.text().contains("the-renewed-token"), "{tried:?}");
        let heads = host.heads.lock().unwrap().clone();
        let token = |head: &String| {
            let line = head.lines().find_map(|line| line.strip_prefix("authorization: bearer "));
            line.map(str::to_owned).unwrap_or_default()
        };
        let seen: Vec<String> = heads.iter().map(token).collect();
        let expected: Vec<String> =
            tried.iter().map(|number| format!("the-renewed-token-{number}")).collect();
        assert_eq!(seen, expected);
        // The redaction knows every renewed token.
        let hidden = hidden.lock().unwrap();
        assert!(seen.iter().skip(1).all(|token| hidden.contains(token)), "{hidden:?}");
    }
}

#[test]
fn a_dropped_proxy_listens_no_more() {
    let observer = Recorder::passes();
    let lab = Lab::new(ModelApi::Chat, None, &observer);
    let address = lab.proxy.address();
    let mut open = connect(address);
    let Lab { runtime, proxy } = lab;
    drop(proxy);
    assert!(comes_true(|| std::net::TcpStream::connect(address).is_err()));
    let ended = open.read(&mut [0; 1]);
    assert_eq!(ended.unwrap_or(0), 0, "a connection was left");
    drop(runtime);
}
