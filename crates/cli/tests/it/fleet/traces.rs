//! Traces of runs, received by a collector in this test that supports the needed part of OTLP over HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::several_servers::{label_new_issue, place_with_comments_at};
use super::{Place, SECRET, Serving};

/// A collector: its address, and the headers and bodies of the requests that it receives.
fn collector() -> (String, Receiver<(String, Value)>) {
    collector_that_refuses(0)
}

/// The same, but it refuses the first requests permanently.
fn collector_that_refuses(count: usize) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
            let lower_case = head.to_ascii_lowercase();
            let length = lower_case.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            stream.read_exact(&mut body).unwrap();
            let status = if number < count { "400 Bad Request" } else { "200 OK" };
            let response = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\
                 Connection: close\r\nContent-Length: 2\r\n\r\n{{}}"
            );
            stream.get_mut().write_all(response.as_bytes()).unwrap();
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
    place_with_comments_at(Place::bare(), &script, &json!({ "capacity": 2 }))
}

/// Labels an issue, and waits for the end of the run that this starts.
fn run_to_its_end(place: &Place, serving: &Serving) {
    let (_, webhook) = label_new_issue(place);
    let hook = format!("http://{}/webhooks/app", serving.address);
    assert_eq!(webhook.deliver(&hook, SECRET).0, 202);
    place.wait_for("the end of the run", || {
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
    // Each span has the right parent.
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
    // It contains no output and no prompt of the agent, and no secret.
    let text = sent.to_string();
    for secret_text in ["private-words", "Do it.", SECRET, &place.forge.token()] {
        assert!(!text.contains(secret_text), "{secret_text}: {text}");
    }
    // The trace is not sent again.
    let next_request = requests.recv_timeout(Duration::from_secs(5));
    assert!(next_request.is_err(), "{next_request:?}");
}

#[test]
fn trace_that_the_collector_refuses_does_not_block_others() {
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
    let (_, webhook) = label_new_issue(&place);
    let hook = format!("http://{}/webhooks/app", serving.address);
    assert_eq!(webhook.deliver(&hook, SECRET).0, 202);
    place.wait_for("a second run", || {
        (place.json(&["get", "runs"]).as_array()?.len() == 2).then_some(())
    });
    for run in place.json(&["get", "runs"]).as_array().unwrap() {
        place.run(&["runs", "cancel", run["metadata"]["name"].as_str().unwrap()]);
    }
    let (_, sent) = requests.recv_timeout(super::TIMEOUT).unwrap();
    assert_ne!(run_of(&sent), run_of(&refused), "the first trace was sent again");
}

#[test]
fn collector_that_does_not_answer_delays_no_run() {
    let place = place();
    // It accepts connections, and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let serving = Serving::with(&place.scratch, "127.0.0.1:0", &["--otlp", &address]);
    place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
    run_to_its_end(&place, &serving);
    let (first, _) = silent.accept().unwrap();
    // The control plane serves requests while it retries.
    let (_second, _) = silent.accept().unwrap();
    drop(first);
    let (status, _) = serving.request("GET", "/healthz", "", &Value::Null);
    assert_eq!(status, 200);
}
