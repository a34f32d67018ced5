//! Deliveries that no rule means are looked at together; what becomes of each is what would become of it alone.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FleetStore as _, IncomingDelivery, World as _};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchRun, AgentTriggerExecution, ForgeKind, Kind, Moment, Object, WebhookDelivery,
};
use bailiwick_testkit::random::Random;
use serde_json::json;

use super::cost::counting;
use super::{Plane, SHA, START, all, declare, document, stand};

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

/// What a delivery says.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Says {
    Failure,
    Success,
    Push,
    Nonsense,
    NewWorkflow,
    OfNobody,
}

impl Says {
    const ALL: [Self; 6] = [
        Self::Failure,
        Self::Success,
        Self::Push,
        Self::Nonsense,
        Self::NewWorkflow,
        Self::OfNobody,
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
            Self::Success | Self::OfNobody => about("ci", "success", "build"),
            Self::Push => about("push", "success", "build"),
            Self::Nonsense => format!("no JSON {number}"),
            Self::NewWorkflow => about("ci", "success", &format!("workflow-{number}")),
        };
        let repository = if self == Self::OfNobody { "nobody" } else { "app" };
        delivery(&format!("wd-{number:03}"), repository, payload, Moment::from_millis(START))
    }
}

async fn with_a_rule() -> Plane {
    let plane = stand(|_| {}).await;
    let rule = json!({
        "lifecycleState": "active", "sources": ["ci"],
        "match": { "repository": ["acme/app"], "conclusion": ["failure"] },
        "agentStack": "fixer", "taskKind": "repair", "promptTemplate": "Mend it.",
    });
    declare(&plane, &[document(Kind::AgentTriggerRule, "broken", rule)]).await;
    plane.reconcile_statuses().await;
    plane
}

/// What became of all of them.
type Became = (Vec<(String, bool, usize, Option<String>)>, Vec<String>, Vec<String>);

async fn became(plane: &Plane) -> Became {
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
        let (together, alone) = (with_a_rule().await, with_a_rule().await);
        for number in 0..20 {
            // Most deliveries match no rule, as in production.
            let says = match random.below(3) {
                0 => Says::ALL[random.below(Says::ALL.len())],
                _ => [Says::Success, Says::Push][random.below(2)],
            };
            *seen.entry(format!("{says:?}")).or_insert(0) += 1;
            together.store.receive(says.delivery(number)).await.unwrap();
            alone.store.receive(says.delivery(number)).await.unwrap();
            assert_eq!(alone.advance().await.errors, []);
        }
        assert_eq!(together.advance().await.errors, []);
        let (left, right) = (became(&together).await, became(&alone).await);
        assert_eq!(left, right);
        assert!(left.0.iter().all(|(_, evaluated, _, _)| *evaluated), "{left:?}");
    }
    assert!(seen.len() > 3, "{seen:?}");
}

#[tokio::test]
async fn what_no_rule_means_is_noted_in_one_commit() {
    let plane = with_a_rule().await;
    let counting = counting(&plane);
    let commits = async || {
        counting.store.commits.store(0, Ordering::Relaxed);
        assert_eq!(counting.advance().await.errors, []);
        counting.store.commits.load(Ordering::Relaxed)
    };
    // The first that speaks of a workflow is noticed.
    plane.store.receive(Says::Push.delivery(200)).await.unwrap();
    commits().await;
    assert_eq!(commits().await, 0, "a turn writes though nothing came in");
    for number in 0..50 {
        plane.store.receive(Says::Push.delivery(number)).await.unwrap();
    }
    assert_eq!(commits().await, 1);
    // One in the middle that is meant is written by itself, between those before it and those behind it.
    for number in 50..100 {
        let says = if number == 75 { Says::Failure } else { Says::Push };
        plane.store.receive(says.delivery(number)).await.unwrap();
    }
    let changes_before = plane.store.changes(0, usize::MAX).await.unwrap().len();
    assert!(commits().await >= 3);
    let changes = plane.store.changes(0, usize::MAX).await.unwrap();
    let noted = changes.iter().skip(changes_before).filter(|change| {
        change.object.kind == Kind::WebhookDelivery && change.object.status["evaluated"] == true
    });
    let names: Vec<String> = noted.map(|change| change.object.metadata.name.clone()).collect();
    let wanted: Vec<String> = (50..100).map(|number| format!("wd-{number:03}")).collect();
    assert_eq!(names, wanted, "they are looked at in the order in which they came");
    assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), 1);
}

#[tokio::test]
async fn one_that_comes_again_meanwhile_does_not_hold_up_the_others() {
    let plane = with_a_rule().await;
    let counting = counting(&plane);
    counting.advance().await;
    for number in 0..10 {
        plane.store.receive(Says::Push.delivery(number)).await.unwrap();
    }
    *counting.store.again.lock().unwrap() = Some(Says::Push.delivery(4));
    assert_eq!(counting.advance().await.errors, []);
    let left = |all: Vec<Object<WebhookDelivery>>| -> Vec<String> {
        let left = all.iter().filter(|one| !one.status.evaluated);
        left.map(|one| one.name().to_owned()).collect()
    };
    assert_eq!(left(all(&plane).await), ["wd-004"], "the others were held up");
    assert_eq!(counting.advance().await.errors, []);
    let deliveries: Vec<Object<WebhookDelivery>> = all(&plane).await;
    assert_eq!(deliveries[4].status.redeliveries, 1, "that it came again was overwritten");
    assert_eq!(left(deliveries), [] as [&str; 0]);
}

/// Payloads that are too much to be held at once are all looked at.
#[tokio::test]
async fn large_ones_are_looked_at_a_few_at_a_time() {
    let plane = with_a_rule().await;
    for number in 0..6 {
        let payload = json!({ "number": number, "rest": "x".repeat(3 << 20) }).to_string();
        let name = format!("large-{number}");
        plane.store.receive(delivery(&name, "app", payload, plane.world.now())).await.unwrap();
    }
    let counting = counting(&plane);
    assert_eq!(counting.advance().await.errors, []);
    let deliveries: Vec<Object<WebhookDelivery>> = all(&plane).await;
    assert_eq!(deliveries.len(), 6);
    assert!(deliveries.iter().all(|one| one.status.evaluated));
    // Each of them is more than half of what is held at once.
    assert!(counting.store.commits.load(Ordering::Relaxed) >= 6);
}
