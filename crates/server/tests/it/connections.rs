//! Clients that send too much, too slowly, or nothing at all.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::client::{Ask, PATIENCE, Reply};
use crate::place::{Place, place, place_with};

async fn closed(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    let _ = tokio::time::timeout(PATIENCE, read).await.expect("the server closes it");
    rest
}

async fn is_alive(place: &Place) {
    place.ask(Ask::get("/healthz")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_do_not_come_are_not_waited_for() {
    let place = place_with(|limits| limits.head_time = Duration::from_secs(2)).await;
    let mut slow = TcpStream::connect(place.address).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-").await.unwrap();
    let silent = TcpStream::connect(place.address).await.unwrap();
    let mut idle = TcpStream::connect(place.address).await.unwrap();
    idle.write_all(&Ask::get("/healthz").wire(place.address)).await.unwrap();
    let rest = closed(slow).await;
    assert!(!rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));
    closed(silent).await;
    let answered = closed(idle).await;
    assert!(answered.starts_with(b"HTTP/1.1 200"), "it had its answer and was closed when idle");
    is_alive(&place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_do_not_come_are_not_waited_for() {
    let place = place_with(|limits| limits.body_time = Duration::from_millis(300)).await;
    let mut ask = Ask::new("POST", "/api/v1alpha1/apply")
        .token(place.admin())
        .json(&json!({ "documents": [1] }));
    let whole = ask.wire(place.address);
    let mut slow = TcpStream::connect(place.address).await.unwrap();
    slow.write_all(&whole[..whole.len() - 3]).await.unwrap();
    let reply = Reply::read(&mut BufReader::new(slow)).await.unwrap();
    assert_eq!((reply.status, reply.code().as_str()), (408, "TOO_SLOW"));
    ask.body = b"{\"documents\":[]}".to_vec();
    place.ask(ask).await.expect(422);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_and_heads_that_are_too_long_are_refused() {
    let place = place_with(|limits| limits.body = 1_000).await;
    let body = |length: usize| json!({ "documents": ["x".repeat(length)] });
    place.send("POST", "/api/v1alpha1/apply", &body(900)).await.expect(422);
    let long = place.send("POST", "/api/v1alpha1/apply", &body(2_000)).await.expect(413);
    assert_eq!(long.code(), "TOO_LARGE");
    // One that does not say how long it is.
    let chunk = "x".repeat(600);
    let mut wire = format!(
        "POST /api/v1alpha1/apply HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        place.admin()
    );
    for _ in 0..4 {
        wire.push_str(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    }
    let mut stream = TcpStream::connect(place.address).await.unwrap();
    stream.write_all(wire.as_bytes()).await.unwrap();
    assert_eq!(Reply::read(&mut BufReader::new(stream)).await.unwrap().status, 413);
    let fat = Ask::get("/healthz").header("x-fat", "y".repeat(200_000));
    let mut stream = TcpStream::connect(place.address).await.unwrap();
    let _ = stream.write_all(&fat.wire(place.address)).await;
    let rest = closed(stream).await;
    assert!(!rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));
    is_alive(&place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_http_is_no_matter() {
    let place = place().await;
    for junk in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(place.address).await.unwrap();
        let _ = stream.write_all(junk).await;
        let _ = stream.shutdown().await;
        let rest = closed(stream).await;
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "{junk:?}");
    }
    is_alive(&place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_so_many_connections_are_served_and_the_rest_wait() {
    let place = place_with(|limits| {
        limits.connections = 3;
        limits.head_time = Duration::from_millis(500);
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(TcpStream::connect(place.address).await.unwrap());
    }
    // It is answered once the idle ones were closed.
    is_alive(&place).await;
    // Those that are over are counted until they are closed, which takes a moment.
    let mut figures = String::new();
    for _ in 0..1_000 {
        figures = place.get("/metrics").await.text();
        if figures.contains("bailiwick_connections 1\n") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(figures.contains("bailiwick_connections 1\n"), "{figures}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_begun_is_carried_out_though_the_client_is_gone() {
    let place = place().await;
    *place.fleet.slow.lock().unwrap() = Duration::from_millis(300);
    let ask = Ask::new("POST", "/api/agents/runs/run-a/cancel").token(place.admin());
    let mut stream = TcpStream::connect(place.address).await.unwrap();
    stream.write_all(&ask.wire(place.address)).await.unwrap();
    while place.fleet.asked.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stream);
    let done = async {
        while place.fleet.finished.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, done).await.expect("it was carried out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_nobody_known_take_no_more_together_than_is_set_aside() {
    let place = place_with(|limits| {
        limits.unknown_bodies = 1_000;
        limits.room_time = Duration::from_millis(200);
        limits.cost_of_a_wrong_token = 0.0;
    })
    .await;
    let hook = || Ask::new("POST", "/webhooks/none").bytes("x".repeat(900));
    // One after the other there is room for each.
    for _ in 0..3 {
        place.ask(hook()).await.expect(401);
    }
    let whole = hook().wire(place.address);
    let mut slow = TcpStream::connect(place.address).await.unwrap();
    slow.write_all(&whole[..whole.len() - 3]).await.unwrap();
    let late = tokio::time::Instant::now() + PATIENCE;
    let refused = loop {
        let reply = place.ask(hook()).await;
        // What the other one has sent may not have arrived yet.
        if reply.status == 503 || tokio::time::Instant::now() > late {
            break reply;
        }
    };
    assert_eq!((refused.status, refused.code().as_str()), (503, "UNAVAILABLE"));
    assert_eq!(refused.headers["retry-after"], "5");
    // Whoever is known has room of their own.
    let body = json!({ "documents": ["x".repeat(900)] });
    place.send("POST", "/api/v1alpha1/apply", &body).await.expect(422);
    drop(slow);
    loop {
        let reply = place.ask(hook()).await;
        if reply.status == 401 {
            break;
        }
        assert!(tokio::time::Instant::now() < late, "{}", reply.status);
    }
}
