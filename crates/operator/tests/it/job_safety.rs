//! What the controller of Jobs must never do: give tokens to other Jobs, change the Jobs of others, stop because of one
//! failure, or create Jobs without a limit.

use bailiwick_fleet::ports::MemoryFleet;
use bailiwick_operator::jobs::{InstallationError, PoolState, claim_installation};
use bailiwick_resources::{Moment, PodProblem, TrustTier};
use serde_json::json;

use crate::jobs::{
    ApiServer, Operator, Queue, cluster, controller, controller_of_two_namespaces, exited,
    exited_at, job_name, job_name_of, status,
};

#[tokio::test]
async fn untrusted_pool_gets_no_job_in_a_trusted_namespace() {
    for namespace in ["attempts", "trusted", "team.untrusted", "elsewhere"] {
        let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
        queue.in_namespace("fixer-1", TrustTier::Untrusted, namespace);
        let mut controller = controller_of_two_namespaces(&server, &queue);
        controller.round().await;
        assert_eq!(server.names("jobs"), Vec::<String>::new(), "{namespace}");
        assert_eq!(queue.problem(), Some(PodProblem::PodNotAdmitted), "{namespace}");
        queue.in_namespace("fixer-1", TrustTier::Untrusted, "untrusted");
        controller.round().await;
        let job_path =
            format!("/apis/batch/v1/namespaces/untrusted/jobs/{}", job_name("fixer-1", 1));
        assert!(server.0.lock().unwrap().stored.contains_key(&job_path), "{namespace}");
    }
}

/// A person who may create Jobs in one namespace copies the labels and annotations of an attempt in another one.
#[tokio::test]
async fn forged_job_gets_no_token() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    controller(&server, &queue).round().await;
    let job_path = format!("/apis/batch/v1/namespaces/attempts/jobs/{}", job_name("fixer-1", 1));
    let template = server.0.lock().unwrap().stored.remove(&job_path).unwrap();
    server.0.lock().unwrap().stored.retain(|path, _| !path.contains("/secrets/"));
    for name in ["forged".to_owned(), job_name("fixer-1", 1)] {
        let mut job = template.clone();
        job["metadata"]["name"] = json!(name);
        job["metadata"]["namespace"] = json!("untrusted");
        job["metadata"]["uid"] = json!(format!("forged uid of {name}"));
        let forged_path = format!("/apis/batch/v1/namespaces/untrusted/jobs/{name}");
        server.0.lock().unwrap().stored.insert(forged_path, job);
    }
    let mut controller = controller_of_two_namespaces(&server, &queue);
    controller.round().await;
    controller.round().await;
    let objects = server.0.lock().unwrap();
    let secrets: Vec<&String> =
        objects.stored.keys().filter(|path| path.contains("/secrets/")).collect();
    let expected = format!("/api/v1/namespaces/attempts/secrets/{}", job_name("fixer-1", 1));
    assert_eq!(secrets, [&expected]);
    assert!(objects.stored.contains_key(&job_path), "the attempt got its own Job");
}

/// The same name in the same namespace, but of another attempt.
#[tokio::test]
async fn job_with_the_name_of_another_job_gets_no_token() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let name = job_name("fixer-1", 1);
    let job = json!({ "metadata": { "name": name, "namespace": "attempts", "uid": "another" } });
    let path = format!("/apis/batch/v1/namespaces/attempts/jobs/{name}");
    server.0.lock().unwrap().stored.insert(path, job);
    controller(&server, &queue).round().await;
    assert_eq!(server.names("secrets"), Vec::<String>::new());
    assert_eq!(queue.problem(), Some(PodProblem::PodNotAdmitted));
}

#[tokio::test]
async fn namespace_that_cannot_be_listed_does_not_block_the_others() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1", "fixer-2"]));
    queue.in_namespace("fixer-2", TrustTier::Untrusted, "untrusted");
    server.0.lock().unwrap().unlisted = Some("untrusted".to_owned());
    let mut controller = controller_of_two_namespaces(&server, &queue);
    let failures = controller.failures().await;
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0].to_string(), "the namespace untrusted");
    assert_eq!(server.names("jobs"), [job_name("fixer-1", 1)]);
    controller.wait(1);
    assert!(
        controller.failures().await.is_empty(),
        "the namespace is not listed again before the backoff ends"
    );
    server.0.lock().unwrap().unlisted = None;
    controller.round().await;
    assert_eq!(server.names("jobs").len(), 2);
    // Orphans are not deleted while their namespace cannot be listed.
    queue.clear();
    server.0.lock().unwrap().unlisted = Some("untrusted".to_owned());
    for _ in 0..20 {
        controller.wait(600);
        controller.failures().await;
    }
    assert_eq!(server.names("jobs"), [job_name("fixer-2", 1)]);
}

