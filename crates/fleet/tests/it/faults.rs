//! The 22 faults of the public attempt: the tests for each of them, and those that need the whole control plane.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bailiwick_fleet::controllers::ControlPlane;
use bailiwick_fleet::ports::{
    ActionError, DecisionRequest, Fleet as _, FleetStore as _, Launched, LaunchedState, Target,
    Verdict, World as _,
};
use bailiwick_fleet::resources::apply;
use bailiwick_resources::{
    AgentApproval, AgentContextBundle, AgentDispatchAttempt, AgentDispatchRun,
    AgentTriggerExecution, AnyObject, ForgeKind, Kind, RunPhase, WebhookDelivery,
};
use serde_json::{Value, json};

use crate::dispatch::{SHA, ScriptedEngine, caller, document, in_state, request, work};
use crate::plane::{SetPlane, all, declare, deliver, only, reconcile, start_plane};

/// Each fault with its tests: the file, and the name of the function.
const FAULTS: &str = "
1 | admission/faults.rs | fault_01_grant_that_requires_approval_launches_nothing
2 | dispatch.rs | repeated_request_starts_one_run
3 | admission/faults.rs | fault_03_labels_are_injected_and_the_bundle_names_its_run
4 | admission/faults.rs | fault_04_documented_subject_and_purpose_are_granted
5 | admission/faults.rs | fault_05_approval_never_and_allowed_sources_and_refs_take_effect
6 | admission/faults.rs | fault_06_roles_and_policy_are_evaluated
6 | conditions.rs | reconciler_writes_every_condition_of_the_contract_once
7 | triggers/lifecycle.rs | only_an_active_rule_dispatches_and_other_rules_leave_a_record
7 | triggers/plan.rs | whole_match_block_is_read
7 | dispatch.rs | schedule_fires_once_for_each_time_and_not_while_it_is_paused
8 | triggers/dedupe.rs | new_commit_is_never_a_duplicate_for_any_key
8 | triggers/dedupe.rs | only_events_with_a_run_make_duplicates
9 | bundle/assembly.rs | fault_09_token_across_the_limit_does_not_leak
9 | bundle/redaction.rs | fault_09_shas_paths_and_prose_are_kept
10 | triggers/plan.rs | events_of_the_same_millisecond_have_distinct_runs
11 | faults.rs | fault_11_all_objects_are_stored_and_the_next_control_plane_continues
12 | admission/faults.rs | fault_12_no_declared_field_is_dropped
13 | admission/faults.rs | fault_13_fork_does_not_bypass_an_approval
13 | faults.rs | fault_13_fork_is_not_launched_where_an_approval_is_needed
14 | admission/faults.rs | fault_14_skills_servers_tools_context_and_labels_reach_the_task
14 | faults.rs | fault_14_parts_of_a_stack_reach_the_engine
15 | faults.rs | fault_15_nothing_is_pushed_without_approval_and_no_credential_leaks
16 | faults.rs | fault_16_only_the_engine_sets_the_result_of_a_run
17 | faults.rs | fault_17_trigger_is_stored_and_an_approval_resumes_its_run
18 | dispatch.rs | work_is_written_only_after_approval_of_exactly_this_work
19 | dispatch.rs | cancelled_run_ends_its_agent_and_a_retry_has_the_same_launch
20 | triggers/signature.rs | missing_signature_is_refused
20 | ../../../server/tests/it/webhooks.rs | unsigned_webhooks_are_not_stored
21 | admission/faults.rs | fault_21_grant_cannot_contain_a_value
22 | conditions.rs | reconciler_writes_every_condition_of_the_contract_once
22 | ../../../cli/tests/it/conformance/fleet.rs | failed_check_is_fixed_approved_and_written_back_once
";

macro_rules! sources {
    ($($file:literal),* $(,)?) => { &[$(($file, include_str!($file))),*] };
}

/// The sources of the tests.
const SOURCES: &[(&str, &str)] = sources![
    "admission/faults.rs",
    "bundle/assembly.rs",
    "bundle/redaction.rs",
    "conditions.rs",
    "dispatch.rs",
    "faults.rs",
    "triggers/dedupe.rs",
    "triggers/lifecycle.rs",
    "triggers/plan.rs",
    "triggers/signature.rs",
    "../../../cli/tests/it/conformance/fleet.rs",
    "../../../server/tests/it/webhooks.rs",
];

#[test]
fn every_fault_of_the_public_attempt_has_a_test() {
    let mut seen = std::collections::BTreeSet::new();
    for row in FAULTS.trim().lines() {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let [number, file, test] = columns[..] else { panic!("{row}") };
        let source = SOURCES.iter().find(|(name, _)| *name == file);
        let (_, text) = source.unwrap_or_else(|| panic!("{file} is not a source of tests"));
        assert!(text.contains(&format!("fn {test}(")), "{file} has no test {test}");
        seen.insert(number.parse::<u32>().unwrap());
    }
    assert!(seen.into_iter().eq(1..=22));
}

