//! A forge that does not answer delays nothing else, and the wait has a limit.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FetchError, WorldError};
use bailiwick_resources::{
    AgentDispatchRun, ContextSource, ExecutionDecision, ForgeKind, Kind, Reason, Repository,
    WebhookDelivery,
};
use serde_json::json;

use super::{
    Plane, advance_clock, declare, declare_rule, document, executions, get_object, receive_push,
    receive_webhook, reconcile, sha, start_plane,
};

fn script_diff(
    plane: &Plane,
    results: impl IntoIterator<Item = Result<Option<String>, FetchError>>,
) {
    let results: VecDeque<_> = results.into_iter().collect();
    plane.world.sources.lock().unwrap().insert(ContextSource::Diff, results);
}

fn unavailable() -> Result<Option<String>, FetchError> {
    Err(FetchError::Unavailable("no route".to_owned()))
}

async fn two_rules(plane: &Plane) {
    let diff = json!({ "include": ["diff"] });
    declare_rule(plane, "with-diff", |spec| spec["contextBundleTemplate"] = diff).await;
    declare_rule(plane, "without", |_| {}).await;
}

#[tokio::test]
async fn missing_source_refuses_only_its_own_rule_with_the_reason() {
    for (fault, code) in [
        (FetchError::Failed("git said no".to_owned()), "ArtifactFetchFailed: git said no"),
        (FetchError::Missing("gone".to_owned()), "SourceObjectMissing: gone"),
    ] {
        let plane = start_plane().await;
        two_rules(&plane).await;
        script_diff(&plane, [Err(fault)]);
        let name = receive_push(&plane, "a", "main", &sha('a')).await;
        reconcile(&plane).await;
        let refused = executions(&plane, "with-diff").await;
        assert_eq!(refused[0].decision, ExecutionDecision::Rejected);
        assert!(refused[0].reason.starts_with(code), "{}", refused[0].reason);
        let started = executions(&plane, "without").await;
        assert_eq!(started[0].decision, ExecutionDecision::Created, "{}", started[0].reason);
        let delivery = get_object::<WebhookDelivery>(&plane, &name).await;
        assert!(delivery.status.evaluated);
        assert_eq!(delivery.status.executions.len(), 2);
    }
}

#[tokio::test]
async fn unavailable_source_is_retried_while_other_rules_continue() {
    let plane = start_plane().await;
    two_rules(&plane).await;
    script_diff(&plane, [unavailable(), unavailable(), Ok(Some("+a line".to_owned()))]);
    let name = receive_push(&plane, "a", "main", &sha('a')).await;
    plane.advance().await;
    assert_eq!(executions(&plane, "without").await.len(), 1);
    assert_eq!(executions(&plane, "with-diff").await.len(), 0);
    let delivery_waiting = get_object::<WebhookDelivery>(&plane, &name).await;
    assert!(!delivery_waiting.status.evaluated);
    assert!(delivery_waiting.status.fault.is_some_and(|why| why.contains("no route")));
    // Not before its backoff ends.
    reconcile(&plane).await;
    assert_eq!(plane.world.requested_sources.lock().unwrap().len(), 1);
    for _ in 0..4 {
        advance_clock(&plane, 60_000);
        reconcile(&plane).await;
    }
    let found = executions(&plane, "with-diff").await;
    assert_eq!(found[0].decision, ExecutionDecision::Created, "{}", found[0].reason);
    assert_eq!(
        executions(&plane, "without").await.len(),
        1,
        "a recorded execution is not repeated"
    );
    let delivery = get_object::<WebhookDelivery>(&plane, &name).await;
    assert!(delivery.status.evaluated && delivery.status.fault.is_none());
    assert_eq!(delivery.status.executions.len(), 2);
}

