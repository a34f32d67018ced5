//! An admitted run is reviewed again before it starts, whether it was queued or is retried.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use bailiwick_fleet::admission::native::{DRIFTED, MADE_FOR};
use bailiwick_fleet::ports::{
    ActionError, DecisionRequest, Fleet as _, FleetStore as _, Launched, LaunchedState, RunAnswer,
    RunVerb, RunVerbRequest, Target, Verdict, World as _, Write,
};
use bailiwick_resources::{
    AgentApproval, AgentDispatchAttempt, AgentDispatchRun, AnyObject, ApprovalPhase, AttemptReason,
    Kind, Object, RoleBinding, RunPhase, ServiceAccount,
};
use serde_json::{Value, json};

use crate::dispatch::{
    Plane, agent, all, caller, declare, document, fleet, in_state, only_run, reconcile, request,
    set_state, start_plane,
};

fn target(name: &str) -> Target {
    Target { namespace: "default".to_owned(), name: name.to_owned() }
}

async fn act(plane: &Plane, run: &str, verb: RunVerb) -> Result<RunAnswer, ActionError> {
    let message = "Go on.".to_owned();
    let request = RunVerbRequest { message, ..RunVerbRequest::default() };
    plane.api.act_on_run(&caller("ada"), &target(run), verb, request).await
}

/// A run that was launched and has failed.
async fn failed(plane: &Plane) -> String {
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(plane).await;
    assert_eq!(launched(plane), 1);
    set_state(plane, &agent(plane), in_state(LaunchedState::Failed));
    reconcile(plane).await;
    assert_eq!(only_run(plane).await.status.phase, RunPhase::Failed);
    answer.run
}

fn launched(plane: &Plane) -> usize {
    plane.engine.launched.lock().unwrap().len()
}

/// Declares one object of the fleet again with a change.
async fn change(plane: &Plane, kind: Kind, name: &str, pointer: &str, value: Value) {
    let known = plane.store.get(kind, "default", name).await.unwrap();
    let known = known.unwrap_or_else(|| panic!("{kind} {name}"));
    let mut changed = document(kind, name, known.spec);
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let spec = &mut changed.spec;
    let parent = if parent.is_empty() { spec } else { spec.pointer_mut(parent).unwrap() };
    parent[key] = value;
    declare(plane, &[changed]).await;
}

async fn remove(plane: &Plane, kind: Kind, name: &str) {
    let known = plane.store.get(kind, "default", name).await.unwrap().unwrap();
    let write = Write::Delete {
        kind,
        namespace: "default".to_owned(),
        name: name.to_owned(),
        version: known.metadata.resource_version,
    };
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
}

#[tokio::test]
async fn retry_follows_the_current_policy() {
    let changes: [(Kind, &str, &str, Value); 6] = [
        (Kind::Repository, "app", "/policy", json!({ "allowedStacks": ["another"] })),
        (Kind::Repository, "app", "/policy", json!({ "approvalModes": ["deny"] })),
        (Kind::Repository, "app", "/policy", json!({ "filesystem": "read-only" })),
        (Kind::Repository, "app", "/trustTier", json!("untrusted")),
        (Kind::AgentToolProfile, "tools", "/nativeTools/network", json!(true)),
        (Kind::RunnerPool, "inside", "/allowedRepositories", json!(["others/*"])),
    ];
    for (kind, name, pointer, value) in changes {
        let plane = start_plane(|object| {
            if object.kind == Kind::AgentToolProfile {
                object.spec.as_object_mut().unwrap().remove("networkPolicy");
            }
        })
        .await;
        let run = failed(&plane).await;
        change(&plane, kind, name, pointer, value.clone()).await;
        act(&plane, &run, RunVerb::Retry).await.unwrap();
        reconcile(&plane).await;
        let run = only_run(&plane).await;
        assert_eq!(run.status.phase, RunPhase::Failed, "{kind} {value}");
        assert_eq!(launched(&plane), 1, "{kind} {value}");
        let why = run.status.terminal_reason.unwrap_or_default();
        let expected =
            if kind == Kind::RunnerPool { "does not take" } else { "PermissionsChanged" };
        assert!(why.contains(expected), "{kind} {value}: {why}");
    }
    // Positive control: without a change it starts.
    let plane = start_plane(|_| {}).await;
    let run = failed(&plane).await;
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 2);
}

