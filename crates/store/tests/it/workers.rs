//! The queue of attempts for workers: tokens for one use, claims with a fence, reports that are stored once.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiwick_fleet::workers::{
    ATTEMPT_LABEL, CheckEvidence, FinishReport, JobRecord, NewWorkerToken, ProgressReport,
    QueuedAttempt, QueuedCheck, QueuedState, ReportError, WorkerAttempt, WorkerRecord, WorkerState,
};
use bailiwick_resources::{ChecksOn, PodGrants, PodIdentity, PodProblem, PodToken};
use bailiwick_store::{CancelOutcome, QueueSignal, Store};
use serde_json::json;

use crate::test_database::{TestDatabase, block_on};
use crate::worker_queue::{
    HOUR, add_token, claim_expired, claimed, finish, joined, launch_bytes, new_worker, numbers,
    pairs, queue, queue_check, queue_finished, report, state, with_store,
};

#[test]
fn token_lets_one_worker_join_its_pool_until_it_expires() {
    with_store(async |store: Store| {
        add_token(&store, "token", "inside", HOUR).await;
        add_token(&store, "late", "inside", 0).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let join = async |token: &str, name: &str, pool: &str| {
            let worker = new_worker(name, pool, &[]);
            store.join_worker(token, &worker, HOUR).await.unwrap()
        };
        assert!(!join("unknown", "a", "inside").await);
        assert!(!join("token", "b", "outside").await);
        assert!(!join("late", "c", "inside").await);
        assert!(join("token", "d", "inside").await);
        assert!(!join("token", "e", "inside").await, "the token has been used");
        let names: Vec<String> =
            store.workers(HOUR).await.unwrap().into_iter().map(|worker| worker.name).collect();
        assert_eq!(names, ["d"]);
    });
}

#[test]
fn silence_of_a_worker_is_measured_from_its_last_request() {
    with_store(async |store: Store| {
        joined(&store, "one", &[]).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let all = store.registered_workers(HOUR).await.unwrap();
        let silent: Vec<u64> = all.iter().map(|registered| registered.silent_millis).collect();
        assert!(matches!(silent[..], [40..60_000]), "{silent:?}");
        assert!(all[0].worker.is_present);
        assert!(!store.registered_workers(1).await.unwrap()[0].worker.is_present);
    });
}

#[test]
fn worker_with_a_token_for_one_attempt_claims_no_other() {
    with_store(async |store: Store| {
        queue(&store, "older", &[(ATTEMPT_LABEL, "older")]).await;
        queue(&store, "own", &[(ATTEMPT_LABEL, "own")]).await;
        queue(&store, "of the pool", &[]).await;
        let token = NewWorkerToken {
            digest: "token for own".to_owned(),
            pool: "inside".to_owned(),
            created_by: "operator".to_owned(),
            valid_millis: HOUR,
            agent: Some("own".to_owned()),
        };
        store.add_worker_token(&token).await.unwrap();
        // The labels that a worker sends do not count.
        let worker = new_worker("pod", "inside", &[(ATTEMPT_LABEL, "older")]);
        assert!(store.join_worker("token for own", &worker, HOUR).await.unwrap());
        let pod = store.worker_with_credential(&worker.credential, HOUR).await.unwrap().unwrap();
        assert_eq!(pod.labels, pairs(&[(ATTEMPT_LABEL, "own")]));
        let claimed = store.claim_attempt(&pod, HOUR, None).await.unwrap().unwrap();
        assert_eq!(claimed.lease.agent, "own");
        assert!(store.claim_attempt(&pod, HOUR, None).await.unwrap().is_none());
        let other = joined(&store, "other", &[]).await;
        assert_eq!(
            store.claim_attempt(&other, HOUR, None).await.unwrap().unwrap().lease.agent,
            "of the pool"
        );
        assert!(store.claim_attempt(&other, HOUR, None).await.unwrap().is_none());
        let jobs = store.job_attempts().await.unwrap();
        assert_eq!(jobs.iter().map(|job| job.agent.as_str()).collect::<Vec<_>>(), ["older", "own"]);
    });
}

