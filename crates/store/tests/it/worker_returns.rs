//! Attempts that workers return, and reports that they may not send.

use bailiwick_fleet::workers::{
    CheckEvidence, FinishReport, MAX_ATTEMPT_EVENT_BYTES, QueuedState, ReportError, WorkClaim,
};
use bailiwick_store::Store;
use serde_json::json;

use crate::test_database::{TestDatabase, block_on};
use crate::worker_queue::{
    HOUR, claim_expired, claimed, event, finish, joined, launch_bytes, numbers, queue, queue_check,
    report, state, with_store,
};

#[test]
fn attempt_that_its_worker_could_not_start_is_left_to_another_one() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        let lease = claimed(&store, "agent").await;
        let one = store.worker_with_credential("credential of one", HOUR).await.unwrap().unwrap();
        let returned = FinishReport { not_begun: true, detail: "no room".to_owned(), ..finish() };
        // The answer can be lost: the worker repeats its report.
        for _ in 0..2 {
            store.finish_attempt("one", &lease, &returned).await.unwrap().unwrap();
        }
        let attempt = store.queued_attempt("agent").await.unwrap().unwrap();
        assert_eq!((attempt.state, attempt.detail.as_str()), (QueuedState::Queued, "no room"));
        assert!(store.claim_attempt(&one, HOUR, Some(&[])).await.unwrap().is_none());
        let two = joined(&store, "two", &[]).await;
        let second = store.claim_attempt(&two, HOUR, Some(&[])).await.unwrap().unwrap();
        assert_eq!(second.launch, b"the secret of agent");
        assert_eq!(second.lease.fence, 2);
        let late = store.finish_attempt("one", &lease, &returned).await.unwrap();
        assert!(late.is_err(), "the attempt belongs to another worker");
        // There are at most two claims.
        store.finish_attempt("two", &second.lease, &returned).await.unwrap().unwrap();
        let attempt = store.queued_attempt("agent").await.unwrap().unwrap();
        assert_eq!((attempt.state, attempt.finish), (QueuedState::Finished, Some(returned)));
        assert!(launch_bytes(&database).await.is_empty(), "the launch data contains secrets");
    });
}

/// In a pool of one worker, no other worker could claim it.
#[test]
fn worker_claims_again_later_what_it_could_not_start() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        let lease = claimed(&store, "agent").await;
        let one = store.worker_with_credential("credential of one", HOUR).await.unwrap().unwrap();
        let returned = FinishReport { not_begun: true, ..finish() };
        store.finish_attempt("one", &lease, &returned).await.unwrap().unwrap();
        assert!(store.claim_attempt(&one, HOUR, Some(&[])).await.unwrap().is_none());
        let mut connection = database.connect().await;
        let earlier = sqlx::query("UPDATE worker_attempts SET lease_until = lease_until - 300001");
        earlier.execute(&mut connection).await.unwrap();
        let reclaimed = store.claim_attempt(&one, HOUR, Some(&[])).await.unwrap().unwrap();
        assert_eq!(reclaimed.lease.fence, 2, "it must be a new claim");
    });
}

#[test]
fn started_or_cancelled_attempt_is_not_queued_again() {
    with_store(async |store: Store| {
        let returned = FinishReport { not_begun: true, ..finish() };
        let lease = claimed(&store, "begun").await;
        store.report_attempt("one", &lease, report([1], 0), HOUR).await.unwrap().unwrap();
        store.finish_attempt("one", &lease, &returned).await.unwrap().unwrap();
        assert_eq!(state(&store, "begun").await, QueuedState::Finished);
        let one = store.worker_with_credential("credential of one", HOUR).await.unwrap().unwrap();
        queue(&store, "cancelled", &[]).await;
        let lease = store.claim_attempt(&one, HOUR, None).await.unwrap().unwrap().lease;
        store.cancel_attempt("cancelled").await.unwrap();
        store.finish_attempt("one", &lease, &returned).await.unwrap().unwrap();
        assert_eq!(state(&store, "cancelled").await, QueuedState::Finished);
    });
}

/// Otherwise the work of one worker could be taken for that of another one.
#[test]
fn later_claim_begins_without_the_work_of_the_earlier_one() {
    with_store(async |store: Store| {
        let (one, two) = (joined(&store, "one", &[]).await, joined(&store, "two", &[]).await);
        queue(&store, "agent", &[]).await;
        let first = claim_expired(&store, &one).await.unwrap();
        store.store_work("one", &first, b"work".to_vec()).await.unwrap().unwrap();
        assert_eq!(store.work_of_attempt("agent").await.unwrap(), b"work", "the control");
        let second = store.claim_attempt(&two, HOUR, None).await.unwrap().unwrap().lease;
        assert_eq!(second.fence, first.fence + 1);
        assert!(store.work_of_attempt("agent").await.unwrap().is_empty());
    });
}

