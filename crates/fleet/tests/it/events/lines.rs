//! The audit log and the counters of rules: entries name their objects, and counters are correct.

use bailiwick_fleet::ports::{
    AuditEntry, Fleet as _, FleetStore as _, RuleSample, RunVerb, RunVerbRequest, Target,
    World as _, Write,
};
use bailiwick_resources::{AgentDispatchRun, AgentTriggerRule, ExecutionDecision, Kind};
use serde_json::json;

use super::{
    Plane, advance_clock, all, caller, declare_rule, document, executions, get_object,
    receive_push, reconcile, sha, start_plane,
};

async fn lines(plane: &Plane, event: &str) -> Vec<AuditEntry> {
    let all = plane.store.audit(0, 1_000).await.unwrap();
    all.into_iter().map(|(_, line)| line).filter(|line| line.event == event).collect()
}

fn target(name: &str) -> Target {
    Target { namespace: "default".to_owned(), name: name.to_owned() }
}

#[tokio::test]
async fn audit_entry_names_its_delivery_rule_run_and_digests() {
    let plane = start_plane().await;
    declare_rule(&plane, "mend", |_| {}).await;
    let delivery = receive_push(&plane, "a", "main", &sha('a')).await;
    reconcile(&plane).await;
    let run = all::<AgentDispatchRun>(&plane).await.remove(0);
    for event in
        ["AgentTriggerEvaluated", "AgentDispatchQueued", "AgentDispatchPermissionSnapshotCreated"]
    {
        let found = lines(&plane, event).await;
        let [line] = found.as_slice() else { panic!("{event}: {found:?}") };
        let correlation_of = |name: &str| line.correlation.get(name).map(String::as_str);
        assert_eq!(correlation_of("run"), Some(run.name()), "{event}");
        assert_eq!(correlation_of("delivery"), Some(delivery.as_str()), "{event}");
        assert_eq!(correlation_of("rule"), Some("mend"), "{event}");
        let digest = run.status.context_bundle_digest.as_deref();
        assert_eq!(correlation_of("contextBundleDigest"), digest, "{event}");
    }
    let cancel = RunVerbRequest::default();
    let name = target(run.name());
    plane.api.act_on_run(&caller("ada"), &name, RunVerb::Cancel, cancel).await.unwrap();
    reconcile(&plane).await;
    let ended = lines(&plane, "AgentDispatchCancelled").await;
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].correlation.get("run").map(String::as_str), Some(run.name()));
    assert_eq!(lines(&plane, "AgentDispatchFailed").await, []);
}

#[tokio::test]
async fn summary_counts_work_items_separately_and_a_refusal_is_no_trigger() {
    let plane = start_plane().await;
    declare_rule(&plane, "mend", |spec| {
        spec["lifecycleState"] = json!("paused");
        spec["workItem"] = json!("create");
    })
    .await;
    receive_push(&plane, "a", "main", &sha('a')).await;
    reconcile(&plane).await;
    let paused = get_object::<AgentTriggerRule>(&plane, "mend").await.status;
    assert_eq!((paused.execution_summary.rejected, paused.last_triggered_at), (1, None));
    let delivery = bailiwick_fleet::triggers::delivery_name("acme/app", "a");
    let sample = RuleSample { delivery: Some(delivery), ..RuleSample::default() };
    plane.api.materialize(&caller("ada"), &target("mend"), sample).await.unwrap();
    let status = get_object::<AgentTriggerRule>(&plane, "mend").await.status;
    let counted = (status.execution_summary.created, status.execution_summary.materialized);
    assert_eq!(counted, (0, 1));
    assert!(status.last_triggered_at.is_some());
}

#[tokio::test]
async fn rule_with_a_constant_key_starts_nothing() {
    let plane = start_plane().await;
    declare_rule(&plane, "constant", |spec| {
        spec["dedupePolicy"] = json!({ "key": "always", "window": "1h" });
    })
    .await;
    declare_rule(&plane, "keyed", |spec| {
        spec["dedupePolicy"] = json!({ "key": "{{ event.branch }}", "window": "1h" });
    })
    .await;
    receive_push(&plane, "a", "main", &sha('a')).await;
    reconcile(&plane).await;
    let refused = executions(&plane, "constant").await;
    assert_eq!(refused[0].decision, ExecutionDecision::Rejected);
    assert!(refused[0].reason.starts_with("UnboundedDedupeKey: "), "{}", refused[0].reason);
    assert_eq!(executions(&plane, "keyed").await[0].decision, ExecutionDecision::Created);
}

#[tokio::test]
async fn approval_that_expires_has_an_audit_entry() {
    let plane = start_plane().await;
    let spec = json!({
        "dispatchRun": "adr-1", "attempt": "ada-1-1",
        "requestedBy": { "kind": "agent-stack", "name": "fixer" },
        "action": { "type": { "class": "secret-access" }, "target": "x" },
        "artifactDigest": "d", "expiresAt": "2026-11-07T00:00:00Z",
    });
    let mut approval = document(Kind::AgentApproval, "aap-1", spec);
    approval.status = json!({ "phase": "pending" });
    plane.store.commit(vec![Write::Create(approval)], plane.world.now()).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(lines(&plane, "AgentApprovalExpired").await, [], "it has not expired yet");
    advance_clock(&plane, 24 * 3_600_000);
    reconcile(&plane).await;
    let found = lines(&plane, "AgentApprovalExpired").await;
    let [line] = found.as_slice() else { panic!("{found:?}") };
    let correlation_of = |name: &str| line.correlation.get(name).map(String::as_str);
    assert_eq!(
        (correlation_of("run"), correlation_of("attempt")),
        (Some("adr-1"), Some("ada-1-1"))
    );
}
