//! Traces of runs, received by a collector of this test: it understands as much of OTLP over HTTP as a real one answers.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::several_servers::{commented_at, labelled};
use super::{Place, SECRET, Serving};

/// A collector: its address, and the requests that it receives as their heads and bodies.
fn collector() -> (String, Receiver<(String, Value)>) {
    collector_that_refuses(0)
}

/// The same; it refuses the first requests for good.
fn collector_that_refuses(count: usize) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            stream.read_exact(&mut body).unwrap();
            let status = if number < count { "400 Bad Request" } else { "200 OK" };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\
                 Connection: close\r\nContent-Length: 2\r\n\r\n{{}}"
            );
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            let body = serde_json::from_slice(&body).unwrap();
            if sender.send((head, body)).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

fn place() -> Place {
    let script = json!([
        { "do": "shell", "command": "echo private-words > src/one.txt" },
        { "do": "write", "path": "src/two.txt", "text": "private-words\n" },
    ]);
    commented_at(Place::bare(), &script, &json!({ "capacity": 2 }))
}

/// Labels an issue and waits until the run that this starts has ended.
fn run_to_its_end(place: &Place, serving: &Serving) {
    let (_, webhook) = labelled(place);
    let hook = format!("http://{}/webhooks/app", serving.address);
    assert_eq!(webhook.deliver(&hook, SECRET).0, 202);
    place.until("the end of the run", || {
        for approval in place.json(&["get", "approvals", "--field", "phase=pending"]).as_array()? {
            place.run(&["approvals", "approve", approval["metadata"]["name"].as_str()?]);
        }
        let runs = place.json(&["get", "runs"]);
        (runs[0]["status"]["phase"] == "succeeded").then_some(())
    });
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a str {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or("", |attribute| attribute["value"]["stringValue"].as_str().unwrap())
}

#[test]
fn ended_run_is_one_trace_from_webhook_to_tool_call() {
    let place = place();
    let (address, requests) = collector();
    let serving = Serving::with(&place.scratch, "127.0.0.1:0", &["--otlp", &address]);
    place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
    run_to_its_end(&place, &serving);
    let (head, sent) = requests.recv_timeout(super::TIMEOUT).unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("content-type: application/json"), "{head}");
    let spans = sent["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let by_id: BTreeMap<&str, &Value> =
        spans.iter().map(|span| (span["spanId"].as_str().unwrap(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "{sent:#}");
    let is_hex = |text: &Value, length: usize| {
        let text = text.as_str().unwrap();
        text.len() == length && text.chars().all(|digit| digit.is_ascii_hexdigit())
    };
    for span in spans {
        assert!(is_hex(&span["traceId"], 32) && is_hex(&span["spanId"], 16), "{span:#}");
        assert_eq!(span["traceId"], spans[0]["traceId"]);
        let time = |end: &str| span[end].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span:#}");
    }
    // Each span has the parent that it must have.
    let parent = |span: &Value| by_id.get(span["parentSpanId"].as_str().unwrap()).copied();
    let named = |name: &str| -> Vec<&Value> {
        spans.iter().filter(|span| span["name"].as_str().unwrap().starts_with(name)).collect()
    };
    let calls = named("tool call");
    assert_eq!(calls.len(), 2, "{sent:#}");
    for call in calls {
        assert!(["Bash", "Write"].contains(&attribute(call, "bailiwick.tool")), "{call:#}");
        let attempt = parent(call).unwrap();
        assert_eq!(attribute(attempt, "bailiwick.attempt.number"), "1", "{attempt:#}");
        let run = parent(attempt).unwrap();
        let name = place.json(&["get", "runs"])[0]["metadata"]["name"].clone();
        assert_eq!(attribute(run, "bailiwick.run"), name, "{run:#}");
        let webhook = parent(run).unwrap();
        assert_eq!(webhook["name"], "webhook issues", "{webhook:#}");
        assert!(parent(webhook).is_none());
    }
    // Neither what the agent did nor what it was asked is in it, nor a secret.
    let text = sent.to_string();
    for private in ["private-words", "Do it.", SECRET, &place.forge.token()] {
        assert!(!text.contains(private), "{private}: {text}");
    }
    // The next run has a trace of its own; the first one is not sent again.
    let again = requests.recv_timeout(Duration::from_secs(5));
    assert!(again.is_err(), "{again:?}");
}

#[test]
fn trace_that_the_collector_refuses_holds_back_no_other() {
    let place = place();
    let (address, requests) = collector_that_refuses(1);
    let serving = Serving::with(&place.scratch, "127.0.0.1:0", &["--otlp", &address]);
    place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
    let run_of = |sent: &Value| {
        let spans = sent["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        let run = spans.iter().find(|span| span["name"] == "run").unwrap().clone();
        attribute(&run, "bailiwick.run").to_owned()
    };
    run_to_its_end(&place, &serving);
    let (_, refused) = requests.recv_timeout(super::TIMEOUT).unwrap();
    let (_, webhook) = labelled(&place);
    let hook = format!("http://{}/webhooks/app", serving.address);
    assert_eq!(webhook.deliver(&hook, SECRET).0, 202);
    place.until("a second run", || {
        (place.json(&["get", "runs"]).as_array()?.len() == 2).then_some(())
    });
    for run in place.json(&["get", "runs"]).as_array().unwrap() {
        place.run(&["runs", "cancel", run["metadata"]["name"].as_str().unwrap()]);
    }
    let (_, sent) = requests.recv_timeout(super::TIMEOUT).unwrap();
    assert_ne!(run_of(&sent), run_of(&refused), "the first one is not sent again");
}

#[test]
fn collector_that_does_not_answer_delays_no_run() {
    let place = place();
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let serving = Serving::with(&place.scratch, "127.0.0.1:0", &["--otlp", &address]);
    place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
    run_to_its_end(&place, &serving);
    let (first, _) = silent.accept().unwrap();
    // The control plane works on while the collector is asked again.
    let (_second, _) = silent.accept().unwrap();
    drop(first);
    let (status, _) = serving.ask("GET", "/healthz", "", &Value::Null);
    assert_eq!(status, 200);
}