#[tokio::test]
async fn two_installations_in_one_namespace_do_not_interfere() {
    let server = ApiServer::default();
    let (queue, other_queue) = (Queue::with(&["fixer-1"]), Queue::with(&["fixer-1"]));
    let mut one = controller(&server, &queue);
    let mut other = Operator::new(cluster("other", "attempts"), server.client(), &other_queue);
    one.round().await;
    other.round().await;
    let mut expected = vec![job_name("fixer-1", 1), job_name_of("other", "fixer-1", 1)];
    expected.sort();
    assert_eq!(server.names("jobs"), expected);
    assert_eq!(
        server.names("networkpolicies"),
        ["bailiwick-attempts-bailiwick", "bailiwick-attempts-other"]
    );
    // A Job of another installation is not an orphan.
    queue.clear();
    for _ in 0..20 {
        one.round().await;
    }
    assert_eq!(server.names("jobs"), [job_name_of("other", "fixer-1", 1)]);
}

#[tokio::test]
async fn attempt_waits_before_its_next_job() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller(&server, &queue);
    controller.round().await;
    for (number, pause) in [(1, 30), (2, 120)] {
        server.add_pod(&job_name("fixer-1", number), exited_at(66, &controller.now.to_string()));
        for (wait, jobs) in [(0, number), (0, number), (pause - 1, number), (1, number + 1)] {
            controller.wait(wait);
            assert!(controller.failures().await.is_empty());
            assert_eq!(server.names("jobs").len() as u64, jobs, "{number} {wait}");
        }
    }
}

/// The run has three Jobs, and each of them fails.
#[tokio::test]
async fn run_needs_at_most_ten_writes() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller(&server, &queue);
    for number in 1..=3 {
        controller.round().await;
        // Someone deletes the policy. The next Job gets a new one.
        assert_eq!(server.names("networkpolicies").len(), 1, "{number}");
        server.0.lock().unwrap().stored.retain(|path, _| !path.contains("/networkpolicies/"));
        let name = job_name("fixer-1", number);
        server.add_pod(&name, exited(66));
        let ended = json!({ "conditions": [{ "type": "Failed", "status": "True" }] });
        server.change("jobs", &name, |job| job["status"] = ended);
        controller.round().await;
    }
    for _ in 0..20 {
        controller.round().await;
    }
    assert_eq!(queue.given_up(), [("fixer-1".to_owned(), PodProblem::WorkerLost)]);
    let writes = server.0.lock().unwrap().writes;
    assert!((6..=10).contains(&writes), "{writes}");
}

#[tokio::test]
async fn attempt_without_a_job_ends_after_the_deadline() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller(&server, &queue);
    server.0.lock().unwrap().refusal = Some(status(403, "Forbidden").1);
    queue.change(|open| open.queued_millis = 5 * 3_600_000);
    controller.round().await;
    assert_eq!((queue.problem(), queue.given_up()), (Some(PodProblem::PodNotAdmitted), vec![]));
    queue.change(|open| open.queued_millis = 6 * 3_600_000);
    controller.round().await;
    assert_eq!(queue.given_up(), [("fixer-1".to_owned(), PodProblem::PodNotAdmitted)]);
}

/// The API server never reports that the pod has ended.
#[tokio::test]
async fn attempt_on_a_lost_node_gets_a_new_job_after_its_lease_expires() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller(&server, &queue);
    controller.round().await;
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    });
    let lost = json!({ "phase": "Running", "conditions": [condition] });
    server.add_pod(&job_name("fixer-1", 1), lost);
    queue.change(|open| open.is_expired = false);
    for _ in 0..3 {
        controller.round().await;
        assert_eq!(server.names("jobs"), [job_name("fixer-1", 1)], "the worker may still run");
    }
    queue.change(|open| open.is_expired = true);
    controller.round().await;
    assert_eq!(queue.problem(), Some(PodProblem::NodeLost));
    for _ in 0..20 {
        controller.round().await;
    }
    assert_eq!(server.names("jobs"), [job_name("fixer-1", 2)], "the old Job is deleted");
}

#[tokio::test]
async fn no_job_is_created_without_its_network_policy() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller(&server, &queue);
    server.0.lock().unwrap().no_policies = true;
    controller.round().await;
    assert_eq!(server.names("jobs"), Vec::<String>::new());
    assert_eq!(queue.problem(), Some(PodProblem::PodNotAdmitted));
    server.0.lock().unwrap().no_policies = false;
    controller.round().await;
    assert_eq!(server.names("jobs"), [job_name("fixer-1", 1)]);
}

