//! Retries of failed runs after a fix: they differ from plain retries, and use the fixed objects.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{
    ActionError, FinishedWork, Fleet as _, FleetStore as _, Launched, LaunchedState, RunAnswer,
    RunVerb, RunVerbRequest, Target, World as _,
};
use bailiwick_resources::{
    AgentContextBundle, AgentDispatchAttempt, AttemptReason, Kind, Object, RunPhase,
};
use serde_json::{Value, json};

use crate::dispatch::{
    Plane, agent, all, caller, declare, document, in_state, only_run, reconcile, request,
    set_state, start_plane, work,
};

async fn act(plane: &Plane, run: &str, verb: RunVerb) -> Result<RunAnswer, ActionError> {
    let target = Target { namespace: "default".to_owned(), name: run.to_owned() };
    plane.api.act_on_run(&caller("ada"), &target, verb, RunVerbRequest::default()).await
}

/// A run whose agent has failed.
async fn failed(plane: &Plane) -> String {
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(plane).await;
    set_state(plane, &agent(plane), in_state(LaunchedState::Failed));
    reconcile(plane).await;
    assert_eq!(only_run(plane).await.status.phase, RunPhase::Failed);
    answer.run
}

async fn change(plane: &Plane, kind: Kind, name: &str, field: &str, value: Value) {
    let known = plane.store.get(kind, "default", name).await.unwrap().unwrap();
    let mut changed = document(kind, name, known.spec);
    changed.spec[field] = value;
    declare(plane, &[changed]).await;
}

async fn last_attempt(plane: &Plane) -> Object<AgentDispatchAttempt> {
    let name = only_run(plane).await.status.attempts.last().unwrap().clone();
    let all = all::<AgentDispatchAttempt>(plane).await;
    all.into_iter().find(|attempt| attempt.name() == name).unwrap()
}

fn launched(plane: &Plane) -> usize {
    plane.engine.launched.lock().unwrap().len()
}

fn context(plane: &Plane) -> String {
    plane.engine.launched.lock().unwrap().last().unwrap().context.clone()
}

#[tokio::test]
async fn retry_after_a_stack_fix_is_a_rerun_with_the_fixed_stack() {
    let plane = start_plane(|_| {}).await;
    let run = failed(&plane).await;
    let before = only_run(&plane).await;
    change(&plane, Kind::AgentStack, "fixer", "prompt", json!({ "system": "Use nextest." })).await;
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    let attempt = last_attempt(&plane).await;
    assert_eq!(attempt.spec.attempt_reason, AttemptReason::RerunAfterFix);
    assert_eq!(attempt.spec.fixed, ["AgentStack/fixer"]);
    assert_eq!(launched(&plane), 2);
    assert!(context(&plane).contains("Use nextest."), "{}", context(&plane));
    assert!(context(&plane).contains("Mend it."), "{}", context(&plane));
    // The new context has its own bundle and digest, and the earlier one can still be read.
    let after = only_run(&plane).await;
    assert_ne!(after.status.context_bundle_digest, before.status.context_bundle_digest);
    let digest = after.status.context_bundle_digest.clone().unwrap();
    assert_eq!(attempt.spec.context_bundle_digest, digest);
    let bundles = all::<AgentContextBundle>(&plane).await;
    let digest_of = |name: &Option<String>| {
        let name = name.clone().unwrap();
        bundles.iter().find(|bundle| bundle.name() == name).unwrap().spec.digest.clone()
    };
    assert_eq!(digest_of(&after.spec.context_bundle_ref), digest);
    assert_eq!(
        Some(digest_of(&before.spec.context_bundle_ref)),
        before.status.context_bundle_digest
    );
    let lines = plane.store.audit(0, 1_000).await.unwrap();
    let details = lines.iter().map(|(_, line)| &line.detail);
    let fixed = details.filter(|detail| detail["attemptReason"] == "rerun-after-fix");
    let fixed: Vec<&Value> = fixed.map(|detail| &detail["fixed"]).collect();
    assert_eq!(fixed, [&json!(["AgentStack/fixer"])]);
}

#[tokio::test]
async fn retry_without_a_relevant_change_stays_a_retry() {
    let plane = start_plane(|_| {}).await;
    let run = failed(&plane).await;
    assert!(only_run(&plane).await.status.failed_with.contains_key("AgentStack/fixer"));
    // Another pool is not relevant, and the same document again is no change.
    change(&plane, Kind::RunnerPool, "outside", "capacity", json!(7)).await;
    change(&plane, Kind::AgentStack, "fixer", "runnerPool", json!("inside")).await;
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    let attempt = last_attempt(&plane).await;
    assert_eq!(attempt.spec.attempt_reason, AttemptReason::Retry);
    assert!(attempt.spec.fixed.is_empty());
    assert_eq!(launched(&plane), 2);
    assert!(only_run(&plane).await.status.failed_with.is_empty());
}

