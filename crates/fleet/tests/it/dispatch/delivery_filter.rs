//! Deliveries without a matching rule are evaluated in batches, with the same results as one by one.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FleetStore as _, IncomingDelivery, World as _};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchRun, AgentTriggerExecution, ForgeKind, Kind, Moment, Object, WebhookDelivery,
};
use bailiwick_testkit::random::Random;
use serde_json::json;

use super::cost::counting_plane;
use super::{Plane, SHA, START, all, declare, document, start_plane};

fn delivery(name: &str, repository: &str, payload: String, at: Moment) -> IncomingDelivery {
    let payload = payload.into_bytes();
    let spec = WebhookDelivery {
        forge: ForgeKind::Generic,
        delivery_id: name.to_owned(),
        event: "ci".to_owned(),
        repository: repository.to_owned(),
        payload_digest: Sha256Hex::of(&payload).to_string(),
        bytes: payload.len() as u64,
        received_at: at,
        happened_at: None,
        headers: BTreeMap::new(),
    };
    IncomingDelivery { name: name.to_owned(), spec, payload }
}

/// The content of a delivery.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Content {
    Failure,
    Success,
    Push,
    Nonsense,
    NewWorkflow,
    UnknownRepository,
}

impl Content {
    const ALL: [Self; 6] = [
        Self::Failure,
        Self::Success,
        Self::Push,
        Self::Nonsense,
        Self::NewWorkflow,
        Self::UnknownRepository,
    ];

    fn delivery(self, number: usize) -> IncomingDelivery {
        let about = |source: &str, conclusion: &str, workflow: &str| {
            let about = json!({
                "source": source, "ref": "refs/heads/main", "branch": "main", "sha": SHA,
                "headRepository": "acme/app", "workflow": workflow, "conclusion": conclusion,
            });
            json!({ "bailiwick": about, "number": number }).to_string()
        };
        let payload = match self {
            Self::Failure => about("ci", "failure", "build"),
            Self::Success | Self::UnknownRepository => about("ci", "success", "build"),
            Self::Push => about("push", "success", "build"),
            Self::Nonsense => format!("no JSON {number}"),
            Self::NewWorkflow => about("ci", "success", &format!("workflow-{number}")),
        };
        let repository = if self == Self::UnknownRepository { "nobody" } else { "app" };
        delivery(&format!("wd-{number:03}"), repository, payload, Moment::from_millis(START))
    }
}

async fn with_a_rule() -> Plane {
    let plane = start_plane(|_| {}).await;
    let rule = json!({
        "lifecycleState": "active", "sources": ["ci"],
        "match": { "repository": ["acme/app"], "conclusion": ["failure"] },
        "agentStack": "fixer", "taskKind": "repair", "promptTemplate": "Mend it.",
    });
    declare(&plane, &[document(Kind::AgentTriggerRule, "broken", rule)]).await;
    plane.reconcile_statuses().await;
    plane
}

/// The results of all deliveries.
type Results = (Vec<(String, bool, usize, Option<String>)>, Vec<String>, Vec<String>);

async fn results(plane: &Plane) -> Results {
    let deliveries: Vec<Object<WebhookDelivery>> = all(plane).await;
    let each = deliveries.iter().map(|one| {
        let status = &one.status;
        let fault = status.fault.clone();
        (one.name().to_owned(), status.evaluated, status.executions.len(), fault)
    });
    let executions = all::<AgentTriggerExecution>(plane).await;
    let executions = executions.iter().map(|one| one.name().to_owned());
    let known = plane.store.get(Kind::Repository, "default", "app").await.unwrap().unwrap();
    let known = known.typed::<bailiwick_resources::Repository>().unwrap().status.known_workflows;
    (each.collect(), executions.collect(), known)
}