#[test]
fn grants_of_a_pod_are_stored_with_its_attempt() {
    with_store(async |store: Store| {
        let token = PodToken { audience: "vault".to_owned(), seconds: 7_200 };
        let identity = PodIdentity {
            account: "fixer".to_owned(),
            namespace: None,
            image_pull_secrets: Vec::new(),
            token: Some(token),
        };
        let pod_grants = PodGrants { identity: Some(identity) };
        for grants in [PodGrants::default(), pod_grants] {
            let agent = if grants == PodGrants::default() { "plain" } else { "granted" };
            let attempt = QueuedAttempt {
                agent: agent.to_owned(),
                attempt: format!("attempt of {agent}"),
                pool: "inside".to_owned(),
                labels: pairs(&[(ATTEMPT_LABEL, agent)]),
                launch: b"{}".to_vec(),
                checks_on: ChecksOn::Server,
                pod_grants: grants.clone(),
            };
            store.queue_attempt(&attempt).await.unwrap();
            let jobs = store.job_attempts().await.unwrap();
            let job = jobs.iter().find(|job| job.agent == agent).unwrap();
            assert_eq!(job.pod_grants, grants);
        }
    });
}

#[test]
fn job_record_is_updated_only_from_the_version_that_was_read() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        queue(&store, "own", &[(ATTEMPT_LABEL, "own")]).await;
        let job = async || store.queued_attempt("own").await.unwrap().unwrap().job;
        assert_eq!(job().await, JobRecord::default());
        let stale_record = JobRecord {
            ended: 1,
            problem: Some(PodProblem::NodeLost),
            detail: "its node is gone".to_owned(),
        };
        assert!(store.record_job("own", 0, &stale_record).await.unwrap());
        assert!(!store.record_job("own", 0, &JobRecord::default()).await.unwrap(), "too late");
        assert_eq!(job().await, stale_record);
        let weak =
            JobRecord { ended: 2, problem: Some(PodProblem::SandboxInsufficient), ..stale_record };
        assert!(!store.give_up_job("own", 0, &weak).await.unwrap(), "too late");
        assert_eq!(state(&store, "own").await, QueuedState::Queued);
        assert!(store.give_up_job("own", 1, &weak).await.unwrap());
        assert_eq!((state(&store, "own").await, job().await), (QueuedState::Lost, weak.clone()));
        assert!(launch_bytes(&database).await.is_empty(), "the launch data is secret");
        assert!(!store.record_job("own", 2, &weak).await.unwrap(), "the attempt has ended");
        assert!(store.job_attempts().await.unwrap().is_empty());
    });
}

#[test]
fn only_attempts_that_the_database_knows_can_have_ended() {
    with_store(async |store: Store| {
        let has_ended = async |agent: &str| store.is_known_to_have_ended(agent).await.unwrap();
        assert!(!has_ended("own").await, "it is not known");
        queue(&store, "own", &[(ATTEMPT_LABEL, "own")]).await;
        assert!(!has_ended("own").await, "it is queued");
        let lost = JobRecord { ended: 1, problem: None, detail: String::new() };
        assert!(store.give_up_job("own", 0, &lost).await.unwrap());
        assert!(has_ended("own").await);
        store.forget_attempt("own").await.unwrap();
        assert!(!has_ended("own").await, "the ledger has no run of it");
    });
}

#[test]
fn attempt_with_a_running_worker_is_not_given_up() {
    with_store(async |store: Store| {
        queue(&store, "own", &[(ATTEMPT_LABEL, "own")]).await;
        let token = NewWorkerToken {
            digest: "token for own".to_owned(),
            pool: "inside".to_owned(),
            created_by: "operator".to_owned(),
            valid_millis: HOUR,
            agent: Some("own".to_owned()),
        };
        store.add_worker_token(&token).await.unwrap();
        let worker = new_worker("pod", "inside", &[]);
        assert!(store.join_worker("token for own", &worker, HOUR).await.unwrap());
        let worker = store.worker_with_credential(&worker.credential, HOUR).await.unwrap();
        let worker = worker.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        let queued = store.queued_attempt("own").await.unwrap().unwrap();
        assert!((5..HOUR).contains(&queued.queued_millis), "{}", queued.queued_millis);
        assert!(store.claim_attempt(&worker, 1_500, None).await.unwrap().is_some());
        let problem = JobRecord {
            ended: 1,
            problem: Some(PodProblem::WorkerFailed),
            detail: "there was nothing to do".to_owned(),
        };
        assert!(!store.give_up_job("own", 0, &problem).await.unwrap(), "its lease is valid");
        assert_eq!(state(&store, "own").await, QueuedState::Claimed);
        tokio::time::sleep(Duration::from_millis(1_600)).await;
        assert!(store.give_up_job("own", 0, &problem).await.unwrap());
        assert_eq!(state(&store, "own").await, QueuedState::Lost);
    });
}

