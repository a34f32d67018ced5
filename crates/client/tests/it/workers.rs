//! Workers with servers of other versions.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;

use bailiwick_client::{HttpWorkerApi, PlainHttp, ServerAddress};
use bailiwick_fleet::workers::{PollRequest, WorkerApi as _, WorkerError};
use serde_json::{Value, json};

use crate::errors::response;

/// Queries that a worker of this version must still be able to send.
const QUERIES: &str = include_str!("../../../fleet/tests/data/worker-protocol/0.1/queries.json");

/// A server that supports these poll parameters, and a channel with the first line of each request.
fn server_with_parameters(parameters: &'static [&str]) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).unwrap();
            let head = String::from_utf8_lossy(&buffer[..read]).into_owned();
            let line = head.lines().next().unwrap().to_owned();
            let query = line.split(['?', ' ']).nth(2).unwrap_or_default();
            let mut names = query.split('&').map(|pair| pair.split('=').next().unwrap());
            let reply = match names.all(|name| parameters.contains(&name)) {
                true => response("200 OK", "", &json!({ "drain": true }).to_string()),
                false => {
                    let error = json!({ "code": "BAD_REQUEST", "message": "`x` is not supported" });
                    response("400 Bad Request", "", &json!({ "error": error }).to_string())
                }
            };
            let _ = sender.send(line);
            stream.write_all(reply.as_bytes()).unwrap();
        }
    });
    (address, received)
}

fn api(address: SocketAddr) -> HttpWorkerApi {
    let text = format!("http://{address}");
    HttpWorkerApi::new(ServerAddress::parse(&text, PlainHttp::LoopbackOnly).unwrap()).unwrap()
}

fn poll(follows: Option<Vec<String>>) -> PollRequest {
    PollRequest { version: "0.1.0".to_owned(), has_room: true, wait_millis: 15_000, follows }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poll_is_repeated_without_parameters_that_an_older_server_lacks() {
    let (address, received) = server_with_parameters(&["version", "room", "wait"]);
    let follows = Some(vec!["a".to_owned()]);
    let reply = api(address).poll("secret", poll(follows)).await.unwrap();
    assert!(reply.drain);
    assert!(
        received.recv().unwrap().contains("follows=a"),
        "a newer server requires the parameter"
    );
    let queries: Value = serde_json::from_str(QUERIES).unwrap();
    let line = received.recv().unwrap();
    let oldest = queries["poll"][0].as_str().unwrap();
    assert_eq!(line, format!("GET /workers/v1/poll?{oldest} HTTP/1.1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_poll_is_repeated_only_once() {
    let (address, received) = server_with_parameters(&["version"]);
    let refused = api(address).poll("secret", poll(Some(Vec::new()))).await.unwrap_err();
    assert!(matches!(refused, WorkerError::Refused(_)), "{refused}");
    assert_eq!(received.try_iter().count(), 2);
    let refused = api(address).poll("secret", poll(None)).await.unwrap_err();
    assert!(matches!(refused, WorkerError::Refused(_)), "{refused}");
    assert_eq!(received.try_iter().count(), 1);
}
