//! The memory of large bodies is released after they are refused.

use std::process::Command;

use bailiwick_server::Rate;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::test_server::start_server_with;

const BODY_BYTES: usize = 24 * 1024 * 1024;

/// The resident memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
fn memory_of_large_bodies_is_released() {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(["--exact", "memory::large_bodies", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("measured"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "other tests of the process would disturb it: `memory_of_large_bodies_is_released` runs it"]
async fn large_bodies() {
    let server = start_server_with(|limits| {
        limits.failed_signatures = Rate { per_second: 1_000.0, burst: 1_000.0 };
    })
    .await;
    let head = format!(
        "POST /webhooks/none HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {BODY_BYTES}\r\n\r\n"
    );
    let piece: &'static [u8] = Box::leak(vec![b'x'; 64 * 1024].into_boxed_slice());
    let send = async |source: u8| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, source], 0).into()).unwrap();
        let mut stream = socket.connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..BODY_BYTES / piece.len() {
            stream.write_all(piece).await.unwrap();
        }
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        assert!(response.starts_with(b"HTTP/1.1 401"), "{}", String::from_utf8_lossy(&response));
    };
    send(2).await;
    let before = resident();
    for _ in 0..4 {
        let all: [u8; 8] = std::array::from_fn(|number| 2 + u8::try_from(number).unwrap());
        futures_util::future::join_all(all.map(&send)).await;
    }
    let after = resident();
    println!("measured: {before} bytes before, {after} bytes after 32 bodies of {BODY_BYTES}");
    assert!(after < before + 2 * BODY_BYTES, "{before} {after}");
}