#[test]
fn credential_is_valid_until_it_expires_or_its_worker_is_removed() {
    with_store(async |store: Store| {
        joined(&store, "one", &[("zone", "a")]).await;
        let worker_of =
            async |digest: &str| store.worker_with_credential(digest, HOUR).await.unwrap();
        assert_eq!(worker_of("credential of one").await.unwrap().labels, pairs(&[("zone", "a")]));
        assert!(worker_of("credential of two").await.is_none());
        store.renew_worker("one", "credential of one", "short", 0).await.unwrap();
        store.renew_worker("one", "credential of one", "fresh", HOUR).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(worker_of("short").await.is_none());
        assert!(worker_of("fresh").await.is_some());
        assert!(worker_of("credential of one").await.is_some(), "a repeated request must succeed");
        assert!(store.delete_worker("one").await.unwrap());
        assert!(worker_of("fresh").await.is_none());
        assert!(!store.delete_worker("one").await.unwrap());
    });
}

/// A worker cannot renew its credential while no server is running.
#[test]
fn credential_of_a_worker_with_an_attempt_survives_an_outage() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        let busy = joined(&store, "busy", &[]).await;
        joined(&store, "idle", &[]).await;
        queue(&store, "agent", &[]).await;
        store.claim_attempt(&busy, HOUR, None).await.unwrap().unwrap();
        // Its first credential had expired before it was last heard of.
        store.renew_worker("busy", "credential of busy", "earlier", HOUR).await.unwrap();
        let mut connection = database.connect().await;
        for outage in [
            "UPDATE workers SET seen_at = seen_at - 7200000",
            "UPDATE worker_credentials SET expires_at = expires_at - 7200000",
            "UPDATE worker_credentials SET expires_at = expires_at - 7200000 WHERE digest = 'earlier'",
        ] {
            sqlx::query(outage).execute(&mut connection).await.unwrap();
        }
        let is_valid = async |digest: &str| {
            store.worker_with_credential(digest, HOUR).await.unwrap().is_some()
        };
        assert!(!is_valid("credential of busy").await, "the control");
        store.extend_worker_leases(HOUR).await.unwrap();
        assert!(is_valid("credential of busy").await);
        assert!(!is_valid("earlier").await && !is_valid("credential of idle").await);
    });
}

#[test]
fn each_attempt_is_claimed_once_in_order_by_a_suitable_worker() {
    with_store(async |store: Store| {
        let plain = joined(&store, "plain", &[]).await;
        let gpu = joined(&store, "gpu", &[("gpu", "yes"), ("zone", "a")]).await;
        for (agent, labels) in [("first", &[][..]), ("second", &[("gpu", "yes")]), ("third", &[])] {
            queue(&store, agent, labels).await;
            queue(&store, agent, &[("other", "labels")]).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let claim = async |worker: &WorkerRecord| {
            let claimed = store.claim_attempt(worker, HOUR, None).await.unwrap();
            claimed.map(|claimed| {
                let secret = String::from_utf8(claimed.launch).unwrap();
                assert_eq!(secret, format!("the secret of {}", claimed.lease.agent));
                claimed.lease.agent
            })
        };
        assert_eq!(claim(&plain).await.as_deref(), Some("first"));
        assert_eq!(claim(&plain).await.as_deref(), Some("third"));
        assert_eq!(claim(&plain).await, None);
        assert_eq!(claim(&gpu).await.as_deref(), Some("second"));
        assert_eq!(claim(&gpu).await, None);
        let elsewhere = WorkerRecord { pool: "outside".to_owned(), ..gpu };
        queue(&store, "fourth", &[]).await;
        assert_eq!(claim(&elsewhere).await, None);
        let running: Vec<u64> =
            store.workers(HOUR).await.unwrap().into_iter().map(|worker| worker.running).collect();
        assert_eq!(running, [1, 2]);
    });
}

#[test]
fn attempts_with_different_labels_are_claimed_in_the_order_of_their_arrival() {
    with_store(async |store: Store| {
        let gpu = [("gpu", "yes")];
        for number in 0..20 {
            queue(&store, &format!("other-{number}"), &[("arch", &number.to_string())]).await;
        }
        for (agent, labels) in [("a", &gpu[..]), ("b", &[]), ("c", &gpu), ("d", &[]), ("e", &gpu)] {
            queue(&store, agent, labels).await;
            // The time of their arrival is measured in milliseconds.
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let with_gpu = joined(&store, "with", &gpu).await;
        let without_gpu = joined(&store, "without", &[]).await;
        let mut order = Vec::new();
        for worker in [&with_gpu, &with_gpu, &without_gpu, &with_gpu, &with_gpu, &without_gpu] {
            let claimed = store.claim_attempt(worker, HOUR, Some(&[])).await.unwrap();
            order.push(claimed.map(|claimed| claimed.lease.agent));
        }
        let expected = ["a", "b", "d", "c", "e"].map(|agent| Some(agent.to_owned()));
        assert_eq!(order, expected.into_iter().chain([None]).collect::<Vec<_>>());
    });
}

#[test]
fn waiting_tasks_are_woken_by_the_queue() {
    with_store(async |store: Store| {
        let moment = Duration::from_millis(20);
        let one = joined(&store, "one", &[]).await;
        let mut queued = store.queued_signal();
        let (mut reported, mut finished) = (store.reported_signal(), store.finished_signal());
        let is_woken = async |signal: &mut QueueSignal| {
            tokio::time::timeout(moment, signal.wait()).await.is_ok()
        };
        assert!(!is_woken(&mut queued).await, "nothing was queued");
        queue(&store, "a", &[]).await;
        assert!(is_woken(&mut queued).await);
        assert!(!is_woken(&mut queued).await, "once for each time");
        let lease = store.claim_attempt(&one, HOUR, None).await.unwrap().unwrap().lease;
        store.report_attempt("one", &lease, report([], 1), HOUR).await.unwrap().unwrap();
        assert!(!is_woken(&mut reported).await, "there is no event");
        store.report_attempt("one", &lease, report([1], 1), HOUR).await.unwrap().unwrap();
        assert!(is_woken(&mut reported).await);
        assert!(!is_woken(&mut finished).await);
        store.finish_attempt("one", &lease, &finish()).await.unwrap().unwrap();
        assert!(is_woken(&mut finished).await && !is_woken(&mut queued).await);
    });
}

#[test]
fn server_without_the_key_uses_up_no_claim() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        let worker = joined(&store, "one", &[]).await;
        queue(&store, "a", &[]).await;
        let (key, moved) = (database.key_file(), database.path("moved.key"));
        std::fs::rename(&key, &moved).unwrap();
        for _ in 0..3 {
            assert!(store.claim_attempt(&worker, HOUR, None).await.is_err());
        }
        std::fs::rename(&moved, &key).unwrap();
        let claimed = store.claim_attempt(&worker, HOUR, None).await.unwrap().unwrap();
        assert_eq!(claimed.lease.fence, 1);
    });
}

