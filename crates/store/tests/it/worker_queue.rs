//! A queue of attempts with workers, for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiwick_fleet::ports::EngineEvent;
use bailiwick_fleet::workers::{
    AttemptSummary, FinishReport, Lease, NewWorker, NewWorkerToken, ProgressReport, QueuedAttempt,
    QueuedCheck, QueuedState, WorkerCapabilities, WorkerRecord,
};
use bailiwick_model::event::ExitReason;
use bailiwick_resources::{ChecksOn, PodGrants, RunCost};
use bailiwick_store::Store;
use serde_json::json;

use crate::test_database::{TestDatabase, block_on};

pub(crate) const HOUR: u64 = 3_600_000;

pub(crate) fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) async fn add_token(store: &Store, digest: &str, pool: &str, valid_millis: u64) {
    let token = NewWorkerToken {
        digest: digest.to_owned(),
        pool: pool.to_owned(),
        created_by: "ada".to_owned(),
        valid_millis,
        agent: None,
    };
    store.add_worker_token(&token).await.unwrap();
}

pub(crate) fn new_worker(name: &str, pool: &str, labels: &[(&str, &str)]) -> NewWorker {
    NewWorker {
        name: name.to_owned(),
        pool: pool.to_owned(),
        labels: pairs(labels),
        capabilities: WorkerCapabilities { cores: 4, ..WorkerCapabilities::default() },
        version: "1.0.0".to_owned(),
        credential: format!("credential of {name}"),
    }
}

/// A worker of the pool `inside` that has joined.
pub(crate) async fn joined(store: &Store, name: &str, labels: &[(&str, &str)]) -> WorkerRecord {
    let token = format!("token for {name}");
    add_token(store, &token, "inside", HOUR).await;
    let worker = new_worker(name, "inside", labels);
    assert!(store.join_worker(&token, &worker, HOUR).await.unwrap());
    let found = store.worker_with_credential(&worker.credential, HOUR).await.unwrap();
    found.unwrap()
}

pub(crate) async fn queue(store: &Store, agent: &str, labels: &[(&str, &str)]) {
    let attempt = QueuedAttempt {
        agent: agent.to_owned(),
        attempt: format!("attempt of {agent}"),
        pool: "inside".to_owned(),
        labels: pairs(labels),
        launch: format!("the secret of {agent}").into_bytes(),
        checks_on: ChecksOn::Workers,
        pod_grants: PodGrants::default(),
    };
    store.queue_attempt(&attempt).await.unwrap();
}

pub(crate) async fn state(store: &Store, agent: &str) -> QueuedState {
    store.queued_attempt(agent).await.unwrap().unwrap().state
}

pub(crate) fn event(number: u64) -> EngineEvent {
    let body = json!({ "number": number, "text": format!("event {number}\u{0}") });
    EngineEvent { number, at: number, kind: "text".to_owned(), body }
}

pub(crate) fn report(events: impl IntoIterator<Item = u64>, tokens: u64) -> ProgressReport {
    ProgressReport {
        cost: RunCost { tokens, ..RunCost::default() },
        attempts: 1,
        events: events.into_iter().map(event).collect(),
        ..ProgressReport::default()
    }
}

pub(crate) fn finish() -> FinishReport {
    FinishReport {
        ending: ExitReason::Completed,
        detail: "done".to_owned(),
        summary: AttemptSummary::default(),
        work: None,
        evidence: None,
        not_begun: false,
    }
}

pub(crate) async fn numbers(store: &Store, agent: &str) -> Vec<u64> {
    let events = store.worker_events(agent, 0, 1_000).await.unwrap();
    events.into_iter().map(|event| event.number).collect()
}

/// The launch data of the only attempt, as stored.
pub(crate) async fn launch_bytes(database: &TestDatabase) -> Vec<u8> {
    let mut connection = database.connect().await;
    let row = sqlx::query("SELECT launch FROM worker_attempts");
    let row = row.fetch_one(&mut connection).await.unwrap();
    sqlx::Row::get(&row, 0)
}

/// A lease with no duration expires in the next millisecond.
pub(crate) async fn claim_expired(store: &Store, worker: &WorkerRecord) -> Option<Lease> {
    let claimed = store.claim_attempt(worker, 0, None).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    claimed.map(|claimed| claimed.lease)
}

pub(crate) async fn queue_check(store: &Store, name: &str, agent: &str, not_by: &[&str]) {
    let check = QueuedCheck {
        name: name.to_owned(),
        agent: agent.to_owned(),
        key: "the key".to_owned(),
        pool: "inside".to_owned(),
        labels: BTreeMap::new(),
        not_by: not_by.iter().map(|name| (*name).to_owned()).collect(),
        launch: b"a job".to_vec(),
    };
    assert!(store.queue_check(&check).await.unwrap(), "{name}");
}

/// An attempt that its worker has ended.
pub(crate) async fn queue_finished(store: &Store, worker: &WorkerRecord, agent: &str) {
    queue(store, agent, &[]).await;
    let lease = store.claim_attempt(worker, HOUR, None).await.unwrap().unwrap().lease;
    store.finish_attempt(&worker.name, &lease, &finish()).await.unwrap().unwrap();
}

/// An attempt that the worker `one` has just claimed.
pub(crate) async fn claimed(store: &Store, agent: &str) -> Lease {
    let one = joined(store, "one", &[]).await;
    queue(store, agent, &[]).await;
    store.claim_attempt(&one, HOUR, None).await.unwrap().unwrap().lease
}

/// Runs a test on its own store.
pub(crate) fn with_store(test: impl AsyncFnOnce(Store)) {
    let database = TestDatabase::new();
    block_on(async { test(database.open().await).await });
}
