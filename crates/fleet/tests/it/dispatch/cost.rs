//! The number of reads in a pass does not grow with the number of ended runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bailiwick_fleet::controllers::ControlPlane;
use bailiwick_fleet::ports::{
    Applied, AuditEntry, Change, FleetError, FleetStore, IncomingDelivery, MemoryFleet, Page,
    PersonRecord, Received, SavedFilter, Selection, TokenRecord, World as _, Write,
};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchRun, AgentTriggerExecution, AnyObject, ForgeKind, Kind, Metadata, Moment,
    WebhookDelivery,
};
use serde_json::json;

use super::{
    Plane, SHA, ScriptedEngine, ScriptedWorld, all, declare, document, reconcile, start_plane,
};

/// A store that counts reads and commits.
pub(super) struct CountingStore {
    pub(super) store: Arc<MemoryFleet>,
    pub(super) read: AtomicUsize,
    pub(super) commits: AtomicUsize,
    /// How many secret values were requested.
    secret_reads: AtomicUsize,
    /// A delivery that is repeated just before the next commit.
    pub(super) redelivery: Mutex<Option<IncomingDelivery>>,
}

/// The same plane with a store that counts.
pub(super) fn counting_plane(
    plane: &Plane,
) -> ControlPlane<CountingStore, ScriptedEngine, ScriptedWorld> {
    let store = CountingStore {
        store: Arc::clone(&plane.store),
        read: AtomicUsize::new(0),
        commits: AtomicUsize::new(0),
        secret_reads: AtomicUsize::new(0),
        redelivery: Mutex::default(),
    };
    ControlPlane::new(Arc::new(store), Arc::clone(&plane.engine), Arc::clone(&plane.world))
}

impl FleetStore for CountingStore {
    async fn get(
        &self,
        kind: Kind,
        space: &str,
        name: &str,
    ) -> Result<Option<AnyObject>, FleetError> {
        self.read.fetch_add(1, Ordering::Relaxed);
        self.store.get(kind, space, name).await
    }

    async fn list(&self, selection: &Selection) -> Result<Page, FleetError> {
        let page = self.store.list(selection).await?;
        self.read.fetch_add(1 + page.objects.len(), Ordering::Relaxed);
        Ok(page)
    }

    async fn count_both(
        &self,
        kind: Kind,
        first: (&str, &str),
        second: (&str, &str),
    ) -> Result<u64, FleetError> {
        self.read.fetch_add(1, Ordering::Relaxed);
        self.store.count_both(kind, first, second).await
    }

    async fn commit(&self, writes: Vec<Write>, now: Moment) -> Result<Applied, FleetError> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        let redelivery = self.redelivery.lock().unwrap().take();
        if let Some(redelivery) = redelivery {
            self.store.receive(redelivery).await?;
        }
        self.store.commit(writes, now).await
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, FleetError> {
        self.store.changes(after, limit).await
    }

    async fn forget_changes(&self, keep: u64) -> Result<u64, FleetError> {
        self.store.forget_changes(keep).await
    }

    async fn wait_for_change(&self, after: u64, millis: u64) {
        self.store.wait_for_change(after, millis).await;
    }

    async fn receive(&self, delivery: IncomingDelivery) -> Result<Received, FleetError> {
        self.store.receive(delivery).await
    }

    async fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, FleetError> {
        self.store.blob(digest).await
    }