#[test]
fn concurrent_workers_claim_each_attempt_exactly_once() {
    let database = TestDatabase::new();
    block_on(async {
        let store = std::sync::Arc::new(database.open().await);
        let worker = joined(&store, "one", &[]).await;
        for number in 0..20 {
            queue(&store, &format!("agent-{number:02}"), &[]).await;
        }
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let (store, worker) = (std::sync::Arc::clone(&store), worker.clone());
            tasks.spawn(async move {
                let mut mine = Vec::new();
                // A row that another one has locked is skipped: the queue is empty only if all are claimed.
                for _ in 0..30 {
                    let claimed = store.claim_attempt(&worker, HOUR, None).await.unwrap();
                    mine.extend(claimed.map(|claimed| claimed.lease.agent));
                }
                mine
            });
        }
        let mut claimed: Vec<String> = tasks.join_all().await.into_iter().flatten().collect();
        claimed.sort();
        let expected: Vec<String> = (0..20).map(|number| format!("agent-{number:02}")).collect();
        assert_eq!(claimed, expected);
    });
}

#[test]
fn launch_data_is_not_readable_in_the_database() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        queue(&store, "agent", &[]).await;
        let stored = launch_bytes(&database).await;
        assert!(stored.len() > 10, "the control: the data is stored");
        assert!(!String::from_utf8_lossy(&stored).contains("secret"));
    });
}

