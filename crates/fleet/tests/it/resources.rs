//! Declaring resources: all documents or none, and only what people may write.

use bailiwick_fleet::admission::ownership::APPLIED_BY;
use bailiwick_fleet::ports::{FleetError, FleetStore as _, MemoryFleet, Requirement, Selection};
use bailiwick_fleet::resources::{
    AuditActor, DeclareError, Deletion, Outcome, TEXT_BY, apply, apply_requiring, delete,
    delete_requiring,
};
use bailiwick_resources::{API_VERSION, AnyObject, Kind, Metadata, Moment};
use serde_json::{Value, json};

fn document(kind: Kind, name: &str, spec: Value) -> AnyObject {
    let (api_version, metadata) = (API_VERSION.to_owned(), Metadata::named(name));
    AnyObject { api_version, kind, metadata, spec, status: Value::Null }
}

fn pool(name: &str, capacity: u32) -> AnyObject {
    let spec = json!({
        "capacity": capacity, "trustTier": "trusted", "serviceAccountRef": "runner",
    });
    document(Kind::RunnerPool, name, spec)
}

const NOW: u64 = 1_794_000_000_000;

async fn declare(
    fleet: &MemoryFleet,
    documents: &[AnyObject],
) -> Result<Vec<Outcome>, DeclareError> {
    let applied = apply(fleet, documents, "ada", Moment::from_millis(NOW), false).await?;
    Ok(applied.into_iter().map(|one| one.outcome).collect())
}

#[tokio::test]
async fn document_is_created_then_unchanged_then_configured() {
    let fleet = MemoryFleet::default();
    assert_eq!(declare(&fleet, &[pool("a", 2)]).await, Ok(vec![Outcome::Created]));
    assert_eq!(declare(&fleet, &[pool("a", 2)]).await, Ok(vec![Outcome::Unchanged]));
    // A default value that is written out is the same as a missing one.
    let mut with_default = pool("a", 2);
    with_default.spec["paused"] = json!(false);
    assert_eq!(declare(&fleet, &[with_default]).await, Ok(vec![Outcome::Unchanged]));
    assert_eq!(declare(&fleet, &[pool("a", 3)]).await, Ok(vec![Outcome::Configured]));
    let stored = fleet.get(Kind::RunnerPool, "default", "a").await.unwrap().unwrap();
    assert_eq!(stored.metadata.generation, 2);
    let events: Vec<String> =
        fleet.audit(0, 10).await.unwrap().into_iter().map(|(_, entry)| entry.event).collect();
    assert_eq!(events, ["RunnerPoolCreated", "RunnerPoolReplaced"]);
}

#[tokio::test]
async fn document_in_an_unwatched_namespace_is_refused() {
    let fleet = MemoryFleet::default();
    let mut elsewhere = pool("a", 2);
    elsewhere.metadata.namespace = "team-a".to_owned();
    let refused = declare(&fleet, &[elsewhere]).await.unwrap_err().to_string();
    assert!(refused.contains("metadata.namespace") && refused.contains("`team-a`"), "{refused}");
    // Objects that grants name with a namespace can be in any namespace.
    let mut values = document(Kind::ConfigMap, "settings", json!({ "data": { "k": "v" } }));
    values.metadata.namespace = "team-a".to_owned();
    assert_eq!(declare(&fleet, &[values]).await, Ok(vec![Outcome::Created]));
}

#[tokio::test]
async fn one_invalid_document_stops_all() {
    let fleet = MemoryFleet::default();
    let bad = [
        pool("b", 0),
        document(Kind::RunnerPool, "c", json!({"capacity": 1})),
        document(Kind::RunnerPool, "Not A Name", pool("x", 1).spec),
        document(Kind::AgentDispatchRun, "adr-1", json!({})),
        document(Kind::Secret, "s", json!({"keys": {}})),
        AnyObject { api_version: "v1".to_owned(), ..pool("d", 1) },
        {
            let mut unknown = pool("e", 1);
            unknown.spec["capcity"] = json!(1);
            unknown
        },
        pool("a", 5),
    ];
    for bad in bad {
        let refused = declare(&fleet, &[pool("a", 2), bad.clone()]).await;
        assert!(refused.is_err(), "{bad:?}");
        let stored = fleet.list(&Selection::of(Kind::RunnerPool)).await.unwrap();
        assert_eq!(stored.objects, [], "{bad:?} was partly applied");
    }
    assert!(declare(&fleet, &[pool("a", 2), pool("b", 2)]).await.is_ok());
}