    async fn secret_value(
        &self,
        space: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<Vec<u8>>, FleetError> {
        self.secret_reads.fetch_add(1, Ordering::Relaxed);
        self.store.secret_value(space, name, key).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, FleetError> {
        self.store.tokens().await
    }

    async fn token(&self, digest: &str) -> Result<Option<TokenRecord>, FleetError> {
        self.store.token(digest).await
    }

    async fn people(&self) -> Result<Vec<PersonRecord>, FleetError> {
        self.store.people().await
    }

    async fn saved_filters(&self, owner: &str) -> Result<Vec<SavedFilter>, FleetError> {
        self.store.saved_filters(owner).await
    }

    async fn forget_sessions(&self, before: Moment, max: usize) -> Result<u64, FleetError> {
        self.store.forget_sessions(before, max).await
    }

    async fn forget_audit(&self, before: Moment, max: usize) -> Result<u64, FleetError> {
        self.store.forget_audit(before, max).await
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        self.store.audit(after, limit).await
    }
}

async fn deliver(plane: &Plane, id: &str) {
    let about = json!({
        "source": "ci", "ref": "refs/heads/main", "branch": "main", "sha": SHA,
        "workflow": id, "conclusion": "failure",
    });
    let payload = json!({ "bailiwick": about }).to_string().into_bytes();
    let spec = WebhookDelivery {
        forge: ForgeKind::Generic,
        delivery_id: id.to_owned(),
        event: "ci".to_owned(),
        repository: "app".to_owned(),
        payload_digest: Sha256Hex::of(&payload).to_string(),
        bytes: payload.len() as u64,
        received_at: plane.world.now(),
        happened_at: None,
        headers: BTreeMap::new(),
    };
    plane.store.receive(IncomingDelivery { name: id.to_owned(), spec, payload }).await.unwrap();
}

/// A plane with one failed run, and `more` copies of it and of its execution.
async fn with_history(more: usize) -> Plane {
    let plane = start_plane(|_| {}).await;
    let rule = json!({
        "lifecycleState": "active", "sources": ["ci"],
        "match": { "repository": ["acme/app"], "conclusion": ["failure"] },
        "agentStack": "fixer", "taskKind": "repair", "promptTemplate": "Mend it.",
        "dedupePolicy": { "key": "{{ event.branch }}", "window": "1ms" },
        "concurrencyPolicy": { "group": "{{ event.branch }}", "mode": "queue", "maxActive": 1 },
    });
    declare(&plane, &[document(Kind::AgentTriggerRule, "broken", rule)]).await;
    plane.reconcile_statuses().await;
    deliver(&plane, "first").await;
    reconcile(&plane).await;
    let mut run = all::<AgentDispatchRun>(&plane).await.remove(0);
    run.status.phase = bailiwick_resources::RunPhase::Failed;
    let ended = AnyObject::of(&run).unwrap();
    let now = plane.world.now();
    plane.store.commit(vec![Write::Status(ended.clone())], now).await.unwrap();
    let execution = all::<AgentTriggerExecution>(&plane).await.remove(0);
    let execution = AnyObject::of(&execution).unwrap();
    for number in 0..more {
        for original in [&ended, &execution] {
            let name = format!("{}-{number}", original.metadata.name);
            let copy = AnyObject { metadata: Metadata::named(name), ..original.clone() };
            plane.store.commit(vec![Write::Create(copy)], now).await.unwrap();
        }
    }
    plane.world.clock.fetch_add(60_000, Ordering::Relaxed);
    plane
}

/// How many objects are read until a delivery has started a run.
async fn read(plane: &Plane) -> usize {
    let counting = counting_plane(plane);
    deliver(plane, "second").await;
    let before = plane.engine.launched.lock().unwrap().len();
    for _ in 0..4 {
        let summary = counting.advance().await;
        assert_eq!(summary.errors, []);
    }
    assert_eq!(plane.engine.launched.lock().unwrap().len(), before + 1);
    counting.store.read.load(Ordering::Relaxed)
}

#[tokio::test]
async fn number_of_reads_does_not_grow_with_ended_runs() {
    let few = read(&with_history(0).await).await;
    let many = read(&with_history(200).await).await;
    assert_eq!(few, many);
    // Positive control: the reads are counted.
    assert!(few > 20, "{few}");
}

/// A delivery without a matching rule reads nothing that only a run needs.
#[tokio::test]
async fn delivery_that_starts_nothing_costs_few_reads() {
    let plane = start_plane(|_| {}).await;
    let counting = counting_plane(&plane);
    let mut reads = Vec::new();
    for id in ["nothing", "one", "two"] {
        if id != "nothing" {
            deliver(&plane, id).await;
        }
        counting.store.read.store(0, Ordering::Relaxed);
        counting.advance().await;
        reads.push(counting.store.read.load(Ordering::Relaxed));
    }
    // The delivery, its repository and the rules, twice.
    assert!(reads[1] - reads[0] <= 6 && reads[1] == reads[2], "{reads:?}");
}

/// A pass without work reads little, however many phases it has.
#[tokio::test]
async fn pass_without_work_costs_few_reads() {
    let plane = start_plane(|_| {}).await;
    let counting = counting_plane(&plane);
    reconcile(&plane).await;
    let summary = counting.advance().await;
    assert_eq!((summary.done, summary.errors), (0, Vec::new()));
    let read = counting.store.read.load(Ordering::Relaxed);
    assert!(read > 5 && read < 35, "{read}");
}

/// What all rules of a delivery need is read once.
#[tokio::test]
async fn secrets_are_read_once_per_delivery_for_any_number_of_runs() {
    for rules in [1, 3] {
        let plane = start_plane(|_| {}).await;
        let values = BTreeMap::from([("key".to_owned(), b"quite-own-value".to_vec())]);
        plane.store.set_secret("default", "own", values, plane.world.now()).await.unwrap();
        for number in 0..rules {
            let rule = json!({
                "lifecycleState": "active", "sources": ["ci"],
                "match": { "repository": ["acme/app"], "conclusion": ["failure"] },
                "agentStack": "fixer", "taskKind": "repair",
                "promptTemplate": "Mend quite-own-value.",
            });
            let name = format!("broken-{number}");
            declare(&plane, &[document(Kind::AgentTriggerRule, &name, rule)]).await;
        }
        plane.reconcile_statuses().await;
        deliver(&plane, "first").await;
        let counting = counting_plane(&plane);
        assert_eq!(counting.advance().await.errors, []);
        assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), rules);
        assert_eq!(counting.store.secret_reads.load(Ordering::Relaxed), 1);
        // No context contains the value.
        reconcile(&plane).await;
        let launched = plane.engine.launched.lock().unwrap().clone();
        assert!(!launched.is_empty());
        assert!(launched.iter().all(|one| !one.context.contains("quite-own-value")));
    }
}