#[tokio::test]
async fn queued_run_does_not_start_if_its_objects_were_deleted() {
    for (kind, name) in [(Kind::AgentToolProfile, "tools"), (Kind::Repository, "app")] {
        let plane = start_plane(|_| {}).await;
        for id in ["a", "b"] {
            plane.api.dispatch(&caller("ada"), "default", request(id)).await.unwrap();
        }
        reconcile(&plane).await;
        assert_eq!(launched(&plane), 1, "the pool has a capacity of one");
        let first = agent(&plane);
        set_state(&plane, &first, in_state(LaunchedState::Failed));
        remove(&plane, kind, name).await;
        for _ in 0..6 {
            plane.advance().await;
        }
        assert_eq!(launched(&plane), 1, "{kind}");
        let runs = all::<AgentDispatchRun>(&plane).await;
        let why = |run: &Object<AgentDispatchRun>| run.status.terminal_reason.clone();
        let refused = runs.iter().filter_map(why).filter(|why| why.contains("PermissionsChanged"));
        assert_eq!(refused.count(), 1, "{kind}");
    }
}

#[tokio::test]
async fn current_limits_are_added_to_the_original_limits() {
    let limits = |plane: &Plane, index: usize| -> Vec<Value> {
        let launched = plane.engine.launched.lock().unwrap();
        let limits = serde_json::to_value(&launched[index].limits).unwrap();
        limits["limits"].as_array().unwrap().clone()
    };
    for (kind, name, pointer, value) in [
        (Kind::Repository, "app", "/policy", json!({ "deniedCommands": ["curl"] })),
        (Kind::AgentToolProfile, "tools", "/deniedCommands", json!(["curl"])),
    ] {
        let plane = start_plane(|_| {}).await;
        let run = failed(&plane).await;
        let before = all::<AgentDispatchAttempt>(&plane).await.remove(0);
        change(&plane, kind, name, pointer, value).await;
        // A conversation keeps its original policy, so it cannot be narrowed.
        act(&plane, &run, RunVerb::Continue).await.unwrap();
        reconcile(&plane).await;
        let why = only_run(&plane).await.status.terminal_reason.unwrap_or_default();
        assert!(why.contains("retry it"), "{why}");
        assert_eq!(launched(&plane), 1);
        act(&plane, &run, RunVerb::Retry).await.unwrap();
        reconcile(&plane).await;
        assert_eq!(launched(&plane), 2, "{:?}", only_run(&plane).await.status);
        let (original, current) = (limits(&plane, 0), limits(&plane, 1));
        assert!(original.iter().all(|limit| current.contains(limit)), "no limit is removed");
        let added: Vec<&Value> = current.iter().filter(|limit| !original.contains(limit)).collect();
        assert!(added.iter().any(|limit| limit.to_string().contains("curl")), "{added:?}");
        assert!(!json!(original).to_string().contains("curl"));
        let attempts = all::<AgentDispatchAttempt>(&plane).await;
        let last = attempts.iter().find(|one| one.spec.number == 3).unwrap();
        assert_ne!(last.metadata.annotations, before.metadata.annotations);
    }
}