/// The operator was started with an empty database, or with that of another server.
#[tokio::test]
async fn job_of_an_attempt_that_the_database_does_not_know_is_not_deleted() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    controller(&server, &queue).round().await;
    let wrong = Queue::with(&["fixer-2"]);
    let mut operator = controller(&server, &wrong);
    wrong.lose();
    let mut failures = Vec::new();
    for _ in 0..20 {
        operator.wait(600);
        failures.extend(operator.failures().await);
    }
    assert_eq!(server.names("jobs"), [job_name("fixer-1", 1)]);
    let message = std::error::Error::source(&failures[0]).unwrap().to_string();
    assert!(message.contains("does not say that its attempt `fixer-1` has ended"), "{message}");
    // The database of the server knows that it has ended.
    queue.clear();
    let mut operator = controller(&server, &queue);
    for _ in 0..20 {
        operator.round().await;
    }
    assert_eq!(server.names("jobs"), Vec::<String>::new());
}

#[tokio::test]
async fn database_of_another_installation_is_refused() {
    let store = MemoryFleet::default();
    let claim = async |name: &str| {
        claim_installation(&store, &name.parse().unwrap(), Moment::from_millis(1)).await
    };
    claim("bailiwick").await.unwrap();
    claim("bailiwick").await.unwrap();
    let refused = claim("other").await;
    assert!(
        matches!(&refused, Err(InstallationError::OtherInstallation { known, .. }) if known == "bailiwick"),
        "{refused:?}"
    );
}

#[test]
fn operator_for_jobs_refuses_a_database_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("empty.db");
    let arguments = ["jobs", "--server", "https://agents.example", "--image", "i", "--database"];
    let output = crate::run(&[&arguments[..], &[file.to_str().unwrap()]].concat());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("needs the PostgreSQL"), "{message}");
    assert!(!file.exists(), "no database is made");
}

/// A person changes `job.namespace` of a pool.
#[tokio::test]
async fn attempt_stays_in_its_namespace_until_its_lease_expires() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller_of_two_namespaces(&server, &queue);
    controller.round().await;
    let path = |namespace: &str| {
        format!("/apis/batch/v1/namespaces/{namespace}/jobs/{}", job_name("fixer-1", 1))
    };
    let has_job = |namespace: &str| server.0.lock().unwrap().stored.contains_key(&path(namespace));
    server.add_pod(&job_name("fixer-1", 1), json!({ "phase": "Running" }));
    queue.change(|open| open.is_expired = false);
    queue.in_namespace("fixer-1", TrustTier::Trusted, "untrusted");
    for _ in 0..20 {
        controller.round().await;
        assert!(has_job("attempts") && !has_job("untrusted"), "its worker runs");
    }
    queue.change(|open| open.is_expired = true);
    controller.round().await;
    assert!(has_job("attempts") && !has_job("untrusted"), "there is never a second Job");
    for _ in 0..20 {
        controller.round().await;
        assert!(!(has_job("attempts") && has_job("untrusted")), "there is never a second Job");
    }
    assert!(has_job("untrusted"), "its Job is made in the new namespace");
}

#[tokio::test]
async fn unreadable_pool_stops_only_its_own_attempts() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1", "fixer-2"]));
    queue.set_pool("fixer-1", PoolState::Unreadable("invalid type".to_owned()));
    let mut controller = controller(&server, &queue);
    controller.round().await;
    assert_eq!(server.names("jobs"), [job_name("fixer-2", 1)]);
    assert_eq!(queue.problem(), Some(PodProblem::PodNotAdmitted));
    // A pool that becomes unreadable, or is deleted, does not end the attempts that run.
    for pool in [PoolState::Unreadable("invalid type".to_owned()), PoolState::WithoutJobs] {
        queue.set_pool("fixer-2", pool);
        for _ in 0..20 {
            controller.round().await;
        }
        assert_eq!(server.names("jobs"), [job_name("fixer-2", 1)]);
    }
    queue.clear();
    for _ in 0..20 {
        controller.round().await;
    }
    assert_eq!(server.names("jobs"), Vec::<String>::new());
}

#[tokio::test]
async fn request_that_the_api_server_never_accepts_has_a_reason() {
    for (kind, problem) in [
        ("jobs", PodProblem::PodNotAdmitted),
        ("networkpolicies", PodProblem::PodNotAdmitted),
        ("secrets", PodProblem::ContainerNotStarted),
    ] {
        for code in [400, 403, 405, 413, 422] {
            let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
            let mut operator = controller(&server, &queue);
            server.0.lock().unwrap().refused = Some((kind, code));
            operator.round().await;
            assert_eq!(queue.problem(), Some(problem), "{kind} {code}");
            server.0.lock().unwrap().refused = None;
            operator.round().await;
            operator.round().await;
            assert_eq!(queue.problem(), None, "{kind} {code}");
            assert_eq!(server.names("secrets"), [job_name("fixer-1", 1)], "{kind} {code}");
            // It waits for its whole deadline, and then ends.
            let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
            let mut operator = controller(&server, &queue);
            server.0.lock().unwrap().refused = Some((kind, code));
            queue.change(|open| open.queued_millis = 6 * 3_600_000);
            operator.round().await;
            assert_eq!(queue.given_up(), [("fixer-1".to_owned(), problem)], "{kind} {code}");
        }
        for code in [401, 408, 429, 500, 503] {
            let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
            let mut operator = controller(&server, &queue);
            server.0.lock().unwrap().refused = Some((kind, code));
            assert_eq!(operator.failures().await.len(), 1, "{kind} {code}: it may work later");
            assert_eq!(queue.problem(), None, "{kind} {code}");
        }
    }
}