#[tokio::test]
async fn event_of_a_person_waits_for_days_until_the_forge_answers() {
    let plane = start_plane().await;
    two_rules(&plane).await;
    script_diff(&plane, [unavailable()]);
    let name = receive_push(&plane, "a", "main", &sha('a')).await;
    for _ in 0..12 {
        reconcile(&plane).await;
        advance_clock(&plane, 6 * 3_600_000);
    }
    assert_eq!(executions(&plane, "with-diff").await, []);
    let waiting = get_object::<WebhookDelivery>(&plane, &name).await.status;
    assert!(!waiting.evaluated && waiting.fault.unwrap_or_default().contains("no route"));
    script_diff(&plane, [Ok(Some("+a line".to_owned()))]);
    advance_clock(&plane, 60_000);
    reconcile(&plane).await;
    let found = executions(&plane, "with-diff").await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].decision, ExecutionDecision::Created, "{}", found[0].reason);
    assert!(get_object::<WebhookDelivery>(&plane, &name).await.status.evaluated);
}

#[tokio::test]
async fn missing_or_unfetchable_commit_is_a_refusal() {
    for (result, code) in [
        (Ok(None), "SourceObjectMissing"),
        (Err(FetchError::Failed("refused".to_owned())), "ArtifactFetchFailed"),
    ] {
        let plane = start_plane().await;
        declare_rule(&plane, "mend", |_| {}).await;
        plane.world.commits.lock().unwrap().insert(sha('a'), VecDeque::from([result]));
        receive_push(&plane, "a", "main", &sha('a')).await;
        receive_push(&plane, "b", "main", &sha('b')).await;
        reconcile(&plane).await;
        let found = executions(&plane, "mend").await;
        assert!(found[0].reason.starts_with(code), "{}", found[0].reason);
        assert_eq!(found[1].decision, ExecutionDecision::Created, "positive control");
    }
}

/// Whatever is wrong with this machine, a person can fix it, and what others did is not lost.
#[tokio::test]
async fn event_waits_for_hours_until_this_machine_is_fixed_and_starts_exactly_one_run() {
    let (name, key) = ("forge".to_owned(), "token".to_owned());
    let missing = WorldError::NoCredential { name: name.clone(), key: key.clone() };
    let why = "it cannot be decrypted".to_owned();
    let credential = Some(Reason::CredentialMissing);
    for (error, reason) in [
        (missing, credential),
        (WorldError::BadCredential { name, key, why }, credential),
        (WorldError::Checkout("the disk is full".to_owned()), None),
        (WorldError::Records("the database is closed".to_owned()), None),
        (WorldError::Panicked, None),
    ] {
        let plane = start_plane().await;
        declare_rule(&plane, "mend", |_| {}).await;
        let failed = || Err(FetchError::from(error.clone()));
        let results = VecDeque::from([failed(), failed(), failed()]);
        plane.world.commits.lock().unwrap().insert(sha('a'), results);
        let name = receive_push(&plane, "a", "main", &sha('a')).await;
        for _ in 0..3 {
            plane.advance().await;
            assert_eq!(executions(&plane, "mend").await, [], "{error}");
            let waiting = get_object::<WebhookDelivery>(&plane, &name).await.status;
            assert!(!waiting.evaluated, "{error}");
            assert!(waiting.fault.unwrap_or_default().contains(&error.to_string()), "{error}");
            let status = get_object::<Repository>(&plane, "app").await.status;
            let found = status.forge_problems.first().map(|problem| problem.reason);
            assert_eq!(found, reason, "{error}");
            advance_clock(&plane, 3_600_000);
        }
        reconcile(&plane).await;
        let found = executions(&plane, "mend").await;
        assert_eq!(found.len(), 1, "{error}");
        assert_eq!(found[0].decision, ExecutionDecision::Created, "{}", found[0].reason);
        assert_eq!(super::all::<AgentDispatchRun>(&plane).await.len(), 1, "{error}");
        let status = get_object::<Repository>(&plane, "app").await.status;
        assert_eq!(status.forge_problems, [], "{error}");
    }
    // The control: a git command that fails again is a refusal.
    assert_eq!(
        FetchError::from(WorldError::Git("bad range".to_owned())),
        FetchError::Failed("bad range".to_owned())
    );
}