/// For parallelism and audit level, the stricter of the original and the current value applies.
#[tokio::test]
async fn lower_parallelism_and_higher_audit_level_apply_to_a_retry() {
    let fewer = (Kind::Repository, "app", "/policy/maxParallelSubagents");
    let audit = (Kind::AgentToolProfile, "tools", "/auditLevel");
    let all = json!("full-redacted-transcript");
    for ((kind, name, pointer), value, shown, expected) in [
        (fewer, json!(1), "/parallel/repository", json!(1)),
        (fewer, json!(9), "/parallel/repository", json!(3)),
        (audit, all.clone(), "/auditLevel", all),
        (audit, json!("metadata"), "/auditLevel", json!("inputs")),
    ] {
        let plane = start_plane(|object| {
            if object.kind == Kind::AgentToolProfile {
                object.spec["auditLevel"] = json!("inputs");
            }
            if object.kind == Kind::Repository {
                object.spec["policy"] = json!({ "maxParallelSubagents": 3 });
            }
        })
        .await;
        let run = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap().run;
        reconcile(&plane).await;
        let limit = |index: usize| {
            let launched = plane.engine.launched.lock().unwrap();
            serde_json::to_value(&launched[index].limits).unwrap().pointer(shown).cloned()
        };
        let before = limit(0);
        // Changed while the agent runs, so that it does not count as a fix.
        change(&plane, kind, name, pointer, value.clone()).await;
        set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
        reconcile(&plane).await;
        if before.as_ref() != Some(&expected) {
            // A conversation keeps its original limits, so it does not continue.
            act(&plane, &run, RunVerb::Continue).await.unwrap();
            reconcile(&plane).await;
            let why = only_run(&plane).await.status.terminal_reason.unwrap_or_default();
            assert!(why.contains("retry it"), "{pointer} {value}: {why}");
            assert_eq!(launched(&plane), 1);
        }
        act(&plane, &run, RunVerb::Retry).await.unwrap();
        reconcile(&plane).await;
        assert_eq!(launched(&plane), 2, "{:?}", only_run(&plane).await.status);
        assert_eq!(limit(1), Some(expected), "{pointer} {value}");
    }
}

const KEYS: [(&str, &str); 2] = [("model", "api-key"), ("more", "more-key")];

/// A fleet whose stack needs two secrets; those in `asks` need an approval.
async fn with_secrets(with_approval: &[&str]) -> Plane {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            let refs = KEYS.map(|(name, key)| json!({ "name": name, "keys": [key] }));
            object.spec["requiredSecretRefs"] = json!(refs);
            object.spec["secretPolicy"] =
                json!({ "allowOnForks": false, "allowedSecretRefs": ["model", "more"] });
        }
    })
    .await;
    for (name, key) in KEYS {
        secret(&plane, "default", name, key, "v").await;
        let required_approval = if with_approval.contains(&name) { "always" } else { "never" };
        declare(&plane, &[grant(name, key, required_approval)]).await;
    }
    plane
}

async fn secret(plane: &Plane, namespace: &str, name: &str, key: &str, value: &str) {
    let values = BTreeMap::from([(key.to_owned(), value.as_bytes().to_vec())]);
    plane.store.set_secret(namespace, name, values, plane.world.now()).await.unwrap();
}

fn grant(name: &str, key: &str, required_approval: &str) -> AnyObject {
    document(
        Kind::AgentSecretGrant,
        name,
        json!({
            "subject": { "kind": "agent-stack", "name": "fixer" },
            "secretRef": { "name": name, "keys": [key] },
            "purpose": "model-provider-token", "allowedRepositories": ["acme/*"],
            "mountPolicy": "env", "requiredApproval": required_approval,
        }),
    )
}

async fn pending(plane: &Plane) -> Vec<Object<AgentApproval>> {
    let mut approvals = all::<AgentApproval>(plane).await;
    approvals.retain(|one| one.status.phase == ApprovalPhase::Pending);
    approvals
}

/// Approves all pending requests as this person.
async fn approve_all_as(plane: &Plane, approver: &str) -> Result<(), ActionError> {
    for approval in pending(plane).await {
        let approve = DecisionRequest {
            decision: Verdict::Approve,
            comment: String::new(),
            approved_action_subset: Vec::new(),
            expected_artifact_digest: approval.spec.artifact_digest.clone(),
        };
        let mut approver = caller(approver);
        approver.at = plane.world.now();
        plane.api.decide(&approver, &target(approval.name()), approve).await?;
    }
    Ok(())
}

async fn approve(plane: &Plane) {
    approve_all_as(plane, "bob").await.unwrap();
}

fn is_own_request(answered: &Result<(), ActionError>) -> bool {
    matches!(answered, Err(ActionError::Conflict { message, .. }) if message.contains("asked for it"))
}