fn check_failed(sha: &str) -> Value {
    json!({
        "action": "completed", "repository": { "full_name": "acme/app" },
        "sender": { "login": "ada" },
        "workflow_run": {
            "id": 9, "name": "ci", "head_branch": "main", "head_sha": sha,
            "conclusion": "failure", "head_repository": { "full_name": "acme/app" },
        },
    })
}

fn failed_check_rule() -> AnyObject {
    document(
        Kind::AgentTriggerRule,
        "broken",
        json!({
            "lifecycleState": "active", "sources": ["ci"], "agentStack": "fixer",
            "match": { "conclusion": ["failure"] },
            "taskKind": "repair", "promptTemplate": "Mend it.",
            "dedupePolicy": { "key": "{{ event.sha }}", "window": "1h" },
        }),
    )
}

/// A stack whose identity needs a secret that is granted only with an approval.
async fn plane_with_approval() -> SetPlane {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["requiredSecretRefs"] = json!([{ "name": "model", "keys": ["api-key"] }]);
            object.spec["secretPolicy"] =
                json!({ "allowOnForks": false, "allowedSecretRefs": ["model"] });
        }
    })
    .await;
    let grant = document(
        Kind::AgentSecretGrant,
        "fixer-model",
        json!({
            "subject": { "kind": "agent-stack", "name": "fixer" },
            "secretRef": { "name": "model", "keys": ["api-key"] },
            "purpose": "model-provider-token", "allowedRepositories": ["acme/*"],
            "requiredApproval": "always", "mountPolicy": "never-mount-pass-by-reference",
        }),
    );
    declare(&plane, &[grant, failed_check_rule()]).await;
    let values = [("api-key".to_owned(), b"the-value-itself".to_vec())].into();
    plane.store.set_secret("default", "model", values, plane.world.now()).await.unwrap();
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    plane
}

#[tokio::test]
async fn fault_11_all_objects_are_stored_and_the_next_control_plane_continues() {
    let plane = start_plane(|_| {}).await;
    declare(&plane, &[failed_check_rule()]).await;
    deliver(&plane, ForgeKind::Github, "workflow_run", &check_failed(SHA)).await;
    plane.advance().await;
    let delivery = only::<WebhookDelivery>(&plane).await;
    let execution = only::<AgentTriggerExecution>(&plane).await;
    let run = only::<AgentDispatchRun>(&plane).await;
    let attempt = only::<AgentDispatchAttempt>(&plane).await;
    let bundle = only::<AgentContextBundle>(&plane).await;
    assert!(delivery.status.evaluated);
    assert_eq!(delivery.status.executions, [execution.name()]);
    assert_eq!(execution.spec.dispatch_run.as_deref(), Some(run.name()));
    assert_eq!(run.status.attempts, [attempt.name()]);
    assert_eq!(run.spec.context_bundle_ref.as_deref(), Some(bundle.name()));
    for part in &bundle.spec.sources {
        assert!(plane.store.blob(&part.digest).await.unwrap().is_some(), "{part:?}");
    }
    // Another control plane on the same store continues, and the repeated delivery changes nothing.
    let (store, world) = (Arc::clone(&plane.store), Arc::clone(&plane.world));
    let next = ControlPlane::new(store, Arc::new(ScriptedEngine::default()), world);
    deliver(&next, ForgeKind::Github, "workflow_run", &check_failed(SHA)).await;
    reconcile(&next).await;
    let state = only::<AgentDispatchRun>(&next).await;
    assert_eq!((state.name(), state.status.phase), (run.name(), RunPhase::Running));
    assert_eq!(next.engine.launched.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn fault_13_fork_is_not_launched_where_an_approval_is_needed() {
    let plane = plane_with_approval().await;
    // A commit of the repository itself: an approval is requested, and nothing is launched.
    plane.api.dispatch(&caller("ada"), "default", request("ours")).await.unwrap();
    reconcile(&plane).await;
    let run = only::<AgentDispatchRun>(&plane).await;
    assert_eq!(run.status.phase, RunPhase::WaitingForApproval);
    // A commit of another repository: denied without an approval request.
    let mut dispatch_request = request("theirs");
    dispatch_request.sha = Some("2".repeat(40));
    let refused = plane.api.dispatch(&caller("ada"), "default", dispatch_request).await;
    let Err(ActionError::Denied { reasons, .. }) = refused else { panic!("{refused:?}") };
    assert!(reasons.iter().any(|why| why.code == "PrivilegedSecretsOnFork"), "{reasons:?}");
    reconcile(&plane).await;
    assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), 1);
    assert!(plane.engine.launched.lock().unwrap().is_empty());
}