#[tokio::test]
async fn stale_version_is_a_conflict_and_a_dry_run_changes_nothing() {
    let fleet = MemoryFleet::default();
    declare(&fleet, &[pool("a", 1)]).await.unwrap();
    let mut stale = fleet.get(Kind::RunnerPool, "default", "a").await.unwrap().unwrap();
    declare(&fleet, &[pool("a", 2)]).await.unwrap();
    stale.spec["capacity"] = json!(9);
    let refused = declare(&fleet, &[stale]).await;
    assert!(
        matches!(refused, Err(DeclareError::Store(FleetError::Conflict { .. }))),
        "{refused:?}"
    );
    let dry = apply(&fleet, &[pool("a", 7)], "ada", Moment::from_millis(NOW), true).await.unwrap();
    assert_eq!(dry[0].outcome, Outcome::Configured);
    let stored = fleet.get(Kind::RunnerPool, "default", "a").await.unwrap().unwrap();
    assert_eq!(stored.spec["capacity"], json!(2));
}

#[tokio::test]
async fn records_cannot_be_deleted_by_people() {
    let fleet = MemoryFleet::default();
    declare(&fleet, &[pool("a", 1)]).await.unwrap();
    let now = Moment::from_millis(NOW);
    let refused = delete(&fleet, Kind::AgentApproval, "default", "x", 0, "ada", now).await;
    assert!(matches!(refused, Err(DeclareError::Recorded { .. })), "{refused:?}");
    delete(&fleet, Kind::RunnerPool, "default", "a", 0, "ada", now).await.unwrap();
    assert_eq!(fleet.get(Kind::RunnerPool, "default", "a").await, Ok(None));
    let missing = delete(&fleet, Kind::RunnerPool, "default", "a", 0, "ada", now).await;
    assert!(
        matches!(missing, Err(DeclareError::Store(FleetError::NotFound { .. }))),
        "{missing:?}"
    );
}

fn required(name: &str, resource_version: u64) -> Requirement {
    let (kind, namespace) = (Kind::RunnerPool, "default".to_owned());
    Requirement { kind, namespace, name: name.to_owned(), resource_version }
}

#[tokio::test]
async fn nothing_is_applied_or_deleted_unless_all_requirements_are_met() {
    let (fleet, now) = (MemoryFleet::default(), Moment::from_millis(NOW));
    declare(&fleet, &[pool("fence", 1), pool("a", 1)]).await.unwrap();
    let fence = fleet.get(Kind::RunnerPool, "default", "fence").await.unwrap().unwrap();
    let version = fence.metadata.resource_version;
    let by = AuditActor::person("ada");
    let write = async |name: &str, requirement: Requirement| {
        let documents = [pool(name, 2)];
        apply_requiring(&fleet, &documents, &[requirement], &by, now, false).await.map(drop)
    };
    let exists = write("a", required("a", 0)).await;
    assert!(
        matches!(exists, Err(DeclareError::Store(FleetError::AlreadyExists { .. }))),
        "a document without a version must not replace what exists: {exists:?}"
    );
    let stale = write("b", required("fence", version + 1)).await;
    assert!(matches!(stale, Err(DeclareError::Store(FleetError::Conflict { .. }))), "{stale:?}");
    assert_eq!(fleet.get(Kind::RunnerPool, "default", "b").await, Ok(None));
    let stored = fleet.get(Kind::RunnerPool, "default", "a").await.unwrap().unwrap();
    assert_eq!(stored.spec["capacity"], json!(1));
    let remove = async |requirement: Requirement| {
        let requirement = Some(&requirement);
        let (kind, namespace, name, version) = (Kind::RunnerPool, "default", "a", 0);
        let deletion = Deletion { kind, namespace, name, version, requirement };
        delete_requiring(&fleet, deletion, "ada", now).await
    };
    let stale = remove(required("fence", version + 1)).await;
    assert!(matches!(stale, Err(DeclareError::Store(FleetError::Conflict { .. }))), "{stale:?}");
    assert_eq!(write("b", required("b", 0)).await, Ok(()));
    assert_eq!(remove(required("fence", version)).await, Ok(()));
    assert_eq!(fleet.get(Kind::RunnerPool, "default", "a").await, Ok(None));
}