/// A full batch of deliveries waits for a forge; later deliveries are still evaluated.
#[tokio::test]
async fn waiting_deliveries_do_not_block_later_ones() {
    let plane = start_plane().await;
    let diff = json!({ "include": ["diff"] });
    declare_rule(&plane, "with-diff", |spec| {
        spec["contextBundleTemplate"] = diff;
        spec["match"] = json!({ "branches": { "include": ["slow"] } });
    })
    .await;
    declare_rule(&plane, "quick", |spec| {
        spec["match"] = json!({ "branches": { "include": ["main"] } });
    })
    .await;
    script_diff(&plane, [unavailable()]);
    for number in 0..70 {
        receive_push(&plane, &format!("slow-{number}"), "slow", &sha('a')).await;
    }
    receive_push(&plane, "quick", "main", &sha('b')).await;
    plane.advance().await;
    plane.advance().await;
    assert_eq!(executions(&plane, "quick").await.len(), 1);
    assert_eq!(executions(&plane, "with-diff").await.len(), 0, "these deliveries still wait");
}

/// The earlier run continues if the run that would replace it is refused.
#[tokio::test]
async fn refused_run_replaces_no_other_run() {
    let plane = start_plane().await;
    let diff = json!({ "include": ["diff"] });
    declare_rule(&plane, "mend", |spec| {
        spec["contextBundleTemplate"] = diff;
        spec["concurrencyPolicy"] = json!({ "mode": "cancel-previous" });
    })
    .await;
    let available_diff = || Ok(Some("+a".to_owned()));
    script_diff(
        &plane,
        [available_diff(), Err(FetchError::Failed("no".to_owned())), available_diff()],
    );
    for (id, commit) in [("a", 'a'), ("b", 'b'), ("c", 'c')] {
        receive_push(&plane, id, "main", &sha(commit)).await;
        plane.advance().await;
        let runs = super::all::<AgentDispatchRun>(&plane).await;
        let first = &runs[0].status;
        let replaced = first.cancel_requested.is_some() || first.phase.is_final();
        assert_eq!(replaced, id == "c", "after {id}");
    }
}

/// A schedule with a forge that does not answer. It is due ten minutes after the start.
async fn half_hourly_schedule(catch_up: Option<&str>) -> Plane {
    let plane = start_plane().await;
    let local = json!({ "fullName": "acme/app", "forge": "local", "checkout": "/nowhere" });
    declare(&plane, &[document(Kind::Repository, "app", local)]).await;
    declare_rule(&plane, "timed", |spec| {
        spec["sources"] = json!(["schedule"]);
        spec["schedule"] = json!({ "cron": "*/30 * * * *", "repository": "acme/app" });
        if let Some(catch_up) = catch_up {
            spec["schedule"]["catchUp"] = json!(catch_up);
        }
    })
    .await;
    reconcile(&plane).await;
    plane.world.forge.is_unavailable.store(true, Ordering::Relaxed);
    plane
}

/// The number of executions after each of these minutes.
async fn execution_counts(plane: &Plane, minutes: usize) -> Vec<usize> {
    let mut counts = Vec::new();
    for _ in 0..minutes {
        plane.advance().await;
        advance_clock(plane, 60_000);
        counts.push(executions(plane, "timed").await.len());
    }
    counts
}

#[tokio::test]
async fn schedule_waits_for_its_forge() {
    for catch_up in [None, Some("1h")] {
        let plane = half_hourly_schedule(catch_up).await;
        assert_eq!(execution_counts(&plane, 35).await, [0; 35]);
        plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), sha('a'));
        plane.world.forge.is_unavailable.store(false, Ordering::Relaxed);
        reconcile(&plane).await;
        let found = executions(&plane, "timed").await;
        assert_eq!(found.len(), 1);
        assert!(!found[0].reason.starts_with("CommitUnknown"), "{}", found[0].reason);
    }
}

