//! Where the server listens, under which names it is asked for, and how often.

use std::sync::Arc;

use bailiwick_fleet::ports::{MemoryFleet, TokenScope};
use bailiwick_server::{Pulse, Reach, ServeError, Server, Settings};

use crate::client::Ask;
use crate::place::{place, place_with, start};
use crate::scripted::Scripted;

#[tokio::test]
async fn the_network_is_listened_to_only_when_that_is_said() {
    let settings = Settings { address: "0.0.0.0:0".parse().unwrap(), ..Settings::default() };
    let bind = async |settings| {
        let (store, fleet) = (Arc::new(MemoryFleet::default()), Arc::new(Scripted::default()));
        Server::bind(settings, store, fleet).await
    };
    let refused = bind(settings.clone()).await.err().unwrap();
    assert!(matches!(refused, ServeError::NotLoopback(_)), "{refused}");
    assert!(bind(Settings { reach: Reach::Network, ..settings }).await.is_ok());
    assert!(Settings::default().address.ip().is_loopback());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_name_is_refused_whatever_it_brings() {
    let settings = Settings {
        address: "127.0.0.1:0".parse().unwrap(),
        hosts: vec!["hooks.example.org".to_owned()],
        ..Settings::default()
    };
    let place = start(settings).await;
    let ask = |host: &str| Ask::get("/api/v1alpha1/runs").token(place.admin()).header("host", host);
    let port = place.address.port();
    for host in
        ["localhost", &format!("localhost:{port}"), "127.0.0.1", "[::1]:1", "hooks.example.org"]
    {
        place.ask(ask(host)).await.expect(200);
    }
    for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1.evil.example"] {
        let refused = place.ask(ask(host)).await.expect(403);
        assert_eq!(refused.code(), "HOST_DENIED", "{host}");
        for path in ["/", "/healthz", "/nothing"] {
            place.ask(Ask::get(path).header("host", host)).await.expect(403);
        }
    }
    let two = ask("localhost").header("host", "evil.example");
    assert!([400, 403].contains(&place.ask(two).await.status));
    let absolute = Ask::get("http://evil.example/healthz").header("host", "localhost");
    place.ask(absolute).await.expect(403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_site_may_read_what_is_answered() {
    let place = place().await;
    let ask = Ask::get("/api/v1alpha1/runs")
        .token(place.admin())
        .header("origin", "https://evil.example");
    let reply = place.ask(ask).await.expect(200);
    assert!(!reply.headers.keys().any(|name| name.starts_with("access-control")), "{reply:?}");
    let before = Ask::new("OPTIONS", "/api/v1alpha1/runs")
        .header("origin", "https://evil.example")
        .header("access-control-request-method", "POST");
    let reply = place.ask(before).await.expect(405);
    assert!(!reply.headers.keys().any(|name| name.starts_with("access-control")), "{reply:?}");
    assert_eq!(reply.headers["cache-control"], "no-store");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_and_an_address_have_so_many_requests() {
    let place = place_with(|limits| {
        limits.per_token.per_second = 0.01;
        limits.per_token.burst = 5.0;
    })
    .await;
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(place.get("/api/v1alpha1/runs").await.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 5, "{statuses:?}");
    let refused = place.get("/api/v1alpha1/runs").await.expect(429);
    assert!(refused.headers["retry-after"].parse::<u64>().unwrap() >= 1);
    let viewer = &place.tokens[&TokenScope::Viewer];
    place.ask(Ask::get("/api/v1alpha1/runs").token(viewer)).await.expect(200);

    let place = place_with(|limits| {
        limits.per_address.per_second = 0.01;
        limits.per_address.burst = 5.0;
    })
    .await;
    let mut refused = 0;
    for _ in 0..10 {
        refused += u32::from(place.ask(Ask::get("/nothing")).await.status == 429);
    }
    assert_eq!(refused, 5);
    place.get("/api/v1alpha1/runs").await.expect(429);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_front_says_what_this_is_and_health_needs_no_token() {
    let place = place().await;
    let front = place.ask(Ask::get("/")).await.expect(200).text();
    assert!(front.contains("/api/v1alpha1") && front.contains("/openapi.json"), "{front}");
    assert_eq!(place.ask(Ask::get("/healthz")).await.expect(200).text(), "ok\n");
    assert_eq!(place.ask(Ask::get("/readyz")).await.expect(200).text(), "ready\n");
    let named = Ask::get("/healthz").header("x-correlation-id", "mine-1");
    assert_eq!(place.ask(named).await.headers["x-correlation-id"], "mine-1");
    let odd = Ask::get("/healthz").header("x-correlation-id", "a b\"c");
    assert_ne!(place.ask(odd).await.headers["x-correlation-id"], "a b\"c");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_turns_have_stopped_is_not_ready() {
    let pulse = Pulse::default();
    let mut settings = Settings {
        address: "127.0.0.1:0".parse().unwrap(),
        pulse: Some(pulse.clone()),
        ..Settings::default()
    };
    settings.limits.turn_time = std::time::Duration::from_secs(2);
    let place = start(settings).await;
    pulse.beat();
    place.ask(Ask::get("/readyz")).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    let still = place.ask(Ask::get("/readyz")).await.expect(503);
    assert!(still.text().contains("no turn has ended"), "{}", still.text());
    place.ask(Ask::get("/healthz")).await.expect(200);
    pulse.beat();
    place.ask(Ask::get("/readyz")).await.expect(200);
}
