//! Webhooks: signed or nothing, durable or not answered, the same twice is the same.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FleetStore, Selection, Write};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AnyObject, ForgeKind, KeyRef, Kind, Metadata, Object, Repository, TrustTier, WebhookDelivery,
};
use bailiwick_server::Rate;

use crate::client::{Ask, Reply};
use crate::place::{Place, moment, place_with};
use crate::scripted::signature;

const SECRET: &[u8] = b"shared";

async fn repository(place: &Place, name: &str, forge: ForgeKind, signed: bool) {
    let repository = Repository {
        full_name: format!("team/{name}"),
        forge,
        api_url: Some("http://127.0.0.1:1/api".to_owned()),
        clone_url: None,
        checkout: "/nowhere".to_owned(),
        default_branch: "main".to_owned(),
        webhook_secret_ref: signed
            .then(|| KeyRef { name: "hook".to_owned(), key: "key".to_owned() }),
        credential_ref: None,
        trust_tier: TrustTier::Trusted,
        policy: Default::default(),
        poll_every: None,
    };
    let object = AnyObject::of(&Object::new(Metadata::named(name), repository)).unwrap();
    place.store.commit(vec![Write::Create(object)], moment()).await.unwrap();
}

async fn with_repositories() -> Place {
    let place = place_with(|limits| limits.cost_of_a_wrong_token = 0.0).await;
    let values = BTreeMap::from([("key".to_owned(), SECRET.to_vec())]);
    place.store.set_secret("default", "hook", values, moment()).await.unwrap();
    repository(&place, "hub", ForgeKind::Github, true).await;
    repository(&place, "tea", ForgeKind::Gitea, true).await;
    repository(&place, "any", ForgeKind::Generic, true).await;
    repository(&place, "unsigned", ForgeKind::Generic, false).await;
    place
}

fn hook(repository: &str, prefix: &str, id: &str, body: &str) -> Ask {
    Ask::new("POST", &format!("/webhooks/{repository}"))
        .header("content-type", "application/json")
        .header(&format!("x-{prefix}-delivery"), id)
        .header(&format!("x-{prefix}-event"), "check_run")
        .header("x-test-signature", signature(SECRET, body.as_bytes()))
        .bytes(body)
}