/// A person cannot approve a run that they started or continued.
#[tokio::test]
async fn person_cannot_approve_a_start_that_they_requested() {
    let plane = with_secrets(&["model"]).await;
    let run = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap().run;
    let first = all::<AgentDispatchAttempt>(&plane).await.remove(0);
    assert_eq!(first.spec.requested_by.as_deref(), Some("ada"));
    let own = approve_all_as(&plane, "ada").await;
    assert!(is_own_request(&own), "{own:?}");
    approve_all_as(&plane, "bob").await.unwrap();
    for verb in [RunVerb::Retry, RunVerb::Continue] {
        reconcile(&plane).await;
        set_state(
            &plane,
            &agent(&plane),
            Launched { attempts: 9, ..in_state(LaunchedState::Failed) },
        );
        reconcile(&plane).await;
        // The approval has expired when cyd requests another attempt.
        plane.world.clock.fetch_add(25 * 3_600_000, Ordering::Relaxed);
        let more = RunVerbRequest { message: "Go on.".to_owned(), ..RunVerbRequest::default() };
        plane.api.act_on_run(&caller("cyd"), &target(&run), verb, more).await.unwrap();
        reconcile(&plane).await;
        let waiting = only_run(&plane).await;
        assert_eq!(waiting.status.phase, RunPhase::WaitingForApproval, "{:?}", waiting.status);
        for own in ["cyd", "ada"] {
            let answered = approve_all_as(&plane, own).await;
            assert!(is_own_request(&answered), "{verb:?}, {own}: {answered:?}");
        }
        approve_all_as(&plane, "bob").await.unwrap();
    }
    // The person who forks a run has requested the fork.
    let fork = RunVerbRequest::default();
    plane.api.act_on_run(&caller("bob"), &target(&run), RunVerb::Fork, fork).await.unwrap();
    let own = approve_all_as(&plane, "bob").await;
    assert!(is_own_request(&own), "{own:?}");
}

/// A run that was approved, launched and has failed.
async fn approved_and_failed(plane: &Plane) -> String {
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(plane).await;
    assert_eq!(launched(plane), 0);
    approve(plane).await;
    reconcile(plane).await;
    assert_eq!(launched(plane), 1, "{:?}", only_run(plane).await.status);
    set_state(plane, &agent(plane), in_state(LaunchedState::Failed));
    reconcile(plane).await;
    answer.run
}

/// The use of a secret by a stack is part of the approval, even if the agent does not see it.
#[tokio::test]
async fn approval_of_one_stack_is_not_valid_for_a_changed_stack() {
    let plane = with_secrets(&["model"]).await;
    let run = approved_and_failed(&plane).await;
    let known = plane.store.get(Kind::AgentStack, "default", "fixer").await.unwrap().unwrap();
    let mut changed = document(Kind::AgentStack, "fixer", known.spec);
    // This is not part of the context.
    changed.spec["scope"]["filesWhitelist"] = json!(["src/**", "docs/**"]);
    declare(&plane, &[changed]).await;
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    let attempts = all::<AgentDispatchAttempt>(&plane).await;
    let reasons: Vec<_> = attempts.iter().map(|attempt| attempt.spec.attempt_reason).collect();
    assert!(reasons.contains(&AttemptReason::RerunAfterFix), "{reasons:?}");
    assert_eq!(launched(&plane), 1, "the changed stack needs an approval");
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::WaitingForApproval);
    approve(&plane).await;
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 2);
}

#[tokio::test]
async fn approval_of_one_secret_is_not_valid_for_another() {
    let plane = with_secrets(&["model"]).await;
    let run = approved_and_failed(&plane).await;
    // The same run needs no new approval.
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 2);
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    declare(&plane, &[grant("more", "more-key", "always")]).await;
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 2, "the other secret needs an approval");
    let waiting = only_run(&plane).await;
    assert_eq!(waiting.status.phase, RunPhase::WaitingForApproval);
    let approvals = pending(&plane).await;
    assert_eq!(approvals.len(), 1);
    let summary = &approvals[0].spec.action.summary;
    assert!(summary.contains("Secret/more/more-key"), "{summary}");
    assert!(
        !summary.contains("Secret/model"),
        "an approved secret is not requested again: {summary}"
    );
    assert!(waiting.status.approvals.contains(&approvals[0].name().to_owned()));
    approve(&plane).await;
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 3);
}

#[tokio::test]
async fn approval_is_valid_until_it_expires() {
    let plane = with_secrets(&["model"]).await;
    let run = approved_and_failed(&plane).await;
    plane.world.clock.fetch_add(25 * 3_600_000, Ordering::Relaxed);
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 1);
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::WaitingForApproval);
    approve(&plane).await;
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 2);
}