#[test]
fn lost_lease_writes_nothing() {
    with_store(async |store: Store| {
        let (one, two) = (joined(&store, "one", &[]).await, joined(&store, "two", &[]).await);
        queue(&store, "agent", &[]).await;
        let first = claim_expired(&store, &one).await.unwrap();
        let stored = store.report_attempt("one", &first, report(1..=2, 10), 0).await.unwrap();
        assert_eq!(
            stored.unwrap().stored,
            2,
            "a late report is accepted until another worker claims the attempt"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
        let second = store.claim_attempt(&two, HOUR, None).await.unwrap().unwrap().lease;
        assert_eq!((first.fence, second.fence), (1, 2));
        let attempt = async || {
            let attempt = store.queued_attempt("agent").await.unwrap().unwrap();
            WorkerAttempt { queued_millis: 0, ..attempt }
        };
        let before = attempt().await;
        assert!(store.report_attempt("one", &first, report(3..=4, 99), 0).await.unwrap().is_err());
        assert!(store.store_work("one", &first, b"work".to_vec()).await.unwrap().is_err());
        assert!(store.finish_attempt("one", &first, &finish()).await.unwrap().is_err());
        assert!(store.launch_of_lease("one", &first).await.unwrap().is_err());
        // Nor is the fence of another worker accepted.
        assert!(store.report_attempt("one", &second, report([], 9), 0).await.unwrap().is_err());
        assert_eq!(attempt().await, before);
        assert_eq!(numbers(&store, "agent").await, [1, 2]);
        // The second worker starts with its own numbers; the usage of the first one is kept.
        let stored = store.report_attempt("two", &second, report(1..=3, 5), HOUR).await.unwrap();
        assert_eq!(stored.unwrap().stored, 3);
        assert_eq!(numbers(&store, "agent").await, [1, 2, 3, 4, 5]);
        let last = store.worker_events("agent", 4, 9).await.unwrap();
        assert_eq!(last[0].body["number"], 5);
        let attempt = store.queued_attempt("agent").await.unwrap().unwrap();
        assert_eq!(attempt.cost().tokens, 15);
        store.store_work("two", &second, b"work".to_vec()).await.unwrap().unwrap();
        store.finish_attempt("two", &second, &finish()).await.unwrap().unwrap();
        store.finish_attempt("two", &second, &finish()).await.unwrap().unwrap();
        assert_eq!(state(&store, "agent").await, QueuedState::Finished);
        assert_eq!(store.work_of_attempt("agent").await.unwrap(), b"work");
        store.settle_attempt("agent", QueuedState::Checked, "").await.unwrap();
        assert_eq!(state(&store, "agent").await, QueuedState::Checked);
        assert!(store.work_of_attempt("agent").await.unwrap().is_empty());
    });
}

#[test]
fn repeated_events_are_stored_once() {
    with_store(async |store: Store| {
        let lease = claimed(&store, "agent").await;
        for events in [vec![1, 2, 5], vec![1, 2, 5], vec![5, 6], vec![2], vec![6, 7, 7]] {
            store.report_attempt("one", &lease, report(events, 0), HOUR).await.unwrap().unwrap();
        }
        assert_eq!(numbers(&store, "agent").await, [1, 2, 5, 6, 7]);
        let text = &store.worker_events("agent", 5, 1).await.unwrap()[0].body["text"];
        assert_eq!(text, "event 6\u{0}");
        store.forget_attempt("agent").await.unwrap();
        assert_eq!(numbers(&store, "agent").await.len(), 5, "the attempt still runs");
        store.finish_attempt("one", &lease, &finish()).await.unwrap().unwrap();
        store.settle_attempt("agent", QueuedState::Refused, "why").await.unwrap();
        assert_eq!(store.queued_attempt("agent").await.unwrap().unwrap().detail, "why");
        store.forget_attempt("agent").await.unwrap();
        assert!(numbers(&store, "agent").await.is_empty());
        assert_eq!(store.queued_attempt("agent").await.unwrap(), None);
    });
}

#[test]
fn attempt_is_claimed_a_second_time_once() {
    with_store(async |store: Store| {
        let (one, two) = (joined(&store, "one", &[]).await, joined(&store, "two", &[]).await);
        queue(&store, "agent", &[]).await;
        let claimed = store.claim_attempt(&one, HOUR, None).await.unwrap();
        assert!(
            claimed.is_some() && store.claim_attempt(&one, HOUR, None).await.unwrap().is_none()
        );
        let running = store.queued_attempt("agent").await.unwrap().unwrap();
        assert!(!store.give_up_attempt(&running, QueuedState::Lost).await.unwrap());
        queue(&store, "again", &[]).await;
        assert_eq!(claim_expired(&store, &one).await.unwrap().fence, 1);
        assert_eq!(claim_expired(&store, &two).await.unwrap().fence, 2);
        assert!(claim_expired(&store, &one).await.is_none());
        assert!(claim_expired(&store, &two).await.is_none());
        let abandoned = store.queued_attempt("again").await.unwrap().unwrap();
        assert!(abandoned.is_expired);
        assert!(store.give_up_attempt(&abandoned, QueuedState::Lost).await.unwrap());
        assert_eq!(state(&store, "again").await, QueuedState::Lost);
        // While no server was running, no worker could report.
        queue(&store, "outage", &[]).await;
        assert_eq!(claim_expired(&store, &one).await.unwrap().agent, "outage");
        store.extend_worker_leases(HOUR).await.unwrap();
        assert!(claim_expired(&store, &two).await.is_none());
    });
}

#[test]
fn worker_does_not_claim_again_an_attempt_that_it_may_still_run() {
    with_store(async |store: Store| {
        let (one, two) = (joined(&store, "one", &[]).await, joined(&store, "two", &[]).await);
        queue(&store, "agent", &[]).await;
        let lease = claim_expired(&store, &one).await.unwrap();
        // It has never reported: the answer was lost.
        assert_eq!(claim_expired(&store, &one).await, Some(lease.clone()));
        store.report_attempt("one", &lease, report([1], 0), 0).await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(claim_expired(&store, &one).await.is_none());
        assert_eq!(claim_expired(&store, &two).await.unwrap().fence, 2);
    });
}

#[test]
fn upload_of_work_keeps_the_lease() {
    with_store(async |store: Store| {
        let (one, two) = (joined(&store, "one", &[]).await, joined(&store, "two", &[]).await);
        queue(&store, "agent", &[]).await;
        let lease = claim_expired(&store, &one).await.unwrap();
        store.keep_lease("one", &lease, HOUR).await.unwrap().unwrap();
        assert!(store.keep_lease("two", &lease, HOUR).await.unwrap().is_err());
        assert!(claim_expired(&store, &two).await.is_none());
    });
}

#[test]
fn report_that_is_too_large_is_refused_or_truncated() {
    with_store(async |store: Store| {
        let lease = claimed(&store, "agent").await;
        let highest = i64::MAX.unsigned_abs();
        for events in [vec![highest], vec![1, highest], vec![u64::MAX]] {
            let stored = store.report_attempt("one", &lease, report(events, 0), HOUR).await;
            assert!(matches!(stored.unwrap(), Err(ReportError::EventNumber { .. })));
        }
        assert!(numbers(&store, "agent").await.is_empty());
        let long = "ä".repeat(20_000);
        let questions = (0..100).map(|id| (id.to_string(), long.clone())).collect();
        let large = ProgressReport {
            detail: format!("a{long}"),
            session: Some(long.clone()),
            questions,
            ..report([1, 2], 0)
        };
        store.report_attempt("one", &lease, large, HOUR).await.unwrap().unwrap();
        assert_eq!(numbers(&store, "agent").await, [1, 2]);
        let stored = store.queued_attempt("agent").await.unwrap().unwrap().report;
        assert_eq!(stored.questions.len(), 64);
        assert_eq!(stored.questions[0].1.len(), 16 * 1024);
        assert_eq!(stored.session.unwrap().len(), 16 * 1024);
        assert_eq!(stored.detail.len(), 16 * 1024 - 1, "a character was cut in two");
        let finish = FinishReport { detail: "a".repeat(1_000_000), ..finish() };
        for _ in 0..2 {
            store.finish_attempt("one", &lease, &finish).await.unwrap().unwrap();
        }
        let stored = store.queued_attempt("agent").await.unwrap().unwrap().finish;
        assert_eq!(stored.unwrap().detail.len(), 256 * 1024);
    });
}

#[test]
fn cancelled_attempt_is_stopped_immediately_or_by_its_worker() {
    with_store(async |store: Store| {
        let one = joined(&store, "one", &[]).await;
        assert_eq!(store.cancel_attempt("nobody").await.unwrap(), CancelOutcome::Unknown);
        queue(&store, "waiting", &[]).await;
        assert_eq!(store.cancel_attempt("waiting").await.unwrap(), CancelOutcome::Stopped);
        assert!(store.claim_attempt(&one, HOUR, None).await.unwrap().is_none());
        queue(&store, "running", &[]).await;
        let lease = store.claim_attempt(&one, HOUR, None).await.unwrap().unwrap().lease;
        let cancel = async || {
            let orders = store.report_attempt("one", &lease, report([], 0), HOUR).await.unwrap();
            orders.unwrap().cancel
        };
        assert!(!cancel().await);
        assert_eq!(store.cancel_attempt("running").await.unwrap(), CancelOutcome::Noted);
        assert!(cancel().await);
        store.forget_attempt("running").await.unwrap();
        assert!(
            store.queued_attempt("running").await.unwrap().is_some(),
            "its worker still runs it"
        );
        store.finish_attempt("one", &lease, &finish()).await.unwrap().unwrap();
        store.forget_attempt("running").await.unwrap();
        assert_eq!(store.queued_attempt("running").await.unwrap(), None);
    });
}

#[test]
fn remains_of_a_cancelled_attempt_can_be_deleted() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        let one = joined(&store, "one", &[]).await;
        queue(&store, "lost", &[]).await;
        claim_expired(&store, &one).await.unwrap();
        store.forget_attempt("lost").await.unwrap();
        assert!(
            store.queued_attempt("lost").await.unwrap().is_some(),
            "the attempt is not cancelled"
        );
        store.cancel_attempt("lost").await.unwrap();
        store.forget_attempt("lost").await.unwrap();
        assert_eq!(store.queued_attempt("lost").await.unwrap(), None);
        queue(&store, "waiting", &[]).await;
        assert!(!launch_bytes(&database).await.is_empty(), "the control");
        store.cancel_attempt("waiting").await.unwrap();
        assert!(launch_bytes(&database).await.is_empty(), "the launch data contains secrets");
        store.forget_attempt("waiting").await.unwrap();
        assert_eq!(store.queued_attempt("waiting").await.unwrap(), None);
    });
}