/// It waits until the next fire time, or until the catch-up time ends.
#[tokio::test]
async fn schedule_with_an_unavailable_forge_is_refused_in_the_end() {
    for (catch_up, end) in [(None, 40), (Some("1h"), 70)] {
        let plane = half_hourly_schedule(catch_up).await;
        let counts = execution_counts(&plane, end + 5).await;
        assert_eq!((counts[end - 1], counts[end + 4]), (0, 1), "{counts:?}");
        let found = executions(&plane, "timed").await;
        assert!(found[0].reason.starts_with("CommitUnknown: "), "{}", found[0].reason);
    }
}

/// The kit of untrusted work comes from the default branch, which is fetched first; if the forge does not answer, the
/// fetch is retried and nothing replaces it.
#[tokio::test]
async fn untrusted_work_waits_for_the_tip_of_the_default_branch() {
    let plane = start_plane().await;
    let mut objects = super::fleet();
    objects.retain(|one| one.kind == Kind::AgentServiceAccount && one.metadata.name == "fixer");
    objects[0].spec["allowedRunnerPools"] = json!(["inside", "outside"]);
    let mut runner = objects[0].clone();
    runner.metadata.name = "outsider".to_owned();
    runner.spec["serviceAccountName"] = json!("outsider");
    runner.spec["owner"] = json!({ "kind": "runner-pool", "name": "outside" });
    objects.push(runner);
    let pool = json!({ "capacity": 1, "trustTier": "untrusted", "serviceAccountRef": "outsider" });
    objects.push(document(Kind::RunnerPool, "outside", pool));
    declare(&plane, &objects).await;
    declare_rule(&plane, "look", |spec| spec["runnerPool"] = json!("outside")).await;
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    let unavailable_result = Err(FetchError::Unavailable("no route".to_owned()));
    plane.world.commits.lock().unwrap().insert(sha('d'), VecDeque::from([unavailable_result]));
    let payload = json!({ "bailiwick": {
        "source": "push", "ref": "refs/heads/main", "sha": sha('a'), "actor": "eve",
        "headRepository": "eve/app", "trust": "untrusted",
    } });
    let name = receive_webhook(&plane, "x", ForgeKind::Generic, "push", &payload).await;
    plane.advance().await;
    assert_eq!(executions(&plane, "look").await, []);
    let waiting = get_object::<WebhookDelivery>(&plane, &name).await.status;
    assert!(!waiting.evaluated && waiting.fault.unwrap_or_default().contains("no route"));
    advance_clock(&plane, 60_000);
    reconcile(&plane).await;
    let found = executions(&plane, "look").await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].decision, ExecutionDecision::Created, "{}", found[0].reason);
    let launched = plane.engine.launched.lock().unwrap().clone();
    assert_eq!(launched[0].kit_commit, Some(sha('d')));
    assert_eq!(launched[0].base, sha('a'));
}

#[tokio::test]
async fn repository_has_a_fault_while_it_cannot_be_fetched() {
    let plane = start_plane().await;
    declare_rule(&plane, "mend", |_| {}).await;
    let results = VecDeque::from([unavailable()]);
    plane.world.commits.lock().unwrap().insert(sha('a'), results);
    receive_push(&plane, "a", "main", &sha('a')).await;
    plane.advance().await;
    let fault = async || get_object::<Repository>(&plane, "app").await.status.fault;
    assert_eq!(fault().await.as_deref(), Some("fetching: nobody answered: no route"));
    advance_clock(&plane, 120_000);
    reconcile(&plane).await;
    let found = executions(&plane, "mend").await;
    assert_eq!(found[0].decision, ExecutionDecision::Created, "{}", found[0].reason);
    assert_eq!(fault().await, None);
    // A missing commit is an answer.
    plane.world.commits.lock().unwrap().insert(sha('b'), VecDeque::from([Ok(None)]));
    receive_push(&plane, "b", "main", &sha('b')).await;
    reconcile(&plane).await;
    let found = executions(&plane, "mend").await;
    assert_eq!(found[1].decision, ExecutionDecision::Rejected);
    assert_eq!(fault().await, None);
}