#[tokio::test]
async fn approval_that_expired_in_the_queue_is_requested_again() {
    let plane = with_secrets(&["model"]).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    change(&plane, Kind::RunnerPool, "inside", "/paused", json!(true)).await;
    approve(&plane).await;
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Queued);
    plane.world.clock.fetch_add(25 * 3_600_000, Ordering::Relaxed);
    change(&plane, Kind::RunnerPool, "inside", "/paused", json!(false)).await;
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 0);
    let approvals = pending(&plane).await;
    assert_eq!(approvals.len(), 1, "with another name than the first request");
    approve(&plane).await;
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 1);
}

#[tokio::test]
async fn new_secret_value_changes_the_permission_snapshot_of_a_retry() {
    let plane = with_secrets(&[]).await;
    let run = failed(&plane).await;
    let before = only_run(&plane).await.status.permission_snapshot_digest;
    secret(&plane, "default", "model", "api-key", "another").await;
    act(&plane, &run, RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 2);
    let after = only_run(&plane).await.status.permission_snapshot_digest;
    assert_ne!(before, after);
    let attempts = all::<AgentDispatchAttempt>(&plane).await;
    let digest_of = |number| {
        let attempt = attempts.iter().find(|one| one.spec.number == number).unwrap();
        Some(attempt.spec.permission_snapshot_digest.clone())
    };
    assert_eq!((digest_of(1), digest_of(2)), (before, after));
    let environment = plane.engine.launched.lock().unwrap()[1].environment.clone();
    assert!(environment.contains(&("API_KEY".to_owned(), "another".to_owned())), "{environment:?}");
}

/// A secret that was reviewed in one namespace is not read from another.
#[tokio::test]
async fn secret_is_read_from_the_reviewed_namespace() {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["requiredSecretRefs"] =
                json!([{ "name": "model", "namespace": "vault", "keys": ["api-key"] }]);
            object.spec["secretPolicy"] =
                json!({ "allowOnForks": false, "allowedSecretRefs": ["model"] });
        }
    })
    .await;
    secret(&plane, "default", "model", "api-key", "nobody looked at this").await;
    secret(&plane, "vault", "model", "api-key", "that of the vault").await;
    let mut grant = grant("model", "api-key", "never");
    grant.spec["secretRef"]["namespace"] = json!("vault");
    declare(&plane, &[grant]).await;
    let mut dispatch_request = request("r");
    dispatch_request.task = "Say that of the vault.".to_owned();
    plane.api.dispatch(&caller("ada"), "default", dispatch_request).await.unwrap();
    reconcile(&plane).await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    assert_eq!(launch.environment, [("API_KEY".to_owned(), "that of the vault".to_owned())]);
    assert!(!launch.context.contains("that of the vault"), "the value is removed from every text");
}

/// A retry waits for its group like any other attempt.
#[tokio::test]
async fn retry_waits_while_its_group_is_full() {
    let plane = start_plane(|object| {
        if object.kind == Kind::RunnerPool {
            object.spec["capacity"] = json!(5);
        }
    })
    .await;
    let rule = document(
        Kind::AgentTriggerRule,
        "one-at-a-time",
        json!({
            "lifecycleState": "draft", "sources": ["manual"], "agentStack": "fixer",
            "taskKind": "tend", "promptTemplate": "Tend it.",
            "concurrencyPolicy": { "mode": "queue", "maxActive": 1 },
        }),
    );
    declare(&plane, &[rule]).await;
    for id in ["a", "b"] {
        plane.api.dispatch(&caller("ada"), "default", request(id)).await.unwrap();
    }
    for mut run in all::<AgentDispatchRun>(&plane).await {
        run.spec.trigger_rule = Some("one-at-a-time".to_owned());
        run.spec.concurrency_group = Some("g".to_owned());
        let write = Write::Replace(AnyObject::of(&run).unwrap());
        plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    }
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 1, "one run of the group");
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 2);
    let runs = all::<AgentDispatchRun>(&plane).await;
    let failed_run = runs.iter().find(|run| run.status.phase == RunPhase::Failed).unwrap();
    act(&plane, failed_run.name(), RunVerb::Retry).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 2, "the other run is active");
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    assert_eq!(launched(&plane), 3);
}