#[tokio::test]
async fn fault_14_parts_of_a_stack_reach_the_engine() {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["prompt"] =
                json!({ "system": "SYSTEM-WORDS", "developer": "DEVELOPER-WORDS", "task": "" });
            object.spec["contextLabelRefs"] = json!([{ "name": "careful" }]);
        }
        if object.kind == Kind::AgentToolProfile {
            object.spec["deniedCommands"] = json!(["curl"]);
        }
    });
    let label = document(
        Kind::AgentContextLabel,
        "careful",
        json!({ "promptFragment": "LABEL-WORDS", "allowedSources": ["manual"] }),
    );
    let plane = {
        // The label must exist before its stack is reconciled.
        let plane = plane.await;
        declare(&plane, &[label]).await;
        assert_eq!(plane.reconcile_statuses().await.errors, []);
        plane
    };
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let launch = plane.engine.launched.lock().unwrap().first().cloned().unwrap();
    for text in ["SYSTEM-WORDS", "DEVELOPER-WORDS", "LABEL-WORDS", "Mend it."] {
        assert!(launch.context.contains(text), "{text}: {}", launch.context);
    }
    assert!(format!("{:?}", launch.limits).contains("curl"), "{:?}", launch.limits);
    assert!(launch.task.contains("src/**"), "{}", launch.task);
}

#[tokio::test]
async fn fault_15_nothing_is_pushed_without_approval_and_no_credential_leaks() {
    let plane = start_plane(|object| {
        if object.kind == Kind::Repository {
            object.spec["credentialRef"] = json!({ "name": "forge", "key": "token" });
        }
    })
    .await;
    let values = [("token".to_owned(), b"the-admin-s-own-token".to_vec())].into();
    plane.store.set_secret("default", "forge", values, plane.world.now()).await.unwrap();
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let launch = plane.engine.launched.lock().unwrap().first().cloned().unwrap();
    assert_eq!(launch.environment, []);
    assert!(!format!("{launch:?}").contains("the-admin-s-own-token"));
    let done = Launched { work: Some(work()), ..in_state(LaunchedState::Verified) };
    plane.engine.states.lock().unwrap().insert(launch.agent, done);
    reconcile(&plane).await;
    assert_eq!(only::<AgentDispatchRun>(&plane).await.status.phase, RunPhase::WaitingForApproval);
    assert_eq!(plane.world.forge.requests.load(Ordering::Relaxed), 0);
    answer(&plane).await;
    reconcile(&plane).await;
    assert_eq!(plane.world.forge.requests.load(Ordering::Relaxed), 1, "a person approved it");
}

async fn answer(plane: &SetPlane) {
    let approval = all::<AgentApproval>(plane).await.remove(0);
    let target = Target { namespace: "default".to_owned(), name: approval.name().to_owned() };
    let approve = DecisionRequest {
        decision: Verdict::Approve,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: approval.spec.artifact_digest.clone(),
    };
    plane.api.decide(&caller("bob"), &target, approve).await.unwrap();
}

#[tokio::test]
async fn fault_16_only_the_engine_sets_the_result_of_a_run() {
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let run = only::<AgentDispatchRun>(&plane).await;
    // A caller that writes the status of a run by name is refused, and nothing changes.
    let mut claimed = AnyObject::of(&run).unwrap();
    claimed.status["phase"] = json!("succeeded");
    for kind in [Kind::AgentDispatchRun, Kind::AgentDispatchAttempt, Kind::AgentArtifact] {
        let mut document = claimed.clone();
        document.kind = kind;
        let (store, documents) = (plane.store.as_ref(), [document]);
        let result = apply(store, &documents, "mallory", plane.world.now(), false);
        assert!(result.await.is_err(), "{kind}");
    }
    reconcile(&plane).await;
    assert_eq!(only::<AgentDispatchRun>(&plane).await.status.phase, RunPhase::Running);
    // The state from the engine counts.
    let agent = plane.engine.launched.lock().unwrap().first().unwrap().agent.clone();
    let ended = in_state(LaunchedState::Failed);
    plane.engine.states.lock().unwrap().insert(agent, ended);
    reconcile(&plane).await;
    assert_eq!(only::<AgentDispatchRun>(&plane).await.status.phase, RunPhase::Failed);
}

#[tokio::test]
async fn fault_17_trigger_is_stored_and_an_approval_resumes_its_run() {
    let plane = plane_with_approval().await;
    deliver(&plane, ForgeKind::Github, "workflow_run", &check_failed(SHA)).await;
    reconcile(&plane).await;
    let run = only::<AgentDispatchRun>(&plane).await;
    let execution = only::<AgentTriggerExecution>(&plane).await;
    assert_eq!(execution.spec.dispatch_run.as_deref(), Some(run.name()));
    assert_eq!(run.status.phase, RunPhase::WaitingForApproval);
    let approval = only::<AgentApproval>(&plane).await;
    assert_eq!(approval.spec.dispatch_run, run.name());
    assert!(plane.engine.launched.lock().unwrap().is_empty());
    answer(&plane).await;
    reconcile(&plane).await;
    assert_eq!(only::<AgentDispatchRun>(&plane).await.status.phase, RunPhase::Running);
    let launch = plane.engine.launched.lock().unwrap().first().cloned().unwrap();
    let expected = ("API_KEY".to_owned(), "the-value-itself".to_owned());
    assert_eq!(launch.environment, [expected]);
    assert!(!launch.task.contains("the-value-itself") && !launch.task.contains("API_KEY"));
}