#[tokio::test]
async fn only_a_failed_run_can_be_fixed() {
    let plane = start_plane(|_| {}).await;
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    act(&plane, &answer.run, RunVerb::Cancel).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Cancelled);
    change(&plane, Kind::AgentStack, "fixer", "prompt", json!({ "system": "Other." })).await;
    act(&plane, &answer.run, RunVerb::Retry).await.unwrap();
    assert_eq!(last_attempt(&plane).await.spec.attempt_reason, AttemptReason::Retry);
}

#[tokio::test]
async fn run_that_lost_its_permission_starts_after_the_permission_is_restored() {
    let plane = start_plane(|_| {}).await;
    let run = failed(&plane).await;
    let policy = |stacks: &str| json!({ "allowedStacks": [stacks] });
    change(&plane, Kind::Repository, "app", "policy", policy("another")).await;
    // The change does not admit the run: it is no fix, and the run does not start.
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    let refused = only_run(&plane).await;
    let why = refused.status.terminal_reason.unwrap_or_default();
    assert!(why.starts_with("PermissionsChanged"), "{why}");
    let plain = last_attempt(&plane).await.spec;
    assert_eq!((plain.attempt_reason, plain.fixed.len()), (AttemptReason::Retry, 0));
    assert_eq!(launched(&plane), 1);
    change(&plane, Kind::Repository, "app", "policy", policy("fixer")).await;
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 2);
    assert_eq!(last_attempt(&plane).await.spec.fixed, ["Repository/app"]);
}

#[tokio::test]
async fn new_forge_token_is_a_fix() {
    let plane = start_plane(|object| {
        if object.kind == Kind::Repository {
            object.spec["credentialRef"] = json!({ "name": "forge", "key": "token" });
        }
    })
    .await;
    let keys = |value: &str| BTreeMap::from([("token".to_owned(), value.as_bytes().to_vec())]);
    plane.store.set_secret("default", "forge", keys("old"), plane.world.now()).await.unwrap();
    let run = failed(&plane).await;
    plane.store.set_secret("default", "forge", keys("new"), plane.world.now()).await.unwrap();
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    let attempt = last_attempt(&plane).await;
    assert_eq!(attempt.spec.attempt_reason, AttemptReason::RerunAfterFix);
    assert_eq!(attempt.spec.fixed, ["Secret/forge"]);
}

#[tokio::test]
async fn rerun_of_rejected_work_gets_the_verdict_and_the_changes() {
    let plane = start_plane(|_| {}).await;
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let rejected = FinishedWork {
        verified: false,
        verdict: "tests-green: 2 tests failed".to_owned(),
        ..work()
    };
    let ended = Launched { work: Some(rejected), ..in_state(LaunchedState::Rejected) };
    set_state(&plane, &agent(&plane), ended);
    reconcile(&plane).await;
    change(&plane, Kind::AgentToolProfile, "tools", "deniedCommands", json!(["curl"])).await;
    act(&plane, &answer.run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(last_attempt(&plane).await.spec.attempt_reason, AttemptReason::RerunAfterFix);
    let context = context(&plane);
    assert!(context.contains("2 tests failed"), "{context}");
    assert!(context.contains("AgentToolProfile/tools"), "{context}");
}

#[tokio::test]
async fn removed_limit_does_not_apply_to_the_rerun() {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentToolProfile {
            object.spec["deniedCommands"] = json!(["curl"]);
        }
    })
    .await;
    let limits = |plane: &Plane| {
        let launched = plane.engine.launched.lock().unwrap();
        serde_json::to_string(&launched.last().unwrap().limits).unwrap()
    };
    let run = failed(&plane).await;
    assert!(limits(&plane).contains("curl"));
    change(&plane, Kind::AgentToolProfile, "tools", "deniedCommands", json!([])).await;
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 2);
    assert!(!limits(&plane).contains("curl"), "{}", limits(&plane));
}

#[tokio::test]
async fn rerun_of_a_fork_never_writes_more_than_the_run_it_comes_from() {
    let plane = start_plane(|_| {}).await;
    let first = failed(&plane).await;
    let fork = act(&plane, &first, RunVerb::Fork).await.unwrap().run;
    reconcile(&plane).await;
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    let targets = json!({ "allowedTargets": ["create-branch", "branch-push"] });
    change(&plane, Kind::AgentStack, "fixer", "writeBackPolicy", targets).await;
    let mut allowed = Vec::new();
    for run in [&first, &fork] {
        act(&plane, run, RunVerb::Retry).await.unwrap();
        let known = plane.store.get(Kind::AgentDispatchRun, "default", run).await.unwrap().unwrap();
        allowed.push(known.spec["writeBackPolicy"]["allowedTargets"].clone());
        reconcile(&plane).await;
        set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
        reconcile(&plane).await;
    }
    assert_eq!(allowed, [json!(["create-branch", "branch-push"]), json!(["create-branch"])]);
}