fn binding(rules: Value, policy: &str) -> AnyObject {
    document(
        Kind::AgentRoleBinding,
        "reads",
        json!({
            "subject": { "kind": "agent-stack", "name": "fixer" },
            "scope": { "kind": "namespace", "name": "default" },
            "roleRef": { "kind": "RoleTemplate", "name": "agent-readonly" },
            "resourceRules": rules, "escalationPolicy": policy,
        }),
    )
}

async fn native_bindings(plane: &Plane) -> Vec<Object<RoleBinding>> {
    let summary = plane.reconcile_statuses().await;
    assert_eq!(summary.errors, []);
    all::<RoleBinding>(plane).await
}

async fn count_audit_entries(plane: &Plane, event: &str) -> usize {
    let audit = plane.store.audit(0, 10_000).await.unwrap();
    audit.iter().filter(|(_, line)| line.event == event).count()
}

#[tokio::test]
async fn escalating_binding_is_not_created_on_the_platform() {
    let plane = start_plane(|_| {}).await;
    let secrets = json!([{ "resources": ["secrets"], "verbs": ["get"] }]);
    for policy in ["deny", "require-admin-approval"] {
        declare(&plane, &[binding(secrets.clone(), policy)]).await;
        assert!(native_bindings(&plane).await.is_empty(), "{policy}");
    }
    declare(&plane, &[binding(json!([]), "deny")]).await;
    assert_eq!(native_bindings(&plane).await.len(), 1);
    // A native binding that escalates after a change is deleted.
    declare(&plane, &[binding(secrets, "deny")]).await;
    assert!(native_bindings(&plane).await.is_empty());
    assert!(!binding(json!([]), "allow-if-owner").check().unwrap().is_empty());
}

#[tokio::test]
async fn own_native_binding_follows_and_a_foreign_change_is_drift() {
    let plane = start_plane(|_| {}).await;
    declare(&plane, &[binding(json!([]), "deny")]).await;
    let created = native_bindings(&plane).await.remove(0);
    assert_eq!(created.metadata.annotations[MADE_FOR], "AgentRoleBinding/default/reads");
    assert_eq!(
        native_bindings(&plane).await[0].metadata.resource_version,
        created.metadata.resource_version
    );
    // Our binding was edited: the native binding follows.
    let mut edited = binding(json!([]), "deny");
    edited.spec["roleRef"]["name"] = json!("agent-ci-diagnoser");
    declare(&plane, &[edited]).await;
    let mut native = native_bindings(&plane).await.remove(0);
    assert_eq!(native.spec.role_ref.name, "agent-ci-diagnoser");
    assert_eq!(count_audit_entries(&plane, "NativeRbacDriftDetected").await, 0);
    // Another person edits the native binding: the edit is kept, and reported once.
    native.spec.role_ref.name = "secret-grant-admin".to_owned();
    let write = Write::Replace(AnyObject::of(&native).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    for _ in 0..3 {
        let found = native_bindings(&plane).await.remove(0);
        assert_eq!(found.spec.role_ref.name, "secret-grant-admin");
        assert!(found.metadata.annotations.contains_key(DRIFTED));
    }
    assert_eq!(count_audit_entries(&plane, "NativeRbacDriftDetected").await, 1);
    // When its origin is deleted, our native binding is deleted; a foreign one is kept.
    remove(&plane, Kind::AgentRoleBinding, "reads").await;
    let own = json!({ "roleRef": { "kind": "Role", "name": "x" }, "subjects": [] });
    let stranger = Write::Create(document(Kind::RoleBinding, "theirs", own));
    plane.store.commit(vec![stranger], plane.world.now()).await.unwrap();
    let remaining: Vec<String> =
        native_bindings(&plane).await.iter().map(|one| one.name().to_owned()).collect();
    assert_eq!(remaining, ["theirs"]);
    remove(&plane, Kind::AgentServiceAccount, "fixer").await;
    native_bindings(&plane).await;
    let accounts = all::<ServiceAccount>(&plane).await;
    let accounts: Vec<&str> = accounts.iter().map(Object::name).collect();
    assert_eq!(accounts, ["runner"]);
    let mut two = fleet(|_| {});
    two.retain(|object| object.kind == Kind::AgentServiceAccount);
    assert_eq!(two.len(), 2, "the other account is kept because it is still declared");
}