/// A review needs another person, their own name, and the current text.
#[tokio::test]
async fn label_cannot_be_reviewed_by_its_author_or_in_another_name() {
    let fleet = MemoryFleet::default();
    let label = |text: &str, by: Option<&str>| {
        let mut spec = json!({
            "promptFragment": text, "allowedSources": ["manual"], "requiresReview": true,
        });
        if let Some(by) = by {
            spec["reviewedBy"] = json!(by);
            spec["reviewedDigest"] = json!(bailiwick_model::Sha256Hex::of(text).as_str());
        }
        document(Kind::AgentContextLabel, "careful", spec)
    };
    let write = async |actor: &str, object: AnyObject| {
        let applied = apply(&fleet, &[object], actor, Moment::from_millis(NOW), false).await;
        applied.map(|applied| applied[0].outcome).map_err(|error| error.to_string())
    };
    // With the first version of the text, in one's own or another's name.
    for by in ["ada", "bob"] {
        assert!(write("ada", label("Be careful.", Some(by))).await.is_err(), "{by}");
    }
    assert_eq!(write("ada", label("Be careful.", None)).await, Ok(Outcome::Created));
    assert_eq!(write("bob", label("Be careful.", None)).await, Ok(Outcome::Unchanged));
    for by in ["ada", "bob"] {
        assert!(write("ada", label("Be careful.", Some(by))).await.is_err(), "{by}");
    }
    let mut forged = label("Be careful.", Some("ada"));
    forged.metadata.annotations.insert(TEXT_BY.to_owned(), "somebody".to_owned());
    assert!(write("ada", forged).await.is_err(), "a document cannot set the author of the text");
    assert_eq!(write("bob", label("Be careful.", Some("bob"))).await, Ok(Outcome::Configured));
    // A reviewed text stays reviewed when another person applies it again; a new text needs a new review.
    assert_eq!(write("ada", label("Be careful.", Some("bob"))).await, Ok(Outcome::Unchanged));
    assert!(write("ada", label("Do as you like.", Some("bob"))).await.is_err());
    assert!(write("bob", label("Do as you like.", Some("bob"))).await.is_err());
    assert_eq!(write("bob", label("Do as you like.", None)).await, Ok(Outcome::Configured));
    assert_eq!(write("ada", label("Do as you like.", Some("ada"))).await, Ok(Outcome::Configured));
}

/// The author of a binding or role is the person who applied its spec, whatever the document says.
#[tokio::test]
async fn binding_cannot_be_applied_in_another_name() {
    let fleet = MemoryFleet::default();
    let binding = |role: &str, claimed: Option<&str>| {
        let spec = json!({
            "subject": { "kind": "agent-stack", "name": "fixer" },
            "scope": { "kind": "repository", "name": "web" },
            "roleRef": { "kind": "RoleTemplate", "name": role },
            "escalationPolicy": "allow-if-owner",
        });
        let mut object = document(Kind::AgentRoleBinding, "fixer", spec);
        if let Some(claimed) = claimed {
            object.metadata.annotations.insert(APPLIED_BY.to_owned(), claimed.to_owned());
        }
        object
    };
    let write = async |actor: &str, object: AnyObject| {
        let now = Moment::from_millis(NOW);
        let applied = apply(&fleet, &[object], actor, now, false).await.unwrap();
        let stored = fleet.get(Kind::AgentRoleBinding, "default", "fixer").await.unwrap().unwrap();
        let author = stored.metadata.annotations.get(APPLIED_BY).cloned();
        (applied[0].outcome, author.unwrap_or_default())
    };
    let by = |outcome, author: &str| (outcome, author.to_owned());
    let (created, changed, same) = (Outcome::Created, Outcome::Configured, Outcome::Unchanged);
    assert_eq!(write("bob", binding("agent-approver", Some("ada"))).await, by(created, "bob"));
    // An unchanged spec keeps its author, whatever the document says.
    assert_eq!(write("ada", binding("agent-approver", None)).await, by(same, "bob"));
    assert_eq!(write("bob", binding("agent-approver", Some("ada"))).await, by(same, "bob"));
    // A changed spec gets the person who writes it as its author.
    assert_eq!(write("ada", binding("secret-grant-admin", None)).await, by(changed, "ada"));
    assert_eq!(write("bob", binding("agent-approver", Some("ada"))).await, by(changed, "bob"));
    let mut role = document(Kind::Role, "keys", json!({ "rules": [], "cluster": false }));
    role.metadata.annotations.insert(APPLIED_BY.to_owned(), "ada".to_owned());
    apply(&fleet, &[role], "bob", Moment::from_millis(NOW), false).await.unwrap();
    let role = fleet.get(Kind::Role, "default", "keys").await.unwrap().unwrap();
    assert_eq!(role.metadata.annotations.get(APPLIED_BY).map(String::as_str), Some("bob"));
}