#[test]
fn answer_is_repeated_until_its_question_is_closed() {
    with_store(async |store: Store| {
        let lease = claimed(&store, "agent").await;
        let report_with_questions = |open: &[&str]| ProgressReport {
            questions: open.iter().map(|id| ((*id).to_owned(), "may it?".to_owned())).collect(),
            ..ProgressReport::default()
        };
        let answers_for = async |open: &[&str]| {
            let orders = store
                .report_attempt("one", &lease, report_with_questions(open), HOUR)
                .await
                .unwrap();
            orders.unwrap().answers
        };
        assert!(
            !store.answer_attempt("agent", "1", true).await.unwrap(),
            "the question is unknown"
        );
        assert!(answers_for(&["1", "2"]).await.is_empty());
        assert!(store.answer_attempt("agent", "1", true).await.unwrap());
        assert!(store.answer_attempt("agent", "2", false).await.unwrap());
        let both = BTreeMap::from([("1".to_owned(), true), ("2".to_owned(), false)]);
        assert_eq!(answers_for(&["1", "2"]).await, both);
        assert_eq!(answers_for(&["2"]).await, BTreeMap::from([("2".to_owned(), false)]));
        assert!(answers_for(&[]).await.is_empty());
    });
}

#[test]
fn state_of_a_worker_is_stored() {
    with_store(async |store: Store| {
        joined(&store, "one", &[]).await;
        for state in WorkerState::ALL {
            assert!(store.set_worker_state("one", state).await.unwrap());
            assert_eq!(store.workers(HOUR).await.unwrap()[0].state, state);
        }
        assert!(!store.set_worker_state("two", WorkerState::Active).await.unwrap());
        assert!(store.workers(HOUR).await.unwrap()[0].is_present);
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!store.workers(0).await.unwrap()[0].is_present);
    });
}

