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
    let _ = tokio::time::timeout(TIMEOUT, read).await.expect("the server closes the connection");
    rest
}

async fn assert_alive(server: &TestServer) {
    server.execute(HttpRequest::get("/healthz")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_header_times_out() {
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
    assert_alive(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_body_times_out() {
    let server = start_server_with(|limits| limits.body_timeout = Duration::from_millis(300)).await;
    let mut request = HttpRequest::new("POST", "/api/v1alpha1/apply")
        .token(server.admin())
        .json(&json!({ "documents": [1] }));
    let whole = request.wire(server.address);
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(&whole[..whole.len() - 3]).await.unwrap();
    let reply = HttpResponse::read(&mut BufReader::new(slow)).await.unwrap();
    assert_eq!((reply.status, reply.code().as_str()), (408, "TOO_SLOW"));
    request.body = b"{\"documents\":[]}".to_vec();
    server.execute(request).await.expect(422);
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
    assert_alive(&server).await;
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
    assert_alive(&server).await;
}

async fn connect_from(last: u8, server: &TestServer) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, last], 0).into()).unwrap();
    socket.connect(server.address).await.unwrap()
}

/// The header timeout is far longer than the test may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_cannot_shut_out_webhooks() {
    let server = start_server_with(|limits| {
        limits.max_connections = 8;
        limits.max_connections_per_address = 6;
        limits.header_timeout = Duration::from_secs(3_600);
        limits.body_timeout = Duration::from_secs(3_600);
    })
    .await;
    let hook = HttpRequest::new("POST", "/webhooks/none").bytes("x".repeat(900));
    let half = &hook.wire(server.address)[..400];
    let mut silent = Vec::new();
    for number in 0..40_u8 {
        let mut stream = connect_from(2 + number % 3, &server).await;
        // Nothing, half a header, or half a body.
        let sent = [&b""[..], b"POST /webhooks/none HTTP/1.1\r\nhost: loc", half];
        stream.write_all(sent[usize::from(number / 3 % 3)]).await.unwrap();
        silent.push(stream);
    }
    for _ in 0..20 {
        server.execute(hook.clone()).await.expect(401);
    }
    // A client that follows events does not block others and stays connected.
    let mut events = server.watch("/api/v1alpha1/events", None).await;
    assert_eq!(events.next().await.unwrap().name, "sync");
    for number in 0..40_u8 {
        silent.push(connect_from(2 + number % 3, &server).await);
    }
    server.put("a", "1").await;
    assert_eq!(events.next().await.unwrap().name, "change");
    let metrics = server.get("/metrics").await.text();
    let line = metrics.lines().find(|line| line.starts_with("bailiwick_connections "));
    let open: u64 = line.unwrap().split(' ').next_back().unwrap().parse().unwrap();
    // Replaced connections are counted until they are closed, which takes a moment.
    assert!(open <= 40, "{open}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_has_a_limited_number_of_connections() {
    let server = start_server_with(|limits| limits.max_connections_per_address = 2).await;
    let _streams = [
        server.watch("/api/v1alpha1/events", None).await,
        server.watch("/api/v1alpha1/events", None).await,
    ];
    let mut refused = TcpStream::connect(server.address).await.unwrap();
    let _ = refused.write_all(&HttpRequest::get("/healthz").wire(server.address)).await;
    let mut refused = BufReader::new(refused);
    // Data that the server has not read may reset the connection.
    if let Some(reply) = HttpResponse::read(&mut refused).await {
        assert_eq!(reply.status, 503);
    }
    let mut other = connect_from(2, &server).await;
    other.write_all(&HttpRequest::get("/healthz").wire(server.address)).await.unwrap();
    assert_eq!(HttpResponse::read(&mut BufReader::new(other)).await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_that_sends_too_much_receives_the_refusal() {
    let server = start_server().await;
    let body = vec![b'x'; 48 * 1024 * 1024];
    let wire = |head: &str| {
        let head = format!("POST {head}\r\nhost: localhost\r\n");
        [head.as_bytes(), format!("content-length: {}\r\n\r\n", body.len()).as_bytes(), &body]
            .concat()
    };
    let admin = format!("/api/v1alpha1/apply HTTP/1.1\r\nauthorization: Bearer {}", server.admin());
    for (head, status) in [
        ("/webhooks/none HTTP/1.1", 413),
        (admin.as_str(), 413),
        ("/api/v1alpha1/apply HTTP/1.1", 401),
        ("/nothing HTTP/1.1", 404),
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // Many clients read only after they have written everything.
        let sent = tokio::time::timeout(TIMEOUT, stream.write_all(&wire(head))).await.unwrap();
        assert!(sent.is_ok(), "{head}: {sent:?}");
        let reply = HttpResponse::read(&mut BufReader::new(stream)).await;
        assert_eq!(reply.expect("a response").status, status, "{head}");
    }
    assert_alive(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_client_cannot_send_forever() {
    let server = start_server_with(|limits| limits.discarded_bytes = 100_000).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head =
        "POST /webhooks/none HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let send_forever = async { while stream.write_all(&[b'x'; 65_536]).await.is_ok() {} };
    tokio::time::timeout(TIMEOUT, send_forever).await.expect("the server closes the connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_completes_after_the_client_disconnects() {
    let server = start_server().await;
    *server.fleet.delay.lock().unwrap() = Duration::from_millis(300);
    let request = HttpRequest::new("POST", "/api/agents/runs/run-a/cancel").token(server.admin());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&request.wire(server.address)).await.unwrap();
    while server.fleet.calls.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stream);
    let done = async {
        while server.fleet.finished.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, done).await.expect("the write completes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_unauthenticated_clients_share_a_budget() {
    let server = start_server_with(|limits| {
        limits.anonymous_body_bytes = 1_000;
        limits.body_budget_timeout = Duration::from_millis(200);
        limits.failed_signatures.burst = 1_000_000.0;
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
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    let refused = loop {
        let reply = server.execute(hook()).await;
        // The data of the other client may not have arrived yet.
        if reply.status == 503 || tokio::time::Instant::now() > deadline {
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
        assert!(tokio::time::Instant::now() < deadline, "{}", reply.status);
    }
}
