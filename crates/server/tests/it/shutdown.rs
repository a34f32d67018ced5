//! Shutdown: no new connections, requests in flight are completed, streams get a last event.

use std::time::Duration;

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::client::{HttpRequest, HttpResponse};
use crate::test_server::{start_server, start_server_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_are_answered_and_streams_get_a_last_event() {
    let mut server = start_server().await;
    *server.fleet.delay.lock().unwrap() = Duration::from_millis(600);
    let mut stream = server.watch("/api/v1alpha1/events", None).await;
    stream.next().await.unwrap();
    server.run("run-a").await;
    assert_eq!(stream.next().await.unwrap().name, "change");
    let mut follower = server.watch("/api/agents/runs/run-a/events?watch=1", None).await;
    follower.next().await.unwrap();
    let request = HttpRequest::new("POST", "/api/agents/runs/run-a/retry").token(server.admin());
    let mut flight = TcpStream::connect(server.address).await.unwrap();
    flight.write_all(&request.wire(server.address)).await.unwrap();
    while server.fleet.calls.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.begin_stop();
    for stream in [&mut stream, &mut follower] {
        let last = stream.next().await.unwrap();
        assert_eq!((last.name.as_str(), last.data["type"].as_str()), ("end", Some("END")));
        assert_eq!(stream.next().await, None);
    }
    assert_eq!(HttpResponse::read(&mut BufReader::new(flight)).await.unwrap().status, 202);
    server.stopped().await;
    assert_eq!(server.fleet.finished.lock().unwrap().len(), 1);
    assert!(TcpStream::connect(server.address).await.is_err(), "the server no longer listens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_over_the_grace_period_is_aborted() {
    let mut server =
        start_server_with(|limits| limits.shutdown_grace = Duration::from_millis(200)).await;
    *server.fleet.delay.lock().unwrap() = Duration::from_secs(3_600);
    let request = HttpRequest::new("POST", "/api/agents/runs/run-a/retry").token(server.admin());
    let mut flight = TcpStream::connect(server.address).await.unwrap();
    flight.write_all(&request.wire(server.address)).await.unwrap();
    while server.fleet.calls.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.begin_stop();
    server.stopped().await;
    assert!(
        HttpResponse::read(&mut BufReader::new(flight)).await.is_none(),
        "an aborted request has no response"
    );
}
