//! Addresses, host names and rate limits.

use std::sync::Arc;

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{MemoryFleet, TokenScope};
use bailiwick_server::{ControlLoopMonitor, Exposure, ServeError, Server, Settings};

use crate::client::HttpRequest;
use crate::scripted_fleet::ScriptedFleet;
use crate::test_server::{start, start_server, start_server_with};

#[tokio::test]
async fn network_address_needs_explicit_permission() {
    let settings = Settings { address: "0.0.0.0:0".parse().unwrap(), ..Settings::default() };
    let bind = async |settings| {
        let (store, fleet) = (Arc::new(MemoryFleet::default()), Arc::new(ScriptedFleet::default()));
        Server::bind(settings, store, fleet).await
    };
    let refused = bind(settings.clone()).await.err().unwrap();
    assert!(matches!(refused, ServeError::NotLoopback(_)), "{refused}");
    assert!(bind(Settings { exposure: Exposure::Network, ..settings }).await.is_ok());
    assert!(Settings::default().address.ip().is_loopback());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_host_name_is_refused() {
    let settings = Settings {
        address: "127.0.0.1:0".parse().unwrap(),
        hosts: vec!["hooks.example.org".to_owned()],
        ..Settings::default()
    };
    let server = start(settings).await;
    let request_for = |host: &str| {
        HttpRequest::get("/api/v1alpha1/runs").token(server.admin()).header("host", host)
    };
    let port = server.address.port();
    for host in
        ["localhost", &format!("localhost:{port}"), "127.0.0.1", "[::1]:1", "hooks.example.org"]
    {
        server.execute(request_for(host)).await.expect(200);
    }
    for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1.evil.example"] {
        let refused = server.execute(request_for(host)).await.expect(403);
        assert_eq!(refused.code(), "HOST_DENIED", "{host}");
        for path in ["/", "/healthz", "/nothing"] {
            server.execute(HttpRequest::get(path).header("host", host)).await.expect(403);
        }
    }
    let two = request_for("localhost").header("host", "evil.example");
    assert!([400, 403].contains(&server.execute(two).await.status));
    let absolute = HttpRequest::get("http://evil.example/healthz").header("host", "localhost");
    server.execute(absolute).await.expect(403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_cannot_be_read_by_other_sites() {
    let server = start_server().await;
    let request = HttpRequest::get("/api/v1alpha1/runs")
        .token(server.admin())
        .header("origin", "https://evil.example");
    let reply = server.execute(request).await.expect(200);
    assert!(!reply.headers.keys().any(|name| name.starts_with("access-control")), "{reply:?}");
    let preflight = HttpRequest::new("OPTIONS", "/api/v1alpha1/runs")
        .header("origin", "https://evil.example")
        .header("access-control-request-method", "POST");
    let reply = server.execute(preflight).await.expect(405);
    assert!(!reply.headers.keys().any(|name| name.starts_with("access-control")), "{reply:?}");
    assert_eq!(reply.headers["cache-control"], "no-store");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_and_addresses_are_rate_limited() {
    let server = start_server_with(|limits| {
        limits.per_token.per_second = 0.01;
        limits.per_token.burst = 5.0;
    })
    .await;
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(server.get("/api/v1alpha1/runs").await.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 5, "{statuses:?}");
    let refused = server.get("/api/v1alpha1/runs").await.expect(429);
    assert!(refused.headers["retry-after"].parse::<u64>().unwrap() >= 1);
    let viewer = &server.tokens[&TokenScope::Viewer];
    server.execute(HttpRequest::get("/api/v1alpha1/runs").token(viewer)).await.expect(200);

    let server = start_server_with(|limits| {
        limits.per_address.per_second = 0.01;
        limits.per_address.burst = 5.0;
    })
    .await;
    let mut refused = 0;
    for _ in 0..10 {
        refused += u32::from(server.execute(HttpRequest::get("/nothing")).await.status == 429);
    }
    assert_eq!(refused, 5);
    server.get("/api/v1alpha1/runs").await.expect(429);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn index_and_health_checks_need_no_token() {
    let server = start_server().await;
    let front = server.execute(HttpRequest::get("/")).await.expect(200).text();
    assert!(front.contains("/api/v1alpha1") && front.contains("/openapi.json"), "{front}");
    assert_eq!(server.execute(HttpRequest::get("/healthz")).await.expect(200).text(), "ok\n");
    assert_eq!(server.execute(HttpRequest::get("/readyz")).await.expect(200).text(), "ready\n");
    let named = HttpRequest::get("/healthz").header("x-correlation-id", "mine-1");
    assert_eq!(server.execute(named).await.headers["x-correlation-id"], "mine-1");
    let unknown = HttpRequest::get("/healthz").header("x-correlation-id", "a b\"c");
    assert_ne!(server.execute(unknown).await.headers["x-correlation-id"], "a b\"c");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_with_a_stalled_control_loop_is_not_ready() {
    let control_loop = ControlLoopMonitor::default();
    let mut settings = Settings {
        address: "127.0.0.1:0".parse().unwrap(),
        control_loop: Some(control_loop.clone()),
        ..Settings::default()
    };
    settings.limits.control_loop_timeout = std::time::Duration::from_secs(2);
    let server = start(settings).await;
    control_loop.begin_step("controllers", "polling forges");
    control_loop.begin_step("declared", "updating statuses");
    server.execute(HttpRequest::get("/readyz")).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    control_loop.begin_step("declared", "deleting old records");
    let body = server.execute(HttpRequest::get("/readyz")).await.expect(503).text();
    assert!(body.contains("2 seconds: polling forges (see"), "{body}");
    server.execute(HttpRequest::get("/healthz")).await.expect(200);
    control_loop.begin_step("controllers", "waiting for events");
    server.execute(HttpRequest::get("/readyz")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_behind_a_trusted_proxy_are_limited_by_their_own_addresses() {
    for (proxies, shared) in [(vec!["127.0.0.1/32".parse().unwrap()], false), (Vec::new(), true)] {
        let mut settings = Settings {
            address: "127.0.0.1:0".parse().unwrap(),
            trusted_proxies: proxies,
            ..Settings::default()
        };
        settings.limits.per_address.per_second = 0.001;
        settings.limits.per_address.burst = 3.0;
        let server = start(settings).await;
        let request = |client: &str| HttpRequest::get("/healthz").header("x-forwarded-for", client);
        for _ in 0..3 {
            server.execute(request("192.0.2.1")).await.expect(200);
        }
        server.execute(request("192.0.2.1")).await.expect(429);
        // Addresses that the client sends itself are to the left of the address that the proxy adds.
        server.execute(request("192.0.2.55, 192.0.2.1")).await.expect(429);
        let response = server.execute(request("192.0.2.2")).await;
        assert_eq!(
            response.status,
            if shared { 429 } else { 200 },
            "without a trusted proxy only the peer address counts"
        );
    }
}

/// A server becomes ready again without a restart soon after its database is writable again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_cannot_write_is_not_ready_until_it_can() {
    let server = start_server().await;
    let ready = async || server.execute(HttpRequest::get("/readyz")).await;
    let until = async |status: u16| {
        for _ in 0..1_000 {
            let response = ready().await;
            if response.status == status {
                return response.text();
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("the status was never {status}");
    };
    ready().await.expect(200);
    server.store.unwritable.store(true, Ordering::Relaxed);
    let why = until(503).await;
    assert!(why.contains("cannot be written to") && !why.contains("/var"), "{why}");
    server.get("/api/v1alpha1/runs").await.expect(200);
    server.store.unwritable.store(false, Ordering::Relaxed);
    until(200).await;
    server.store.locked.store(true, Ordering::Relaxed);
    let why = until(503).await;
    assert!(why.contains("another process may have locked it"), "{why}");
    server.store.locked.store(false, Ordering::Relaxed);
    until(200).await;
}
