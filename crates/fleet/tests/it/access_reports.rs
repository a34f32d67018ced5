//! Reports of the operator of a cluster: behind its fence, and only by the one who has written it.

use bailiwick_fleet::ports::{FleetError, FleetStore as _, MemoryFleet, Requirement, Target};
use bailiwick_fleet::resources::{AccessError, AccessRequest, AuditActor, apply, record_access};
use bailiwick_resources::{
    API_VERSION, AccessAnswer, AccessReport, AgentRoleBinding, AnyObject, Kind, Metadata, Moment,
    OPERATOR_FENCE,
};
use serde_json::{Value, json};

fn document(kind: Kind, name: &str, spec: Value) -> AnyObject {
    let metadata = Metadata::named(name);
    AnyObject { api_version: API_VERSION.to_owned(), kind, metadata, spec, status: Value::Null }
}

fn moment() -> Moment {
    Moment::from_millis(1_794_000_000_000)
}

async fn lead(fleet: &MemoryFleet, actor: &str, epoch: &str) -> Requirement {
    let fence = document(Kind::ConfigMap, OPERATOR_FENCE, json!({ "data": { "epoch": epoch } }));
    let applied = apply(fleet, &[fence], actor, moment(), false).await.unwrap();
    Requirement {
        kind: Kind::ConfigMap,
        namespace: "default".to_owned(),
        name: OPERATOR_FENCE.to_owned(),
        resource_version: applied[0].object.metadata.resource_version,
    }
}

#[tokio::test]
async fn report_is_recorded_only_by_the_leader_at_its_fence() {
    let fleet = MemoryFleet::default();
    let spec = json!({
        "subject": { "kind": "service-account", "name": "fixer" },
        "scope": { "kind": "namespace", "name": "default" },
        "roleRef": { "kind": "Role", "name": "reader" },
    });
    let binding = document(Kind::AgentRoleBinding, "logs", spec);
    apply(&fleet, &[binding], "ada", moment(), false).await.unwrap();
    let target = |name: &str| Target { namespace: "default".to_owned(), name: name.to_owned() };
    let report = AccessReport {
        answer: AccessAnswer::Allowed,
        spec_digest: "d".to_owned(),
        account: None,
        missing: Vec::new(),
        remedy: String::new(),
        detail: String::new(),
    };
    let record = async |name: &str, fence: &Requirement, actor: &str| {
        let request = AccessRequest { report: report.clone(), fence: fence.clone() };
        let by = AuditActor::person(actor);
        record_access(&fleet, &target(name), request, &by, moment()).await
    };
    let fence = lead(&fleet, "operator", "1").await;
    assert_eq!(record("logs", &fence, "ada").await, Err(AccessError::NotTheLeader));
    let other = Requirement { name: "logs".to_owned(), ..fence.clone() };
    assert_eq!(record("logs", &other, "operator").await, Err(AccessError::NotTheFence));
    let missing = record("none", &fence, "operator").await;
    assert!(matches!(missing, Err(AccessError::Store(FleetError::NotFound { .. }))), "{missing:?}");
    let recorded = record("logs", &fence, "operator").await.unwrap();
    let recorded = recorded.typed::<AgentRoleBinding>().unwrap().status.access.unwrap();
    assert_eq!((recorded.report, recorded.at), (report.clone(), moment()));
    // Another operator takes over: the first one records nothing more, and nor does its old fence.
    let newer = lead(&fleet, "another-operator", "2").await;
    let deposed = record("logs", &fence, "operator").await;
    assert!(matches!(deposed, Err(AccessError::Store(FleetError::Conflict { .. }))), "{deposed:?}");
    assert_eq!(record("logs", &newer, "operator").await, Err(AccessError::NotTheLeader));
    record("logs", &newer, "another-operator").await.unwrap();
    // A changed binding keeps the report of what it was, which does not count for it.
    let stored = fleet.get(Kind::AgentRoleBinding, "default", "logs").await.unwrap().unwrap();
    assert_ne!(
        stored.status["access"]["report"]["specDigest"],
        json!(stored.spec_digest().to_string())
    );
}
