//! Webhooks: the signature is required, deliveries are stored before the response, redeliveries are recognised.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use bailiwick_fleet::poll_cursor::PollCursor;
use bailiwick_fleet::ports::{FleetStore, Selection, Write};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AnyObject, ForgeKind, KeyRef, Kind, Metadata, Object, Repository, TrustTier, WebhookDelivery,
};
use bailiwick_server::{Rate, Settings};

use crate::client::{HttpRequest, HttpResponse};
use crate::scripted_fleet::signature;
use crate::test_server::{TestServer, moment, start, start_server_with};

const SECRET: &[u8] = b"shared";

async fn repository(server: &TestServer, name: &str, forge: ForgeKind, signed: bool) {
    let repository = Repository {
        full_name: format!("team/{name}"),
        forge,
        api_url: Some("http://127.0.0.1:1/api".to_owned()),
        clone_url: None,
        checkout: "/nowhere".to_owned(),
        default_branch: "main".to_owned(),
        webhook_secret_ref: signed
            .then(|| KeyRef { name: "hook".to_owned(), key: "key".to_owned() }),
        credential_ref: signed.then(|| KeyRef { name: "hook".to_owned(), key: "key".to_owned() }),
        trust_tier: TrustTier::Trusted,
        policy: Default::default(),
        poll_every: None,
        issue_memory: false,
        claims_issue: None,
        accounts: BTreeMap::new(),
    };
    let object = AnyObject::of(&Object::new(Metadata::named(name), repository)).unwrap();
    server.store.commit(vec![Write::Create(object)], moment()).await.unwrap();
}

async fn with_repositories() -> TestServer {
    let unlimited = Rate { per_second: 1_000.0, burst: 1_000.0 };
    let server = start_server_with(|limits| limits.failed_signatures = unlimited).await;
    add_repositories(&server).await;
    server
}

async fn add_repositories(server: &TestServer) {
    let values = BTreeMap::from([("key".to_owned(), SECRET.to_vec())]);
    server.store.set_secret("default", "hook", values, moment()).await.unwrap();
    repository(server, "hub", ForgeKind::Github, true).await;
    repository(server, "tea", ForgeKind::Gitea, true).await;
    repository(server, "any", ForgeKind::Generic, true).await;
    repository(server, "unsigned", ForgeKind::Generic, false).await;
}

fn hook(repository: &str, prefix: &str, id: &str, body: &str) -> HttpRequest {
    HttpRequest::new("POST", &format!("/webhooks/{repository}"))
        .header("content-type", "application/json")
        .header(&format!("x-{prefix}-delivery"), id)
        .header(&format!("x-{prefix}-event"), "check_run")
        .header("x-test-signature", signature(SECRET, body.as_bytes()))
        .bytes(body)
}

