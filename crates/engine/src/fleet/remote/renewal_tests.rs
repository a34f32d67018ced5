//! Renewal of a worker's credential, and what its claims are limited to.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiwick_fleet::workers::{
    AssignedWork, AttemptSummary, FinishReport, NewWorker, NewWorkerToken, PollAnswer, PollRequest,
    QueuedAttempt, RenewRequest, WorkerApi as _, WorkerCapabilities, WorkerError,
};
use bailiwick_model::Sha256Hex;
use bailiwick_model::event::ExitReason;
use bailiwick_resources::{ChecksOn, PodGrants};
use bailiwick_store::{Location, Store};
use bailiwick_testkit::Scratch;

use super::WorkerService;

const HOUR: u64 = 3_600_000;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A server with a worker whose credential is `first`.
async fn with_worker(scratch: &Scratch) -> (Arc<Store>, WorkerService) {
    let path = scratch.state().join("bailiwick.db");
    let store = Arc::new(Store::open(Location::file(path)).await.unwrap());
    let token = NewWorkerToken {
        digest: "token".to_owned(),
        pool: "inside".to_owned(),
        created_by: "ada".to_owned(),
        valid_millis: HOUR,
        agent: None,
    };
    store.add_worker_token(&token).await.unwrap();
    let worker = NewWorker {
        name: "one".to_owned(),
        pool: "inside".to_owned(),
        labels: BTreeMap::new(),
        capabilities: WorkerCapabilities::default(),
        version: VERSION.to_owned(),
        credential: Sha256Hex::of("first").to_string(),
    };
    assert!(store.join_worker("token", &worker, HOUR).await.unwrap());
    let service = WorkerService::new(Arc::clone(&store), HOUR, scratch.state());
    (store, service)
}

fn renewal(version: &str, cores: u64) -> RenewRequest {
    let capabilities = Some(WorkerCapabilities { cores, ..WorkerCapabilities::default() });
    RenewRequest { version: version.to_owned(), capabilities }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_of_another_version_renews_but_gets_no_new_work() {
    let scratch = Scratch::bare();
    let (store, service) = with_worker(&scratch).await;
    let cores = async || store.workers(HOUR).await.unwrap()[0].capabilities.cores;
    let renewed = service.renew("first", renewal(VERSION, 3)).await.unwrap();
    assert_eq!(cores().await, 3, "the control");
    let renewed = service.renew(&renewed.credential, renewal("99.0.0", 4)).await.unwrap();
    assert_eq!(cores().await, 3, "capabilities of another version are not stored");
    let poll = |version: &str| PollRequest {
        version: version.to_owned(),
        has_room: true,
        wait_millis: 0,
        follows: Some(Vec::new()),
    };
    let refused = service.poll(&renewed.credential, poll("99.0.0")).await.unwrap_err();
    assert!(matches!(refused, WorkerError::VersionSkew(_)), "{refused}");
    assert!(service.poll(&renewed.credential, poll(VERSION)).await.is_ok(), "the control");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewal_keeps_only_the_used_and_the_new_credential() {
    let scratch = Scratch::bare();
    let (store, service) = with_worker(&scratch).await;
    let is_known = async |credential: &str| {
        let digest = Sha256Hex::of(credential).to_string();
        store.worker_with_credential(&digest, HOUR).await.unwrap().is_some()
    };
    // The first response is lost.
    let lost = service.renew("first", renewal(VERSION, 1)).await.unwrap().credential;
    let second = service.renew("first", renewal(VERSION, 1)).await.unwrap().credential;
    assert!(is_known("first").await && is_known(&second).await);
    assert!(!is_known(&lost).await, "the lost credential was never used");
    let third = service.renew(&second, renewal(VERSION, 1)).await.unwrap().credential;
    assert!(!is_known("first").await && is_known(&second).await && is_known(&third).await);
}

/// An attempt as a server of version 0.1 assigns it.
const POLLED: &str =
    include_str!("../../../../fleet/tests/data/worker-protocol/0.1/poll-answer.json");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_gets_no_more_attempts_than_it_has_slots() {
    let scratch = Scratch::bare();
    let (store, service) = with_worker(&scratch).await;
    let polled: PollAnswer = serde_json::from_str(POLLED).unwrap();
    let AssignedWork::Launch(launch) = polled.assignment.unwrap().work else {
        panic!("expected an attempt")
    };
    for agent in ["first", "second"] {
        let attempt = QueuedAttempt {
            agent: agent.to_owned(),
            attempt: agent.to_owned(),
            pool: "inside".to_owned(),
            labels: BTreeMap::new(),
            launch: serde_json::to_vec(&launch).unwrap(),
            checks_on: ChecksOn::Server,
            pod_grants: PodGrants::default(),
        };
        store.queue_attempt(&attempt).await.unwrap();
    }
    let poll = async || {
        let request = PollRequest {
            version: VERSION.to_owned(),
            has_room: true,
            wait_millis: 0,
            follows: Some(Vec::new()),
        };
        service.poll("first", request).await.unwrap().assignment.map(|assigned| assigned.lease)
    };
    let lease = poll().await.unwrap();
    assert!(poll().await.is_none(), "it has one slot");
    let finish = FinishReport {
        ending: ExitReason::Failed,
        detail: String::new(),
        summary: AttemptSummary::default(),
        work: None,
        evidence: None,
        not_begun: false,
    };
    service.finish("first", &lease, finish).await.unwrap();
    let next = poll().await.unwrap();
    assert_ne!(next.agent, lease.agent);
}