#[tokio::test]
async fn deliveries_in_one_batch_have_the_same_results_as_one_by_one() {
    let mut random = Random::rotating("sifted deliveries");
    let mut seen = BTreeMap::new();
    for _ in 0..3 {
        let (batched, one_by_one) = (with_a_rule().await, with_a_rule().await);
        for number in 0..20 {
            // Most deliveries match no rule, as in production.
            let content = match random.below(3) {
                0 => Content::ALL[random.below(Content::ALL.len())],
                _ => [Content::Success, Content::Push][random.below(2)],
            };
            *seen.entry(format!("{content:?}")).or_insert(0) += 1;
            batched.store.receive(content.delivery(number)).await.unwrap();
            one_by_one.store.receive(content.delivery(number)).await.unwrap();
            assert_eq!(one_by_one.advance().await.errors, []);
        }
        assert_eq!(batched.advance().await.errors, []);
        let (left, right) = (results(&batched).await, results(&one_by_one).await);
        assert_eq!(left, right);
        assert!(left.0.iter().all(|(_, evaluated, _, _)| *evaluated), "{left:?}");
    }
    assert!(seen.len() > 3, "{seen:?}");
}

#[tokio::test]
async fn deliveries_without_a_matching_rule_are_recorded_in_one_commit() {
    let plane = with_a_rule().await;
    let counting = counting_plane(&plane);
    let commits = async || {
        counting.store.commits.store(0, Ordering::Relaxed);
        assert_eq!(counting.advance().await.errors, []);
        counting.store.commits.load(Ordering::Relaxed)
    };
    // The first delivery with a workflow is recorded.
    plane.store.receive(Content::Push.delivery(200)).await.unwrap();
    commits().await;
    assert_eq!(commits().await, 0, "a pass without deliveries must not write");
    for number in 0..50 {
        plane.store.receive(Content::Push.delivery(number)).await.unwrap();
    }
    assert_eq!(commits().await, 1);
    // A matching delivery in the middle is written separately, between those before and after it.
    for number in 50..100 {
        let content = if number == 75 { Content::Failure } else { Content::Push };
        plane.store.receive(content.delivery(number)).await.unwrap();
    }
    let changes_before = plane.store.changes(0, usize::MAX).await.unwrap().len();
    assert!(commits().await >= 3);
    let changes = plane.store.changes(0, usize::MAX).await.unwrap();
    let recorded = changes.iter().skip(changes_before).filter(|change| {
        change.object.kind == Kind::WebhookDelivery && change.object.status["evaluated"] == true
    });
    let names: Vec<String> = recorded.map(|change| change.object.metadata.name.clone()).collect();
    let expected: Vec<String> = (50..100).map(|number| format!("wd-{number:03}")).collect();
    assert_eq!(names, expected, "deliveries are evaluated in the order in which they arrived");
    assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), 1);
}

#[tokio::test]
async fn redelivery_during_a_pass_does_not_block_other_deliveries() {
    let plane = with_a_rule().await;
    let counting = counting_plane(&plane);
    counting.advance().await;
    for number in 0..10 {
        plane.store.receive(Content::Push.delivery(number)).await.unwrap();
    }
    *counting.store.redelivery.lock().unwrap() = Some(Content::Push.delivery(4));
    assert_eq!(counting.advance().await.errors, []);
    let not_evaluated = |all: Vec<Object<WebhookDelivery>>| -> Vec<String> {
        let not_evaluated = all.iter().filter(|one| !one.status.evaluated);
        not_evaluated.map(|one| one.name().to_owned()).collect()
    };
    assert_eq!(not_evaluated(all(&plane).await), ["wd-004"], "other deliveries were blocked");
    assert_eq!(counting.advance().await.errors, []);
    let deliveries: Vec<Object<WebhookDelivery>> = all(&plane).await;
    assert_eq!(deliveries[4].status.redeliveries, 1, "the redelivery was overwritten");
    assert_eq!(not_evaluated(deliveries), [] as [&str; 0]);
}

/// Payloads that do not fit into one batch are all evaluated.
#[tokio::test]
async fn large_deliveries_are_evaluated_in_small_batches() {
    let plane = with_a_rule().await;
    for number in 0..6 {
        let payload = json!({ "number": number, "rest": "x".repeat(3 << 20) }).to_string();
        let name = format!("large-{number}");
        plane.store.receive(delivery(&name, "app", payload, plane.world.now())).await.unwrap();
    }
    let counting = counting_plane(&plane);
    assert_eq!(counting.advance().await.errors, []);
    let deliveries: Vec<Object<WebhookDelivery>> = all(&plane).await;
    assert_eq!(deliveries.len(), 6);
    assert!(deliveries.iter().all(|one| one.status.evaluated));
    // Each of them is more than half of the batch size.
    assert!(counting.store.commits.load(Ordering::Relaxed) >= 6);
}
