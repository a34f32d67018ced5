//! Clients that send too much, too slowly, or nothing.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::client::{HttpRequest, HttpResponse, TIMEOUT};
use crate::test_server::{TestServer, start_server, start_server_with};

async fn closed(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    let _ = tokio::time::timeout(TIMEOUT, read).await.expect("the server closes it");
    rest
}

async fn is_alive(server: &TestServer) {
    server.execute(HttpRequest::get("/healthz")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_header_times_out() {
    let server = start_server_with(|limits| limits.header_timeout = Duration::from_secs(2)).await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-").await.unwrap();
    let silent = TcpStream::connect(server.address).await.unwrap();
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(&HttpRequest::get("/healthz").wire(server.address)).await.unwrap();
    let rest = closed(slow).await;
    assert!(!rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));
    closed(silent).await;
    let answered = closed(idle).await;
    assert!(
        answered.starts_with(b"HTTP/1.1 200"),
        "the idle connection was closed after the response"
    );
    is_alive(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_body_times_out() {
    let server = start_server_with(|limits| limits.body_timeout = Duration::from_millis(300)).await;
    let mut ask = HttpRequest::new("POST", "/api/v1alpha1/apply")
        .token(server.admin())
        .json(&json!({ "documents": [1] }));
    let whole = ask.wire(server.address);
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(&whole[..whole.len() - 3]).await.unwrap();
    let reply = HttpResponse::read(&mut BufReader::new(slow)).await.unwrap();
    assert_eq!((reply.status, reply.code().as_str()), (408, "TOO_SLOW"));
    ask.body = b"{\"documents\":[]}".to_vec();
    server.execute(ask).await.expect(422);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_large_bodies_and_headers_are_refused() {
    let server = start_server_with(|limits| limits.body_bytes = 1_000).await;
    let body = |length: usize| json!({ "documents": ["x".repeat(length)] });
    server.send("POST", "/api/v1alpha1/apply", &body(900)).await.expect(422);
    let long = server.send("POST", "/api/v1alpha1/apply", &body(2_000)).await.expect(413);
    assert_eq!(long.code(), "TOO_LARGE");
    // A body without an announced length.
    let chunk = "x".repeat(600);
    let mut wire = format!(
        "POST /api/v1alpha1/apply HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        server.admin()
    );
    for _ in 0..4 {
        wire.push_str(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    }
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(wire.as_bytes()).await.unwrap();
    assert_eq!(HttpResponse::read(&mut BufReader::new(stream)).await.unwrap().status, 413);
    let fat = HttpRequest::get("/healthz").header("x-fat", "y".repeat(200_000));
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let _ = stream.write_all(&fat.wire(server.address)).await;
    let rest = closed(stream).await;
    assert!(!rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));
    is_alive(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_http_does_not_affect_others() {
    let server = start_server().await;
    for junk in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let _ = stream.write_all(junk).await;
        let _ = stream.shutdown().await;
        let rest = closed(stream).await;
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "{junk:?}");
    }
    is_alive(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_over_the_limit_wait() {
    let server = start_server_with(|limits| {
        limits.max_connections = 3;
        limits.header_timeout = Duration::from_millis(500);
    })
    .await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    // It is answered after the idle connections are closed.
    is_alive(&server).await;
    // Ended connections are counted until they are closed, which takes a moment.
    let mut metrics = String::new();
    for _ in 0..1_000 {
        metrics = server.get("/metrics").await.text();
        if metrics.contains("bailiwick_connections 1\n") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(metrics.contains("bailiwick_connections 1\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_completes_though_the_client_disconnects() {
    let server = start_server().await;
    *server.fleet.delay.lock().unwrap() = Duration::from_millis(300);
    let ask = HttpRequest::new("POST", "/api/agents/runs/run-a/cancel").token(server.admin());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&ask.wire(server.address)).await.unwrap();
    while server.fleet.calls.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stream);
    let done = async {
        while server.fleet.finished.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, done).await.expect("it was carried out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_unauthenticated_clients_share_a_budget() {
    let server = start_server_with(|limits| {
        limits.anonymous_body_bytes = 1_000;
        limits.body_budget_timeout = Duration::from_millis(200);
        limits.failed_auth_cost = 0.0;
    })
    .await;
    let hook = || HttpRequest::new("POST", "/webhooks/none").bytes("x".repeat(900));
    // One after the other, each fits into the budget.
    for _ in 0..3 {
        server.execute(hook()).await.expect(401);
    }
    let whole = hook().wire(server.address);
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(&whole[..whole.len() - 3]).await.unwrap();
    let late = tokio::time::Instant::now() + TIMEOUT;
    let refused = loop {
        let reply = server.execute(hook()).await;
        // The data of the other client may not have arrived yet.
        if reply.status == 503 || tokio::time::Instant::now() > late {
            break reply;
        }
    };
    assert_eq!((refused.status, refused.code().as_str()), (503, "UNAVAILABLE"));
    assert_eq!(refused.headers["retry-after"], "5");
    // Authenticated clients do not use the budget.
    let body = json!({ "documents": ["x".repeat(900)] });
    server.send("POST", "/api/v1alpha1/apply", &body).await.expect(422);
    drop(slow);
    loop {
        let reply = server.execute(hook()).await;
        if reply.status == 401 {
            break;
        }
        assert!(tokio::time::Instant::now() < late, "{}", reply.status);
    }
}