#[test]
fn check_has_an_outcome_and_an_attempt_has_events_and_work() {
    with_store(async |store: Store| {
        let evidence = CheckEvidence { tree: "tree".to_owned(), outcome: json!("passed") };
        let with_evidence = FinishReport { evidence: Some(evidence), ..finish() };
        let work = WorkClaim { head: "a".to_owned(), commit: "a".to_owned() };
        let with_work = FinishReport { work: Some(work), ..finish() };
        let lease = claimed(&store, "agent").await;
        let refused = store.finish_attempt("one", &lease, &with_evidence).await.unwrap();
        assert_eq!(refused, Err(ReportError::NotOfAnAttempt));
        store.report_attempt("one", &lease, report([1], 0), HOUR).await.unwrap().unwrap();
        store.store_work("one", &lease, b"work".to_vec()).await.unwrap().unwrap();
        store.finish_attempt("one", &lease, &with_work).await.unwrap().unwrap();
        let two = joined(&store, "two", &[]).await;
        queue_check(&store, "agent.check", "agent", &["one"]).await;
        let lease = store.claim_attempt(&two, HOUR, Some(&[])).await.unwrap().unwrap().lease;
        let no = ReportError::NotOfACheck;
        let events = store.report_attempt("two", &lease, report([1], 0), HOUR).await.unwrap();
        assert_eq!(events, Err(no));
        let sent = store.store_work("two", &lease, b"work".to_vec()).await.unwrap();
        assert_eq!(sent, Err(no));
        assert_eq!(store.finish_attempt("two", &lease, &with_work).await.unwrap(), Err(no));
        assert!(numbers(&store, "agent.check").await.is_empty());
        store.report_attempt("two", &lease, report([], 0), HOUR).await.unwrap().unwrap();
        store.finish_attempt("two", &lease, &with_evidence).await.unwrap().unwrap();
    });
}

#[test]
fn reports_with_too_many_events_are_refused_and_large_events_are_cut() {
    with_store(async |store: Store| {
        let lease = claimed(&store, "agent").await;
        let too_many = store.report_attempt("one", &lease, report(1..=1_001, 0), HOUR).await;
        assert_eq!(too_many.unwrap(), Err(ReportError::TooManyEvents));
        let large = |number: u64, length: usize| {
            let mut large = report([number], 0);
            large.events[0].body["text"] = "x".repeat(length).into();
            large
        };
        let too_large = store.report_attempt("one", &lease, large(1, 5_000_000), HOUR).await;
        assert_eq!(too_large.unwrap(), Err(ReportError::TooLarge));
        assert!(numbers(&store, "agent").await.is_empty());
        store.report_attempt("one", &lease, large(1, 1_000_000), HOUR).await.unwrap().unwrap();
        let stored = store.worker_events("agent", 0, 9).await.unwrap();
        assert_eq!(stored[0].body["text"].as_str().unwrap().len(), 64 * 1024);
    });
}

#[test]
fn events_above_the_total_of_an_attempt_are_not_stored() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        let lease = claimed(&store, "agent").await;
        let first = store.report_attempt("one", &lease, report([1], 0), HOUR).await;
        assert_eq!(first.unwrap().unwrap().stored, 1);
        let mut connection = database.connect().await;
        let nearly_full = format!("{{\"eventBytes\":{}}}", MAX_ATTEMPT_EVENT_BYTES - 1);
        let fill = sqlx::query("UPDATE worker_attempts SET report = $1").bind(nearly_full);
        fill.execute(&mut connection).await.unwrap();
        for events in [2..=3, 4..=4] {
            let last = *events.end();
            let stored = store.report_attempt("one", &lease, report(events, 0), HOUR).await;
            assert_eq!(stored.unwrap().unwrap().stored, last, "the worker must go on");
        }
        assert_eq!(numbers(&store, "agent").await, [1, 2]);
        let stored = store.worker_events("agent", 0, 9).await.unwrap();
        assert_eq!(stored[0].kind, "text", "the control");
        assert_eq!(stored[1].kind, "warning");
        let text = stored[1].body["text"].as_str().unwrap();
        assert!(text.contains("are not stored"), "{text}");
    });
}

#[test]
fn few_outcomes_are_read_own_first_and_none_of_removed_workers() {
    with_store(async |store: Store| {
        let lease = claimed(&store, "agent").await;
        store.finish_attempt("one", &lease, &finish()).await.unwrap().unwrap();
        for worker in ["removed", "two"] {
            joined(&store, worker, &[]).await;
        }
        let find = async |name: &str| {
            let digest = format!("credential of {name}");
            store.worker_with_credential(&digest, HOUR).await.unwrap().unwrap()
        };
        for number in 0..14 {
            let (name, worker) = (format!("check-{number:02}"), ["two", "removed"][number % 2]);
            queue_check(&store, &name, "agent", &["one"]).await;
            let worker = find(worker).await;
            let claim = store.claim_attempt(&worker, HOUR, Some(&[])).await.unwrap().unwrap();
            assert_eq!(claim.lease.agent, name);
            store.finish_attempt(&worker.name, &claim.lease, &finish()).await.unwrap().unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        let ended = async |own: &str| -> Vec<String> {
            let ended = store.ended_checks("inside", "the key", own).await.unwrap();
            ended.into_iter().map(|ended| ended.agent).collect()
        };
        let all = ended("check-00").await;
        assert_eq!((all.len(), all[0].as_str(), all[1].as_str()), (10, "check-00", "check-13"));
        assert!(store.delete_worker("removed").await.unwrap());
        let evens =
            ["check-04", "check-12", "check-10", "check-08", "check-06", "check-02", "check-00"];
        assert_eq!(ended("check-04").await, evens);
    });
}

#[test]
fn events_that_an_older_version_stored_of_a_check_are_deleted() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        let lease = claimed(&store, "agent").await;
        store.finish_attempt("one", &lease, &finish()).await.unwrap().unwrap();
        queue_check(&store, "agent.check", "agent", &["one"]).await;
        let mut connection = database.connect().await;
        let add = "INSERT INTO worker_events (agent, number, event) VALUES ('agent.check', 1, $1)";
        let text = serde_json::to_string(&event(1)).unwrap().replace("\\u0000", "");
        sqlx::query(add).bind(text).execute(&mut connection).await.unwrap();
        assert_eq!(numbers(&store, "agent.check").await, [1], "the control");
        store.settle_attempt("agent", QueuedState::Checked, "").await.unwrap();
        store.forget_attempt("agent").await.unwrap();
        assert!(numbers(&store, "agent.check").await.is_empty());
    });
}