/// The secret of an earlier Job of the same name is not deleted yet.
#[tokio::test]
async fn pod_gets_its_token_once_an_earlier_secret_is_gone() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller(&server, &queue);
    let path = format!("/api/v1/namespaces/attempts/secrets/{}", job_name("fixer-1", 1));
    let earlier = json!({ "metadata": { "ownerReferences": [{ "uid": "an earlier Job" }] } });
    server.0.lock().unwrap().stored.insert(path.clone(), earlier.clone());
    controller.round().await;
    controller.round().await;
    assert_eq!(server.0.lock().unwrap().stored[&path], earlier);
    server.0.lock().unwrap().stored.remove(&path);
    controller.round().await;
    let secret = server.0.lock().unwrap().stored[&path].clone();
    assert_eq!(
        secret["metadata"]["ownerReferences"][0]["uid"],
        format!("uid of {}", job_name("fixer-1", 1))
    );
    assert_eq!(secret["stringData"]["token"], "bwj_1", "the Job has one token");
    let writes = server.0.lock().unwrap().writes;
    controller.round().await;
    assert_eq!(server.0.lock().unwrap().writes, writes, "its secret is stored");
}

/// A person who may create pods in one namespace names a Job of another one as the owner.
#[tokio::test]
async fn pod_of_another_namespace_does_not_stand_for_a_job() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller_of_two_namespaces(&server, &queue);
    controller.round().await;
    let name = job_name("fixer-1", 1);
    let path = |namespace: &str| format!("/api/v1/namespaces/{namespace}/pods/{name}");
    server.add_pod(&name, exited(65));
    let forged = server.0.lock().unwrap().stored.remove(&path("attempts")).unwrap();
    server.0.lock().unwrap().stored.insert(path("untrusted"), forged.clone());
    for _ in 0..3 {
        controller.round().await;
        assert_eq!((queue.given_up(), queue.problem()), (vec![], None));
    }
    server.0.lock().unwrap().stored.insert(path("attempts"), forged);
    controller.round().await;
    assert_eq!(queue.given_up(), [("fixer-1".to_owned(), PodProblem::SandboxInsufficient)]);
}

#[tokio::test]
async fn attempt_whose_job_is_complete_without_a_report_gets_another_job() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1"]));
    let mut controller = controller(&server, &queue);
    controller.round().await;
    let end = controller.now.to_string();
    let complete = json!([{ "type": "Complete", "status": "True", "lastTransitionTime": end }]);
    server.change("jobs", &job_name("fixer-1", 1), |job| {
        job["status"] = json!({ "conditions": complete })
    });
    controller.wait(299);
    assert!(controller.failures().await.is_empty());
    assert_eq!(queue.problem(), None, "the server may still record the end");
    queue.change(|open| open.is_expired = false);
    controller.wait(2);
    assert!(controller.failures().await.is_empty());
    assert_eq!(queue.problem(), None, "a worker has the attempt");
    queue.change(|open| open.is_expired = true);
    controller.round().await;
    assert_eq!(queue.problem(), Some(PodProblem::WorkerFailed));
    controller.round().await;
    assert!(server.names("jobs").contains(&job_name("fixer-1", 2)));
}

#[tokio::test]
async fn network_policy_is_written_only_if_it_differs() {
    let (server, queue) = (ApiServer::default(), Queue::with(&["fixer-1", "fixer-2"]));
    let mut controller = controller(&server, &queue);
    controller.round().await;
    let (writes, name) = (server.0.lock().unwrap().writes, "bailiwick-attempts-bailiwick");
    assert_eq!(writes, 5, "one policy, and a Job and a secret for each attempt");
    // Someone opens it.
    server.change("networkpolicies", name, |policy| {
        policy["spec"]["egress"].as_array_mut().unwrap().push(json!({}));
    });
    let ended = json!({ "conditions": [{ "type": "Failed", "status": "True" }] });
    server.change("jobs", &job_name("fixer-1", 1), |job| job["status"] = ended);
    queue.restart("fixer-1");
    controller.round().await;
    assert_eq!(server.0.lock().unwrap().writes, writes + 3, "the policy, and the second Job");
    server.change("networkpolicies", name, |policy| {
        assert_eq!(policy["spec"]["egress"].as_array().unwrap().len(), 3);
    });
}