async fn deliveries(server: &TestServer) -> Vec<WebhookDelivery> {
    let page = server.store.list(&Selection::of(Kind::WebhookDelivery)).await.unwrap();
    page.objects.iter().map(|object| object.typed().unwrap().spec).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivery_of_each_forge_is_stored_before_the_response() {
    let server = with_repositories().await;
    for (repository, prefix) in [("hub", "github"), ("tea", "gitea"), ("any", "bailiwick")] {
        let body = format!("{{\"from\":\"{repository}\"}}");
        let reply = server.execute(hook(repository, prefix, "id-1", &body)).await.expect(202);
        assert_eq!(reply.json()["again"], false);
        let stored =
            deliveries(&server).await.into_iter().find(|stored| stored.repository == repository);
        let stored = stored.unwrap();
        assert_eq!((stored.delivery_id.as_str(), stored.event.as_str()), ("id-1", "check_run"));
        assert_eq!(stored.payload_digest, Sha256Hex::of(&body).to_string());
        let bytes = server.store.blob(&stored.payload_digest).await.unwrap();
        assert_eq!(bytes.as_deref(), Some(body.as_bytes()));
        assert!(!stored.headers.contains_key("x-test-signature"), "{:?}", stored.headers);
        assert_eq!(stored.headers["content-type"], "application/json");
        let redelivered = server.execute(hook(repository, prefix, "id-1", &body)).await.expect(200);
        assert_eq!(redelivered.json()["again"], true);
        let other = server.execute(hook(repository, prefix, "id-1", "{}")).await.expect(409);
        assert_eq!(other.code(), "DELIVERY_CONTRADICTS");
    }
    assert_eq!(deliveries(&server).await.len(), 3, "one for each repository with the same id");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsigned_webhooks_are_not_stored() {
    let server = with_repositories().await;
    let mut wrong = hook("hub", "github", "id-1", "{}");
    wrong.body = b"{\"forged\":true}".to_vec();
    let unsigned = HttpRequest { headers: Vec::new(), ..wrong.clone() };
    let rejections: Vec<HttpResponse> = vec![
        server.execute(wrong).await.expect(401),
        server.execute(unsigned).await.expect(401),
        server.execute(hook("unsigned", "bailiwick", "id-1", "{}")).await.expect(401),
        server.execute(hook("nothing", "bailiwick", "id-1", "{}")).await.expect(401),
    ];
    let message = |reply: &HttpResponse| reply.json()["error"]["message"].clone();
    assert!(
        rejections.iter().all(|reply| message(reply) == message(&rejections[0])),
        "all rejections are the same"
    );
    // An API token is not a signature.
    let admin = hook("unsigned", "bailiwick", "id-2", "{}").token(server.admin());
    server.execute(admin).await.expect(401);
    assert!(deliveries(&server).await.is_empty());
    let denied = server.audit().await;
    let denied = denied
        .iter()
        .filter(|(actor, event, _)| actor == "nobody" && event == "WebhookSignatureDenied");
    assert_eq!(denied.count(), 2);
    server.execute(hook("hub", "github", "id-1", "{}")).await.expect(202);
    let nameless = hook("hub", "github", "", "{}");
    server.execute(nameless).await.expect(400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_entries_of_forged_webhooks_are_limited() {
    let server = with_repositories().await;
    for number in 0..60 {
        let mut wrong = hook("hub", "github", &format!("id-{number}"), "{}");
        wrong.body = b"x".to_vec();
        server.execute(wrong).await.expect(401);
    }
    let lines = server.audit().await.len();
    assert!((1..=12).contains(&lines), "{lines}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_copies_of_a_delivery_are_stored_once() {
    let server = with_repositories().await;
    let sends = (0..16).map(|_| {
        let (address, request) = (server.address, hook("hub", "github", "id-1", "{}"));
        tokio::spawn(async move { request.send(address).await.status })
    });
    let mut statuses = Vec::new();
    for send in sends.collect::<Vec<_>>() {
        statuses.push(send.await.unwrap());
    }
    assert!(statuses.iter().all(|status| [200, 202].contains(status)), "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 1, "{statuses:?}");
    assert_eq!(deliveries(&server).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_redelivery_is_recognised() {
    let server = with_repositories().await;
    server.store.stored_concurrently.store(true, Ordering::Relaxed);
    let reply = server.execute(hook("hub", "github", "id-1", "{}")).await.expect(200);
    assert_eq!(reply.json()["again"], true);
    assert_eq!(deliveries(&server).await.len(), 1);
    let metrics = server.get("/metrics").await.text();
    assert!(
        metrics.contains("bailiwick_webhook_deliveries_total{outcome=\"again\"} 1\n"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_can_be_larger_than_a_request() {
    let server = with_repositories().await;
    let long = "x".repeat(5 * 1024 * 1024);
    server.execute(hook("hub", "github", "long", &long)).await.expect(202);
    let longer = "x".repeat(26 * 1024 * 1024);
    server.execute(hook("hub", "github", "longer", &longer)).await.expect(413);
    assert_eq!(deliveries(&server).await.len(), 1);
    let other = crate::test_server::start_server().await;
    let body = format!("\"{long}\"");
    let refused = HttpRequest::new("POST", "/api/v1alpha1/apply").token(other.admin()).bytes(body);
    other.execute(refused).await.expect(413);
    server.execute(HttpRequest::get("/healthz")).await.expect(200);
}

/// The forge will not send it smaller, so it has to be asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_webhook_is_noted_once_for_a_poll_of_its_forge() {
    let server = start_server_with(|limits| limits.webhook_body_bytes = 1_000).await;
    add_repositories(&server).await;
    let refused_at = async |name: &str| {
        let found = server.store.get(Kind::Repository, "default", name).await.unwrap();
        PollCursor::of(&found.unwrap().typed::<Repository>().unwrap().status).refused
    };
    let long = "x".repeat(2_000);
    let send = async |name: &str| {
        let long = hook(name, "github", "id-1", &long);
        server.execute(long).await.expect(413);
    };
    // Its signature is not read. A generic sender cannot be asked, and others send no webhooks.
    for name in ["hub", "any", "unsigned", "nothing", "NO-name"] {
        send(name).await;
    }
    let first = refused_at("hub").await;
    assert!(first.is_some());
    for name in ["tea", "any", "unsigned"] {
        assert_eq!(refused_at(name).await, None, "{name}");
    }
    send("hub").await;
    assert_eq!(refused_at("hub").await, first, "until its forge was asked");
    assert!(deliveries(&server).await.is_empty());
    server.execute(hook("hub", "github", "id-1", "{}")).await.expect(202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_signatures_are_limited_per_address_and_repository() {
    let mut settings = Settings {
        address: "127.0.0.1:0".parse().unwrap(),
        trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
        ..Settings::default()
    };
    settings.limits.failed_signatures = Rate { per_second: 0.001, burst: 5.0 };
    let server = start(settings).await;
    add_repositories(&server).await;
    let from = |client: &str, request: HttpRequest| request.header("x-forwarded-for", client);
    let forged = |repository: &str| HttpRequest {
        body: b"forged".to_vec(),
        ..hook(repository, "github", "id", "{}")
    };
    for name in ["hub", "nothing"] {
        for _ in 0..5 {
            server.execute(from("192.0.2.66", forged(name))).await.expect(401);
        }
        let refused = server.execute(from("192.0.2.66", forged(name))).await.expect(429);
        assert!(refused.headers["retry-after"].parse::<u64>().unwrap() >= 1);
    }
    // A valid signature does not help at the limit: otherwise a weak secret could be guessed.
    let valid = |repository, prefix, id| hook(repository, prefix, id, "{}");
    server.execute(from("192.0.2.66", valid("hub", "github", "a"))).await.expect(429);
    server.execute(from("192.0.2.66", valid("tea", "gitea", "b"))).await.expect(202);
    server.execute(from("192.0.2.7", valid("hub", "github", "c"))).await.expect(202);
    let other = HttpRequest::get("/api/v1alpha1/runs").token(server.admin());
    server.execute(from("192.0.2.66", other)).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn valid_signatures_are_not_counted() {
    let rate = Rate { per_second: 0.001, burst: 3.0 };
    let server = start_server_with(|limits| limits.failed_signatures = rate).await;
    add_repositories(&server).await;
    for number in 0..10 {
        let id = format!("id-{number}");
        server.execute(hook("hub", "github", &id, "{}")).await.expect(202);
    }
}

async fn read_count(server: &TestServer) -> u64 {
    let text = server.get("/metrics").await.expect(200).text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("bailiwick_store_seconds_count{op=\"get\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_webhooks_share_one_read_of_their_repository() {
    let server = with_repositories().await;
    server.store.pause.store(100, Ordering::Relaxed);
    let before = read_count(&server).await;
    let sends = (0..32).map(|number| {
        let id = format!("id-{number}");
        let (address, request) = (server.address, hook("hub", "github", &id, "{}"));
        tokio::spawn(async move { request.send(address).await.status })
    });
    for send in sends.collect::<Vec<_>>() {
        assert_eq!(send.await.unwrap(), 202);
    }
    assert_eq!(deliveries(&server).await.len(), 32);
    let read = read_count(&server).await - before;
    assert!((1..32).contains(&read), "{read}");
}

/// This also holds while concurrent webhooks share reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_secret_takes_effect_at_once() {
    let server = with_repositories().await;
    server.store.pause.store(5, Ordering::Relaxed);
    let signed = |secret: &[u8], id: &str| {
        let mut request = hook("hub", "github", id, "{}");
        request.headers.retain(|(name, _)| name != "x-test-signature");
        request.header("x-test-signature", signature(secret, b"{}"))
    };
    let mut old = SECRET.to_vec();
    for round in 0..12 {
        let others: Vec<_> = (0..8)
            .map(|number| {
                let id = format!("other-{round}-{number}");
                let (address, request) = (server.address, signed(&old, &id));
                tokio::spawn(async move { request.send(address).await.status })
            })
            .collect();
        tokio::task::yield_now().await;
        let new = format!("secret-{round}").into_bytes();
        let values = BTreeMap::from([("key".to_owned(), new.clone())]);
        server.store.set_secret("default", "hook", values, moment()).await.unwrap();
        server.execute(signed(&old, &format!("old-{round}"))).await.expect(401);
        server.execute(signed(&new, &format!("new-{round}"))).await.expect(202);
        for other in others {
            let status = other.await.unwrap();
            assert!([202, 401].contains(&status), "{status}");
        }
        old = new;
    }
}