#[test]
fn check_is_not_claimed_by_the_attempts_worker_or_by_one_worker_twice() {
    with_store(async |store: Store| {
        let (one, two) = (joined(&store, "one", &[]).await, joined(&store, "one-more", &[]).await);
        queue(&store, "agent", &[]).await;
        let lease = store.claim_attempt(&one, HOUR, None).await.unwrap().unwrap().lease;
        store.finish_attempt("one", &lease, &finish()).await.unwrap().unwrap();
        let attempt = store.queued_attempt("agent").await.unwrap().unwrap();
        assert_eq!(
            (attempt.claimed_by, attempt.checks_on),
            (vec!["one".into()], ChecksOn::Workers)
        );
        queue_check(&store, "agent.check", "agent", &["one"]).await;
        queue_check(&store, "agent.check", "agent", &["one"]).await;
        assert!(store.claim_attempt(&one, HOUR, Some(&[])).await.unwrap().is_none());
        let claimed = store.claim_attempt(&two, 0, Some(&[])).await.unwrap().unwrap();
        assert!(claimed.is_check && claimed.launch == b"a job", "{claimed:?}");
        // It has reported and is silent now: no worker is left to claim it.
        store.report_attempt("one-more", &claimed.lease, report([], 0), 0).await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        for worker in [&one, &two] {
            assert!(store.claim_attempt(worker, HOUR, Some(&[])).await.unwrap().is_none());
        }
        let three = joined(&store, "three", &[]).await;
        let second = store.claim_attempt(&three, HOUR, Some(&[])).await.unwrap().unwrap().lease;
        assert_eq!(second.fence, 2);
        // The evidence of the first one arrives late: it writes nothing.
        let evidence = CheckEvidence { tree: "tree".to_owned(), outcome: json!("passed") };
        let with_evidence = FinishReport { evidence: Some(evidence), ..finish() };
        let late = store.finish_attempt("one-more", &claimed.lease, &with_evidence).await.unwrap();
        assert!(late.is_err(), "its lease is lost");
        assert!(store.ended_checks("inside", "the key", "agent.check").await.unwrap().is_empty());
        store.finish_attempt("three", &second, &with_evidence).await.unwrap().unwrap();
        let ended_checks = store.ended_checks("inside", "the key", "agent.check").await.unwrap();
        assert_eq!(ended_checks.len(), 1);
        assert_eq!(
            (&ended_checks[0].finish, ended_checks[0].worker.as_str()),
            (&Some(with_evidence), "three")
        );
        for (pool, key) in [("outside", "the key"), ("inside", "another key")] {
            assert!(store.ended_checks(pool, key, "agent.check").await.unwrap().is_empty());
        }
        store.settle_attempt("agent", QueuedState::Checked, "").await.unwrap();
        store.forget_attempt("agent").await.unwrap();
        assert_eq!(store.queued_attempt("agent.check").await.unwrap(), None);
    });
}