async fn deliveries(place: &Place) -> Vec<WebhookDelivery> {
    let page = place.store.list(&Selection::of(Kind::WebhookDelivery)).await.unwrap();
    page.objects.iter().map(|object| object.typed().unwrap().spec).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_forge_s_delivery_is_kept_before_it_is_answered() {
    let place = with_repositories().await;
    for (repository, prefix) in [("hub", "github"), ("tea", "gitea"), ("any", "bailiwick")] {
        let body = format!("{{\"from\":\"{repository}\"}}");
        let reply = place.ask(hook(repository, prefix, "id-1", &body)).await.expect(202);
        assert_eq!(reply.json()["again"], false);
        let kept = deliveries(&place).await.into_iter().find(|kept| kept.repository == repository);
        let kept = kept.unwrap();
        assert_eq!((kept.delivery_id.as_str(), kept.event.as_str()), ("id-1", "check_run"));
        assert_eq!(kept.payload_digest, Sha256Hex::of(&body).to_string());
        let bytes = place.store.blob(&kept.payload_digest).await.unwrap();
        assert_eq!(bytes.as_deref(), Some(body.as_bytes()));
        assert!(!kept.headers.contains_key("x-test-signature"), "{:?}", kept.headers);
        assert_eq!(kept.headers["content-type"], "application/json");
        let again = place.ask(hook(repository, prefix, "id-1", &body)).await.expect(200);
        assert_eq!(again.json()["again"], true);
        let other = place.ask(hook(repository, prefix, "id-1", "{}")).await.expect(409);
        assert_eq!(other.code(), "DELIVERY_CONTRADICTS");
    }
    assert_eq!(
        deliveries(&place).await.len(),
        3,
        "one for each repository, though the ids are the same"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_signed_is_not_kept() {
    let place = with_repositories().await;
    let mut wrong = hook("hub", "github", "id-1", "{}");
    wrong.body = b"{\"forged\":true}".to_vec();
    let unsigned = Ask { headers: Vec::new(), ..wrong.clone() };
    let answers: Vec<Reply> = vec![
        place.ask(wrong).await.expect(401),
        place.ask(unsigned).await.expect(401),
        place.ask(hook("unsigned", "bailiwick", "id-1", "{}")).await.expect(401),
        place.ask(hook("nothing", "bailiwick", "id-1", "{}")).await.expect(401),
    ];
    let said = |reply: &Reply| reply.json()["error"]["message"].clone();
    assert!(
        answers.iter().all(|reply| said(reply) == said(&answers[0])),
        "they are not told apart"
    );
    // The token of a person is no signature.
    let admin = hook("unsigned", "bailiwick", "id-2", "{}").token(place.admin());
    place.ask(admin).await.expect(401);
    assert!(deliveries(&place).await.is_empty());
    let denied = place.audit().await;
    let denied = denied
        .iter()
        .filter(|(who, event, _)| who == "nobody" && event == "WebhookSignatureDenied");
    assert_eq!(denied.count(), 2);
    place.ask(hook("hub", "github", "id-1", "{}")).await.expect(202);
    let nameless = hook("hub", "github", "", "{}");
    place.ask(nameless).await.expect(400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_forgeries_does_not_flood_the_audit_log() {
    let place = with_repositories().await;
    for number in 0..60 {
        let mut wrong = hook("hub", "github", &format!("id-{number}"), "{}");
        wrong.body = b"x".to_vec();
        place.ask(wrong).await.expect(401);
    }
    let lines = place.audit().await.len();
    assert!((1..=12).contains(&lines), "{lines}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_delivery_at_once_is_kept_once() {
    let place = with_repositories().await;
    let sends = (0..16).map(|_| {
        let (address, ask) = (place.address, hook("hub", "github", "id-1", "{}"));
        tokio::spawn(async move { ask.send(address).await.status })
    });
    let mut statuses = Vec::new();
    for send in sends.collect::<Vec<_>>() {
        statuses.push(send.await.unwrap());
    }
    assert!(statuses.iter().all(|status| [200, 202].contains(status)), "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 1, "{statuses:?}");
    assert_eq!(deliveries(&place).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_beaten_by_its_own_repetition_is_told_that_it_is_kept() {
    let place = with_repositories().await;
    place.store.quicker.store(true, Ordering::Relaxed);
    let reply = place.ask(hook("hub", "github", "id-1", "{}")).await.expect(200);
    assert_eq!(reply.json()["again"], true);
    assert_eq!(deliveries(&place).await.len(), 1);
    let figures = place.get("/metrics").await.text();
    assert!(
        figures.contains("bailiwick_webhook_deliveries_total{outcome=\"again\"} 1\n"),
        "{figures}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_may_be_longer_than_a_request() {
    let place = with_repositories().await;
    let long = "x".repeat(5 * 1024 * 1024);
    place.ask(hook("hub", "github", "long", &long)).await.expect(202);
    let longer = "x".repeat(26 * 1024 * 1024);
    place.ask(hook("hub", "github", "longer", &longer)).await.expect(413);
    assert_eq!(deliveries(&place).await.len(), 1);
    let other = crate::place::place().await;
    let body = format!("\"{long}\"");
    let refused = Ask::new("POST", "/api/v1alpha1/apply").token(other.admin()).bytes(body);
    other.ask(refused).await.expect(413);
    place.ask(Ask::get("/healthz")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guessing_signatures_soon_waits() {
    let rate = Rate { per_second: 1.0, burst: 200.0 };
    let place = place_with(|limits| limits.per_address = rate).await;
    let mut statuses = Vec::new();
    for _ in 0..60 {
        let reply = place.ask(hook("nothing", "github", "id", "{}")).await;
        if reply.status == 429 {
            assert!(reply.headers["retry-after"].parse::<u64>().unwrap() >= 1);
        }
        statuses.push(reply.status);
    }
    assert_eq!(statuses[0], 401);
    assert!(statuses.contains(&429), "{statuses:?}");
}

async fn readings(place: &Place) -> u64 {
    let text = place.get("/metrics").await.expect(200).text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("bailiwick_store_seconds_count{op=\"get\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_that_come_at_once_share_one_reading_of_their_repository() {
    let place = with_repositories().await;
    place.store.pause.store(100, Ordering::Relaxed);
    let before = readings(&place).await;
    let sends = (0..32).map(|number| {
        let id = format!("id-{number}");
        let (address, ask) = (place.address, hook("hub", "github", &id, "{}"));
        tokio::spawn(async move { ask.send(address).await.status })
    });
    for send in sends.collect::<Vec<_>>() {
        assert_eq!(send.await.unwrap(), 202);
    }
    assert_eq!(deliveries(&place).await.len(), 32);
    let read = readings(&place).await - before;
    assert!((1..32).contains(&read), "{read}");
}

/// However many others are being read for: nobody is let in by what was so before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_was_changed_counts_from_then_on() {
    let place = with_repositories().await;
    place.store.pause.store(5, Ordering::Relaxed);
    let signed = |secret: &[u8], id: &str| {
        let mut ask = hook("hub", "github", id, "{}");
        ask.headers.retain(|(name, _)| name != "x-test-signature");
        ask.header("x-test-signature", signature(secret, b"{}"))
    };
    let mut old = SECRET.to_vec();
    for round in 0..12 {
        let others: Vec<_> = (0..8)
            .map(|number| {
                let id = format!("other-{round}-{number}");
                let (address, ask) = (place.address, signed(&old, &id));
                tokio::spawn(async move { ask.send(address).await.status })
            })
            .collect();
        tokio::task::yield_now().await;
        let new = format!("secret-{round}").into_bytes();
        let values = BTreeMap::from([("key".to_owned(), new.clone())]);
        place.store.set_secret("default", "hook", values, moment()).await.unwrap();
        place.ask(signed(&old, &format!("old-{round}"))).await.expect(401);
        place.ask(signed(&new, &format!("new-{round}"))).await.expect(202);
        for other in others {
            let status = other.await.unwrap();
            assert!([202, 401].contains(&status), "{status}");
        }
        old = new;
    }
}