#[test]
fn cancelled_checks_are_not_claimed() {
    with_store(async |store: Store| {
        let one = joined(&store, "one", &[]).await;
        for agent in ["a", "b"] {
            queue_finished(&store, &one, agent).await;
        }
        for (check, agent) in [("a.check", "a"), ("b.check", "b")] {
            queue_check(&store, check, agent, &[]).await;
        }
        store.cancel_checks("a").await.unwrap();
        assert_eq!(state(&store, "a.check").await, QueuedState::Stopped);
        let claimed = store.claim_attempt(&one, HOUR, Some(&[])).await.unwrap().unwrap();
        assert_eq!(claimed.lease.agent, "b.check", "the control");
        assert!(store.claim_attempt(&one, HOUR, Some(&[])).await.unwrap().is_none());
        store.cancel_checks("b").await.unwrap();
        let orders =
            store.report_attempt("one", &claimed.lease, report([], 0), HOUR).await.unwrap();
        assert!(orders.unwrap().cancel);
    });
}

/// The thread that checks an attempt does not see immediately that it was cancelled.
#[test]
fn check_of_a_cancelled_attempt_is_neither_queued_nor_recorded() {
    with_store(async |store: Store| {
        let one = joined(&store, "one", &[]).await;
        for agent in ["wanted", "cancelled"] {
            queue_finished(&store, &one, agent).await;
        }
        assert_eq!(store.cancel_attempt("cancelled").await.unwrap(), CancelOutcome::Noted);
        for (agent, is_wanted) in [("wanted", true), ("cancelled", false), ("unknown", false)] {
            let check = QueuedCheck {
                name: format!("{agent}.check"),
                agent: agent.to_owned(),
                key: "the key".to_owned(),
                pool: "inside".to_owned(),
                labels: BTreeMap::new(),
                not_by: Vec::new(),
                launch: b"a job".to_vec(),
            };
            assert_eq!(store.queue_check(&check).await.unwrap(), is_wanted, "{agent}");
            let queued = store.queued_attempt(&check.name).await.unwrap();
            assert_eq!(queued.is_some(), is_wanted, "{agent}");
        }
        for (agent, expected) in
            [("wanted", QueuedState::Checked), ("cancelled", QueuedState::Finished)]
        {
            store.settle_attempt(agent, QueuedState::Checked, "").await.unwrap();
            assert_eq!(state(&store, agent).await, expected);
        }
        store.settle_attempt("cancelled", QueuedState::Stopped, "").await.unwrap();
        assert_eq!(state(&store, "cancelled").await, QueuedState::Stopped);
    });
}

/// In a pool of one worker, no other worker could claim it.
#[test]
fn worker_claims_its_own_attempt_again_once_it_no_longer_follows_it() {
    with_store(async |store: Store| {
        let one = joined(&store, "one", &[]).await;
        queue(&store, "agent", &[]).await;
        let first = store.claim_attempt(&one, HOUR, Some(&[])).await.unwrap().unwrap().lease;
        store.report_attempt("one", &first, report([1], 5), 0).await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        let follows = ["other".to_owned(), "agent".to_owned()];
        assert!(store.claim_attempt(&one, HOUR, None).await.unwrap().is_none());
        assert!(store.claim_attempt(&one, HOUR, Some(&follows)).await.unwrap().is_none());
        let follows = ["other".to_owned()];
        let reclaimed = store.claim_attempt(&one, HOUR, Some(&follows)).await.unwrap().unwrap();
        assert_eq!(reclaimed.lease.fence, 2, "it must be a new claim");
        let late = store.report_attempt("one", &first, report([], 0), HOUR).await.unwrap();
        assert_eq!(late, Err(ReportError::LeaseLost(bailiwick_fleet::workers::LeaseError)));
        let attempt = store.queued_attempt("agent").await.unwrap().unwrap();
        assert_eq!((attempt.spent.tokens, attempt.claimed_by), (5, vec!["one".to_owned()]));
    });
}
