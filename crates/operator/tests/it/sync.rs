//! The operator with a fake API server that answers as a real one does, and an in-memory control plane.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bailiwick_client::{FleetClient, Http, Local, PlainHttp, ServerAddress, Token};
use bailiwick_fleet::ports::{Caller, FleetStore as _, MemoryFleet, TokenScope, Write};
use bailiwick_fleet::resources::apply;
use bailiwick_kubernetes::sync::{
    COPIED_FROM, ClusterObject, FINALIZER, NamespaceUid, Takeover, TakeoverError,
};
use bailiwick_operator::sync::{
    Cluster, ControlPlane, FenceError, Leadership, OperatorError, Outcome, Reconciler, Settings,
    WriteError, check_own_rights, run,
};
use bailiwick_resources::{
    API_VERSION, AgentRoleBinding, AnyObject, DEFAULT_NAMESPACE, Kind, Metadata, Moment,
};
use bailiwick_server::NoControlPlane;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::api_server::{Answer, ApiServer, OPEN, ReceivedRequest, Stored, refusal};
use crate::jobs;

const POOL_API_VERSION: &str = "bailiwick.dev/v1alpha1";

pub(crate) fn client(store: &Arc<MemoryFleet>) -> Arc<dyn FleetClient> {
    let caller = Caller {
        actor: "operator".to_owned(),
        scope: TokenScope::Admin,
        token: "t".to_owned(),
        correlation: "c".to_owned(),
        request: "r".to_owned(),
        at: Moment::from_millis(0),
    };
    Arc::new(Local::new(Arc::clone(store), Arc::new(NoControlPlane), caller))
}

async fn control_plane(store: &Arc<MemoryFleet>, holder: &str) -> ControlPlane {
    let (uid, takeover) = (NamespaceUid::parse("n-1").unwrap(), Takeover::SameNamespace);
    ControlPlane::take_over(client(store), holder, uid, takeover).await.unwrap()
}

async fn reconciler(server: &ApiServer, store: &Arc<MemoryFleet>, holder: &str) -> Reconciler {
    reconciler_of(server, control_plane(store, holder).await)
}

fn reconciler_of(server: &ApiServer, control_plane: ControlPlane) -> Reconciler {
    let cluster = Cluster::new(server.client.clone(), "agents");
    let leadership = Arc::new(Leadership::since(Instant::now()));
    Reconciler::new(cluster, control_plane, leadership, Duration::from_secs(3_600))
}

fn pool(spec: Value) -> Value {
    json!({
        "apiVersion": POOL_API_VERSION, "kind": "RunnerPool", "spec": spec,
        "metadata": {
            "name": "fast", "namespace": "agents", "uid": "u-1", "generation": 1,
            "resourceVersion": "1", "labels": { "team": "a" },
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" },
        },
    })
}

fn valid() -> Value {
    json!({ "capacity": 2, "trustTier": "trusted", "serviceAccountRef": "runner" })
}

fn object(value: &Value) -> ClusterObject {
    ClusterObject {
        metadata: serde_json::from_value(value["metadata"].clone()).unwrap(),
        spec: value["spec"].clone(),
        status: value["status"].clone(),
    }
}

fn key() -> (Kind, String) {
    (Kind::RunnerPool, "fast".to_owned())
}

/// Reconciles an object until nothing is left to do.
async fn settle(reconciler: &Reconciler, key: &(Kind, String)) -> Outcome {
    for _ in 0..20 {
        let outcome = reconciler.reconcile(key).await;
        if outcome != Outcome::Progress {
            return outcome;
        }
    }
    panic!("the reconciliation does not end");
}

async fn copy(store: &MemoryFleet) -> Option<AnyObject> {
    store.get(Kind::RunnerPool, DEFAULT_NAMESPACE, "fast").await.unwrap()
}

/// Stores one object, and accepts everything else.
fn storing(stored: &Arc<Mutex<Stored>>) -> impl FnMut(&ReceivedRequest) -> Answer + Send + 'static {
    let stored = Arc::clone(stored);
    move |request| match request.method == Method::PATCH {
        true => stored.lock().unwrap().apply(request),
        false => (StatusCode::CREATED, request.body.clone()),
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array().unwrap();
    all.iter().find(|one| one["type"] == kind).unwrap()
}

#[tokio::test]
async fn declared_object_gets_its_finalizer_then_its_copy_then_its_status() {
    let store = Arc::new(MemoryFleet::default());
    let stored = Arc::new(Mutex::new(Stored(pool(valid()))));
    let server = ApiServer::new(storing(&stored));
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_object(Kind::RunnerPool, object(&pool(valid())));
    assert_eq!(operator.reconcile(&key()).await, Outcome::Progress);
    assert!(copy(&store).await.is_none(), "nothing is copied before the object has its finalizer");
    assert_eq!(stored.lock().unwrap().0["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(settle(&operator, &key()).await, Outcome::InStep);
    let copied = copy(&store).await.unwrap();
    assert_eq!(copied.spec["capacity"], 2);
    assert_eq!(copied.metadata.labels["team"], "a");
    let annotations: Vec<_> = copied.metadata.annotations.keys().collect();
    assert_eq!(annotations, [COPIED_FROM], "annotations of kubectl are not copied");
    let actual = stored.lock().unwrap().0.clone();
    assert_eq!(condition(&actual, "Synced")["status"], "True");
    assert_eq!(server.calls(), ["PATCH runnerpools/fast", "PATCH runnerpools/fast/status"]);
    for request in server.requests() {
        assert!(request.query.contains("force=true"), "{}", request.query);
        assert!(request.query.contains("fieldManager=bailiwick-operator"), "{}", request.query);
        assert_eq!(request.body["metadata"]["uid"], "u-1", "no other object is written");
        assert!(request.body["metadata"]["resourceVersion"].is_string());
    }
    // Another reconciliation writes nothing.
    assert_eq!(operator.reconcile(&key()).await, Outcome::InStep);
    assert_eq!(server.calls().len(), 2);
}

#[tokio::test]
async fn object_that_the_control_plane_refuses_has_a_reason_and_an_event() {
    let store = Arc::new(MemoryFleet::default());
    let mut invalid =
        pool(json!({ "capacity": 2, "trustTier": "trusted", "serviceAccountRef": "" }));
    invalid["metadata"]["finalizers"] = json!([FINALIZER]);
    invalid["spec"]["capacity"] = json!("many");
    let stored = Arc::new(Mutex::new(Stored(invalid.clone())));
    let server = ApiServer::new(storing(&stored));
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_object(Kind::RunnerPool, object(&invalid));
    let Outcome::Later(_) = settle(&operator, &key()).await else {
        panic!("it must be retried later")
    };
    assert!(copy(&store).await.is_none());
    let actual = stored.lock().unwrap().0.clone();
    let synced = condition(&actual, "Synced");
    assert_eq!((&synced["status"], &synced["reason"]), (&json!("False"), &json!("Invalid")));
    assert!(synced["message"].as_str().unwrap().contains("capacity"), "{synced}");
    assert_eq!(server.calls(), ["POST events", "PATCH runnerpools/fast/status"]);
    let event = server.requests().remove(0).body;
    assert_eq!((&event["reason"], &event["type"]), (&json!("Invalid"), &json!("Warning")));
    assert_eq!(event["involvedObject"]["uid"], "u-1");
    // Another reconciliation reports nothing new.
    settle(&operator, &key()).await;
    assert_eq!(server.calls().len(), 2);
}

/// The role lacks `create events`, or a webhook denies them.
#[tokio::test]
async fn status_is_shown_although_its_event_is_refused() {
    for (code, is_shown) in [
        (StatusCode::FORBIDDEN, true),
        (StatusCode::UNPROCESSABLE_ENTITY, true),
        (StatusCode::NOT_FOUND, true),
        (StatusCode::INTERNAL_SERVER_ERROR, false),
    ] {
        let store = Arc::new(MemoryFleet::default());
        let mut invalid = pool(valid());
        invalid["metadata"]["finalizers"] = json!([FINALIZER]);
        invalid["spec"]["capacity"] = json!("many");
        let stored = Arc::new(Mutex::new(Stored(invalid.clone())));
        let shared = Arc::clone(&stored);
        let server = ApiServer::new(move |request| match request.path.ends_with("/events") {
            true => refusal(code, "Reason"),
            false => shared.lock().unwrap().apply(request),
        });
        let operator = reconciler(&server, &store, "a").await;
        // The server refuses the spec.
        operator.observe_object(Kind::RunnerPool, object(&invalid));
        settle(&operator, &key()).await;
        assert_eq!(!stored.lock().unwrap().0["status"].is_null(), is_shown, "{code}");
        // A run begins.
        stored.lock().unwrap().0 = Value::Null;
        let status = json!({ "phase": "running", "attempts": [] });
        let run =
            record(Kind::AgentDispatchRun, "adr-1", 3, json!({ "taskKind": "review" }), status);
        operator.observe_record(run);
        settle(&operator, &(Kind::AgentDispatchRun, "adr-1".to_owned())).await;
        let shown = stored.lock().unwrap().0["status"]["phase"].clone();
        assert_eq!(shown == "running", is_shown, "{code}");
    }
}

#[tokio::test]
async fn finalizer_stays_until_the_copy_is_deleted() {
    let store = Arc::new(MemoryFleet::default());
    let stored = Arc::new(Mutex::new(Stored(pool(valid()))));
    let server = ApiServer::new(storing(&stored));
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_object(Kind::RunnerPool, object(&pool(valid())));
    settle(&operator, &key()).await;
    let mut deleting = stored.lock().unwrap().0.clone();
    deleting["metadata"]["deletionTimestamp"] = json!("2026-11-19T00:00:00Z");
    deleting["metadata"]["finalizers"] = json!(["other.example/x", FINALIZER]);
    operator.observe_object(Kind::RunnerPool, object(&deleting));
    let before = server.calls().len();
    assert_eq!(operator.reconcile(&key()).await, Outcome::Progress);
    assert!(copy(&store).await.is_none());
    assert_eq!(server.calls().len(), before, "the copy is deleted first");
    assert_eq!(operator.reconcile(&key()).await, Outcome::InStep);
    let last = server.requests().pop().unwrap();
    assert_eq!(last.body["metadata"]["finalizers"], json!(["other.example/x"]));
    assert_eq!(last.body["metadata"]["resourceVersion"], deleting["metadata"]["resourceVersion"]);
    assert!(
        !last.query.contains("force"),
        "an apply would not remove an entry of another manager: {last:?}"
    );
}

#[tokio::test]
async fn finalizer_that_was_not_removed_is_a_failure() {
    let store = Arc::new(MemoryFleet::default());
    let mut deleting = pool(valid());
    deleting["metadata"]["finalizers"] = json!([FINALIZER]);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-11-19T00:00:00Z");
    let unchanged = deleting.clone();
    let server = ApiServer::new(move |_| (StatusCode::OK, unchanged.clone()));
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_object(Kind::RunnerPool, object(&deleting));
    assert_eq!(operator.reconcile(&key()).await, Outcome::Failed);
    assert_eq!(server.calls(), ["PATCH runnerpools/fast"]);
}

#[tokio::test]
async fn copies_of_another_namespace_or_cluster_are_not_deleted() {
    let store = Arc::new(MemoryFleet::default());
    let stored = Arc::new(Mutex::new(Stored(pool(valid()))));
    let server = ApiServer::new(storing(&stored));
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_object(Kind::RunnerPool, object(&pool(valid())));
    settle(&operator, &key()).await;
    let copied = copy(&store).await.unwrap();
    // An operator with another KUBECONFIG.
    let elsewhere = NamespaceUid::parse("n-2").unwrap();
    let take_over =
        |takeover| ControlPlane::take_over(client(&store), "b", elsewhere.clone(), takeover);
    let refused = take_over(Takeover::SameNamespace).await.err();
    assert!(
        matches!(refused, Some(FenceError::Takeover(TakeoverError::OtherNamespace { .. }))),
        "{refused:?}"
    );
    // The same holds if the takeover is forced.
    let other = reconciler_of(&server, take_over(Takeover::AnyNamespace).await.unwrap());
    other.observe_record(copied.clone());
    assert_eq!(other.reconcile(&key()).await, Outcome::InStep);
    assert_eq!(copy(&store).await.as_ref(), Some(&copied));
    // An object of the same name does not replace it.
    let mut same_name =
        pool(json!({ "capacity": 7, "trustTier": "trusted", "serviceAccountRef": "r" }));
    same_name["metadata"]["uid"] = json!("u-2");
    stored.lock().unwrap().0 = same_name.clone();
    other.observe_object(Kind::RunnerPool, object(&same_name));
    settle(&other, &key()).await;
    assert_eq!(copy(&store).await, Some(copied));
    let actual = stored.lock().unwrap().0.clone();
    assert_eq!(condition(&actual, "Synced")["reason"], "ExistsInControlPlane");
}

#[tokio::test]
async fn copy_of_an_earlier_version_is_adopted_by_its_object_and_never_deleted() {
    // The first version did not write the namespace, the next one not the kind and the name.
    for suffix in ["/n-1/RunnerPool/fast", "/RunnerPool/fast"] {
        copy_of_an_earlier_version(suffix).await;
    }
}

async fn copy_of_an_earlier_version(suffix: &str) {
    let store = Arc::new(MemoryFleet::default());
    let stored = Arc::new(Mutex::new(Stored(pool(valid()))));
    let server = ApiServer::new(storing(&stored));
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_object(Kind::RunnerPool, object(&pool(valid())));
    settle(&operator, &key()).await;
    let mut earlier = copy(&store).await.unwrap();
    let mark = earlier.metadata.annotations[COPIED_FROM].clone();
    let without = mark.strip_suffix(suffix).unwrap().to_owned();
    earlier.metadata.annotations.insert(COPIED_FROM.to_owned(), without.clone());
    store.commit(vec![Write::Replace(earlier)], Moment::from_millis(1)).await.unwrap();
    let earlier = copy(&store).await.unwrap();
    // Its object does not exist.
    let next = reconciler(&server, &store, "b").await;
    next.observe_record(earlier.clone());
    assert_eq!(next.reconcile(&key()).await, Outcome::InStep);
    assert_eq!(copy(&store).await.unwrap().metadata.annotations[COPIED_FROM], without);
    // Its object exists.
    next.observe_object(Kind::RunnerPool, object(&stored.lock().unwrap().0.clone()));
    settle(&next, &key()).await;
    assert_eq!(copy(&store).await.unwrap().metadata.annotations[COPIED_FROM], mark);
    // A change of the copy by a person is retained.
    let mut paused = earlier;
    paused.metadata.resource_version = 0;
    paused.spec["paused"] = json!(true);
    store.commit(vec![Write::Replace(paused)], Moment::from_millis(2)).await.unwrap();
    next.observe_record(copy(&store).await.unwrap());
    settle(&next, &key()).await;
    assert_eq!(copy(&store).await.unwrap().spec["paused"], true);
}

#[tokio::test]
async fn copy_does_not_replace_an_object_that_was_not_observed() {
    let store = Arc::new(MemoryFleet::default());
    let mut declared = pool(valid());
    declared["metadata"]["finalizers"] = json!([FINALIZER]);
    let stored = Arc::new(Mutex::new(Stored(declared.clone())));
    let server = ApiServer::new(storing(&stored));
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_object(Kind::RunnerPool, object(&declared));
    // A person creates it on the server at the same time; the stream has not delivered it yet.
    let created = AnyObject {
        api_version: API_VERSION.to_owned(),
        kind: Kind::RunnerPool,
        metadata: Metadata::named("fast"),
        spec: json!({ "capacity": 9, "trustTier": "trusted", "serviceAccountRef": "runner" }),
        status: Value::Null,
    };
    store.commit(vec![Write::Create(created)], Moment::from_millis(0)).await.unwrap();
    settle(&operator, &key()).await;
    assert_eq!(copy(&store).await.unwrap().spec["capacity"], 9);
    let actual = stored.lock().unwrap().0.clone();
    assert_eq!(condition(&actual, "Synced")["reason"], "ExistsInControlPlane");
}

#[tokio::test]
async fn run_is_shown_even_if_the_definition_lacks_some_of_its_fields() {
    let store = Arc::new(MemoryFleet::default());
    let run = Arc::new(Mutex::new(Stored::default()));
    let runs = Arc::clone(&run);
    let server = ApiServer::new(move |request| {
        let mut run = runs.lock().unwrap();
        let is_object = !request.path.ends_with("/status");
        match request.method == Method::PATCH {
            // Nothing changes, because the unknown field is dropped.
            true if is_object && !run.0.is_null() => (StatusCode::OK, run.0.clone()),
            true => {
                let answer = run.apply(request);
                run.0["spec"].as_object_mut().unwrap().remove("newField");
                answer
            }
            false => (StatusCode::CREATED, request.body.clone()),
        }
    });
    let operator = reconciler(&server, &store, "a").await;
    let spec = json!({ "taskKind": "review", "newField": 1 });
    let status = json!({ "phase": "running", "attempts": ["ada-1"] });
    operator.observe_record(record(Kind::AgentDispatchRun, "adr-1", 3, spec, status));
    let key = (Kind::AgentDispatchRun, "adr-1".to_owned());
    operator.reconcile(&key).await;
    // As a watch shows it.
    operator.observe_object(Kind::AgentDispatchRun, object(&run.lock().unwrap().0.clone()));
    settle(&operator, &key).await;
    assert_eq!(run.lock().unwrap().0["status"]["phase"], "running");
}

#[tokio::test]
async fn objects_that_exist_only_in_the_database_are_not_changed() {
    let store = Arc::new(MemoryFleet::default());
    let existing = AnyObject {
        api_version: API_VERSION.to_owned(),
        kind: Kind::RunnerPool,
        metadata: Metadata::named("fast"),
        spec: json!({ "capacity": 9, "trustTier": "trusted", "serviceAccountRef": "runner" }),
        status: Value::Null,
    };
    store.commit(vec![Write::Create(existing)], Moment::from_millis(0)).await.unwrap();
    let existing = copy(&store).await.unwrap();
    let stored = Arc::new(Mutex::new(Stored(pool(valid()))));
    let server = ApiServer::new(storing(&stored));
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_record(existing.clone());
    assert_eq!(operator.reconcile(&key()).await, Outcome::InStep);
    // An object of the same name does not change it either.
    operator.observe_object(Kind::RunnerPool, object(&pool(valid())));
    settle(&operator, &key()).await;
    assert_eq!(copy(&store).await.unwrap(), existing);
    let actual = stored.lock().unwrap().0.clone();
    assert_eq!(condition(&actual, "Synced")["reason"], "ExistsInControlPlane");
    // A person allows the adoption.
    let mut adopting = stored.lock().unwrap().0.clone();
    adopting["metadata"]["annotations"]["bailiwick.dev/adopt"] = json!("true");
    stored.lock().unwrap().0 = adopting.clone();
    operator.observe_object(Kind::RunnerPool, object(&adopting));
    settle(&operator, &key()).await;
    assert_eq!(copy(&store).await.unwrap().spec["capacity"], 2);
}

#[tokio::test]
async fn change_in_the_control_plane_is_shown_and_retained() {
    let store = Arc::new(MemoryFleet::default());
    let stored = Arc::new(Mutex::new(Stored(pool(valid()))));
    let server = ApiServer::new(storing(&stored));
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_object(Kind::RunnerPool, object(&pool(valid())));
    settle(&operator, &key()).await;
    let mut paused = copy(&store).await.unwrap();
    paused.spec["paused"] = json!(true);
    store.commit(vec![Write::Replace(paused)], Moment::from_millis(1)).await.unwrap();
    operator.observe_record(copy(&store).await.unwrap());
    settle(&operator, &key()).await;
    assert_eq!(
        copy(&store).await.unwrap().spec["paused"],
        true,
        "an emergency stop stays in effect"
    );
    let actual = stored.lock().unwrap().0.clone();
    assert_eq!(condition(&actual, "Synced")["reason"], "ChangedInControlPlane");
    // The next change of the object is copied.
    let mut next = actual;
    next["metadata"]["generation"] = json!(2);
    next["spec"]["capacity"] = json!(3);
    stored.lock().unwrap().0 = next.clone();
    operator.observe_object(Kind::RunnerPool, object(&next));
    settle(&operator, &key()).await;
    let copied = copy(&store).await.unwrap();
    assert_eq!((&copied.spec["capacity"], &copied.spec["paused"]), (&json!(3), &json!(false)));
}

#[tokio::test]
async fn new_label_does_not_undo_a_change_in_the_control_plane() {
    let store = Arc::new(MemoryFleet::default());
    let stored = Arc::new(Mutex::new(Stored(pool(valid()))));
    let server = ApiServer::new(storing(&stored));
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_object(Kind::RunnerPool, object(&pool(valid())));
    settle(&operator, &key()).await;
    let mut paused = copy(&store).await.unwrap();
    paused.spec["paused"] = json!(true);
    store.commit(vec![Write::Replace(paused)], Moment::from_millis(1)).await.unwrap();
    operator.observe_record(copy(&store).await.unwrap());
    // Labels and annotations change without a new generation.
    let mut labelled = stored.lock().unwrap().0.clone();
    labelled["metadata"]["labels"]["team"] = json!("b");
    labelled["metadata"]["annotations"]["owner"] = json!("ada");
    stored.lock().unwrap().0 = labelled.clone();
    operator.observe_object(Kind::RunnerPool, object(&labelled));
    assert_eq!(settle(&operator, &key()).await, Outcome::InStep);
    let copied = copy(&store).await.unwrap();
    assert_eq!(copied.spec["paused"], true, "an emergency stop stays in effect");
    assert_eq!(copied.metadata.labels["team"], "b");
    assert_eq!(copied.metadata.annotations["owner"], "ada");
    let actual = stored.lock().unwrap().0.clone();
    assert_eq!(condition(&actual, "Synced")["reason"], "ChangedInControlPlane");
}

/// A person gets the YAML of a copy with its annotations, renames it, and applies it on the server.
#[tokio::test]
async fn object_with_the_mark_of_another_one_is_not_changed() {
    let store = Arc::new(MemoryFleet::default());
    let stored = Arc::new(Mutex::new(Stored(pool(valid()))));
    let server = ApiServer::new(storing(&stored));
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_object(Kind::RunnerPool, object(&pool(valid())));
    settle(&operator, &key()).await;
    let mut slow = copy(&store).await.unwrap();
    slow.metadata.name = "slow".to_owned();
    slow.spec["capacity"] = json!(9);
    store.commit(vec![Write::Create(slow)], Moment::from_millis(1)).await.unwrap();
    let slow_key = (Kind::RunnerPool, "slow".to_owned());
    let stored_slow =
        async || store.get(Kind::RunnerPool, DEFAULT_NAMESPACE, "slow").await.unwrap().unwrap();
    let slow = stored_slow().await;
    operator.observe_record(slow.clone());
    assert_eq!(settle(&operator, &slow_key).await, Outcome::InStep);
    assert_eq!(stored_slow().await, slow, "no object of the cluster has its name");
    // Now one has.
    let mut same_name = pool(valid());
    same_name["metadata"]["name"] = json!("slow");
    same_name["metadata"]["uid"] = json!("u-2");
    let shown = Arc::new(Mutex::new(Stored(same_name.clone())));
    let server = ApiServer::new(storing(&shown));
    let next = reconciler(&server, &store, "b").await;
    next.observe_record(slow.clone());
    next.observe_object(Kind::RunnerPool, object(&same_name));
    settle(&next, &slow_key).await;
    assert_eq!(stored_slow().await, slow);
    let actual = shown.lock().unwrap().0.clone();
    assert_eq!(condition(&actual, "Synced")["reason"], "ExistsInControlPlane");
    let mut deleting = actual;
    deleting["metadata"]["deletionTimestamp"] = json!("2026-11-19T00:00:00Z");
    deleting["metadata"]["finalizers"] = json!([FINALIZER]);
    next.observe_object(Kind::RunnerPool, object(&deleting));
    settle(&next, &slow_key).await;
    assert_eq!(stored_slow().await, slow, "its deletion does not delete the copy");
    // The copy that has its own mark is deleted when its object is gone.
    next.observe_record(copy(&store).await.unwrap());
    settle(&next, &key()).await;
    assert!(copy(&store).await.is_none());
}

#[tokio::test]
async fn replaced_leader_cannot_write() {
    let store = Arc::new(MemoryFleet::default());
    let mut declared = pool(valid());
    declared["metadata"]["finalizers"] = json!([FINALIZER]);
    let stored = Arc::new(Mutex::new(Stored(declared.clone())));
    let server = ApiServer::new(storing(&stored));
    let replaced = reconciler(&server, &store, "a").await;
    replaced.observe_object(Kind::RunnerPool, object(&declared));
    // Another operator leads, copies and deletes.
    let leader = reconciler(&server, &store, "b").await;
    assert_eq!(replaced.reconcile(&key()).await, Outcome::Deposed);
    assert!(copy(&store).await.is_none());
    leader.observe_object(Kind::RunnerPool, object(&declared));
    assert_eq!(leader.reconcile(&key()).await, Outcome::Progress, "the new leader can write");
    let copied = copy(&store).await.unwrap();
    let old = control_plane(&store, "c").await;
    let _newest = control_plane(&store, "d").await;
    let deleted = old.delete(Kind::RunnerPool, "fast", copied.metadata.resource_version).await;
    assert!(matches!(deleted, Err(WriteError::FenceLost)), "{deleted:?}");
    assert!(copy(&store).await.is_some());
}

#[tokio::test]
async fn nothing_is_written_without_the_lease() {
    let store = Arc::new(MemoryFleet::default());
    let server = ApiServer::new(|_| refusal(StatusCode::FORBIDDEN, "Forbidden"));
    let control_plane = control_plane(&store, "a").await;
    let Some(expired) = Instant::now().checked_sub(Duration::from_secs(11)) else { return };
    let operator = Reconciler::new(
        Cluster::new(server.client.clone(), "agents"),
        control_plane,
        Arc::new(Leadership::since(expired)),
        Duration::ZERO,
    );
    operator.observe_object(Kind::RunnerPool, object(&pool(valid())));
    assert_eq!(operator.reconcile(&key()).await, Outcome::Deposed);
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn conflict_and_failure_back_off_and_a_refusal_waits() {
    let store = Arc::new(MemoryFleet::default());
    for (status, expected) in [
        (StatusCode::CONFLICT, Outcome::Conflict),
        (StatusCode::UNPROCESSABLE_ENTITY, Outcome::Later(Duration::from_secs(60))),
        (StatusCode::FORBIDDEN, Outcome::Failed),
        (StatusCode::INTERNAL_SERVER_ERROR, Outcome::Failed),
    ] {
        let server = ApiServer::new(move |_| refusal(status, "Reason"));
        let operator = reconciler(&server, &store, "a").await;
        operator.observe_object(Kind::RunnerPool, object(&pool(valid())));
        assert_eq!(operator.reconcile(&key()).await, expected, "{status}");
        assert!(copy(&store).await.is_none());
    }
}

/// The watch of the cluster is late.
#[tokio::test]
async fn object_of_a_conflict_is_read_again() {
    let store = Arc::new(MemoryFleet::default());
    let mut newer = pool(valid());
    newer["metadata"]["resourceVersion"] = json!("5");
    let stored = Arc::new(Mutex::new(Stored(newer)));
    let shared = Arc::clone(&stored);
    let server = ApiServer::new(move |request| match request.method {
        Method::GET => (StatusCode::OK, shared.lock().unwrap().0.clone()),
        _ => shared.lock().unwrap().apply(request),
    });
    let operator = reconciler(&server, &store, "a").await;
    operator.observe_object(Kind::RunnerPool, object(&pool(valid())));
    assert_eq!(operator.reconcile(&key()).await, Outcome::Conflict);
    assert_eq!(settle(&operator, &key()).await, Outcome::InStep);
    assert_eq!(copy(&store).await.unwrap().spec["capacity"], 2);
    // The same on the side of the server.
    let mut changed = copy(&store).await.unwrap();
    changed.metadata.labels.insert("team".to_owned(), "c".to_owned());
    store.commit(vec![Write::Replace(changed)], Moment::from_millis(1)).await.unwrap();
    let mut next = stored.lock().unwrap().0.clone();
    next["metadata"]["generation"] = json!(2);
    next["spec"]["capacity"] = json!(3);
    stored.lock().unwrap().0 = next.clone();
    operator.observe_object(Kind::RunnerPool, object(&next));
    assert_eq!(operator.reconcile(&key()).await, Outcome::Conflict);
    assert_eq!(settle(&operator, &key()).await, Outcome::InStep);
    assert_eq!(copy(&store).await.unwrap().spec["capacity"], 3);
}

pub(crate) fn record(
    kind: Kind,
    name: &str,
    version: u64,
    spec: Value,
    status: Value,
) -> AnyObject {
    let metadata = Metadata {
        uid: format!("cp-{name}"),
        generation: 1,
        resource_version: version,
        creation_timestamp: Some(Moment::from_millis(1)),
        ..Metadata::named(name)
    };
    AnyObject { api_version: API_VERSION.to_owned(), kind, metadata, spec, status }
}

#[tokio::test]
async fn run_and_its_attempt_are_shown_with_at_most_ten_writes() {
    let store = Arc::new(MemoryFleet::default());
    let run = Arc::new(Mutex::new(Stored::default()));
    let attempt = Arc::new(Mutex::new(Stored::default()));
    let (runs, attempts) = (Arc::clone(&run), Arc::clone(&attempt));
    let server = ApiServer::new(move |request| match request.method {
        Method::PATCH if request.path.contains("agentdispatchruns") => {
            runs.lock().unwrap().apply(request)
        }
        Method::PATCH => attempts.lock().unwrap().apply(request),
        _ => (StatusCode::CREATED, request.body.clone()),
    });
    let operator = reconciler(&server, &store, "a").await;
    let (run_key, attempt_key) = (
        (Kind::AgentDispatchRun, "adr-1".to_owned()),
        (Kind::AgentDispatchAttempt, "ada-1".to_owned()),
    );
    let attempt_spec = json!({ "agentDispatchRun": "adr-1", "number": 1,
        "agentStackSnapshot": { "digest": "d", "objects": [{ "spec": {} }] } });
    operator.observe_record(record(
        Kind::AgentDispatchAttempt,
        "ada-1",
        2,
        attempt_spec.clone(),
        Value::Null,
    ));
    let run_at = |version, status| {
        record(Kind::AgentDispatchRun, "adr-1", version, json!({ "taskKind": "review" }), status)
    };
    operator.observe_record(run_at(3, json!({ "phase": "queued", "attempts": [] })));
    let outcome = operator.reconcile(&attempt_key).await;
    assert!(matches!(outcome, Outcome::Later(_)), "its run does not exist: {outcome:?}");
    settle(&operator, &run_key).await;
    settle(&operator, &attempt_key).await;
    let owner = attempt.lock().unwrap().0["metadata"]["ownerReferences"][0].clone();
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("AgentDispatchRun"), &json!("created")));
    assert_eq!(attempt.lock().unwrap().0["spec"]["agentStackSnapshot"]["objects"], json!([]));
    for (version, phase) in [(4, "running"), (5, "succeeded")] {
        let status =
            json!({ "phase": phase, "attempts": ["ada-1"], "completedAt": "2099-01-01T00:00:00Z" });
        operator.observe_record(run_at(version, status));
        settle(&operator, &run_key).await;
    }
    let ended = json!({ "exitReason": "completed" });
    operator.observe_record(record(Kind::AgentDispatchAttempt, "ada-1", 6, attempt_spec, ended));
    settle(&operator, &attempt_key).await;
    let actual = run.lock().unwrap().0.clone();
    assert_eq!(actual["status"]["phase"], "succeeded");
    assert_eq!(condition(&actual, "Complete")["status"], "True");
    // Somebody changes it. It is written again at the version that was read, and at no other.
    let mut edited = actual.clone();
    edited["spec"]["taskKind"] = json!("fix");
    run.lock().unwrap().0 = edited.clone();
    operator.observe_object(Kind::AgentDispatchRun, object(&edited));
    settle(&operator, &run_key).await;
    assert_eq!(run.lock().unwrap().0["spec"]["taskKind"], "review");
    let repaired = server.requests().pop().unwrap();
    assert_eq!(repaired.body["metadata"]["uid"], "created");
    assert_eq!(repaired.body["metadata"]["resourceVersion"], edited["metadata"]["resourceVersion"]);
    let calls = server.calls();
    assert!(calls.len() <= 10, "{calls:#?}");
    assert_eq!(calls.iter().filter(|call| *call == "POST events").count(), 2, "{calls:#?}");
}

/// A run whose cost and sub-agents change as often as its agent answers, with its Job.
#[tokio::test]
async fn long_run_needs_at_most_ten_writes() {
    let store = Arc::new(MemoryFleet::default());
    let objects = Arc::new(Mutex::new(BTreeMap::<String, Stored>::new()));
    let shared = Arc::clone(&objects);
    let server = ApiServer::new(move |request| match request.method {
        Method::PATCH => {
            let path = request.path.trim_end_matches("/status").to_owned();
            shared.lock().unwrap().entry(path).or_default().apply(request)
        }
        _ => (StatusCode::CREATED, request.body.clone()),
    });
    let operator = reconciler(&server, &store, "a").await;
    let run_key = (Kind::AgentDispatchRun, "adr-1".to_owned());
    let attempt_key = (Kind::AgentDispatchAttempt, "ada-1".to_owned());
    let mut version = 1;
    let mut observe = async |run: Value, attempt: Value| {
        version += 2;
        let run_spec = json!({ "taskKind": "review" });
        operator.observe_record(record(run_key.0, "adr-1", version, run_spec, run));
        let spec = json!({ "agentDispatchRun": "adr-1", "number": 1 });
        operator.observe_record(record(attempt_key.0, "ada-1", version + 1, spec, attempt));
        for _ in 0..3 {
            settle(&operator, &run_key).await;
            settle(&operator, &attempt_key).await;
        }
    };
    let entered = json!({ "queueEnteredAt": "2026-11-19T00:00:00Z" });
    observe(json!({ "phase": "queued", "attempts": ["ada-1"] }), entered.clone()).await;
    for number in 0..500 {
        let cost = json!({ "tokens": number * 100, "turns": number });
        let run = json!({ "phase": "running", "attempts": ["ada-1"], "cost": cost,
            "eventCursor": format!("{number:020}"), "agentMuxSessionId": format!("{}", number / 100),
            "childSubagentRuns": [{ "run": "adr-2", "subagent": "s", "contextDigest": "d",
                "returned": number.to_string() }] });
        let attempt = json!({ "queueEnteredAt": "2026-11-19T00:00:00Z", "cost": cost,
            "startedAt": "2026-11-19T00:00:01Z" });
        observe(run, attempt).await;
    }
    let cost = json!({ "tokens": 50_000, "turns": 500 });
    let run = json!({ "phase": "succeeded", "attempts": ["ada-1"], "cost": cost,
        "completedAt": "2099-01-01T00:00:00Z" });
    observe(run, json!({ "exitReason": "completed", "cost": cost })).await;
    let shown = |part: &str| -> Value {
        let objects = objects.lock().unwrap();
        objects.iter().find(|(path, _)| path.contains(part)).unwrap().1.0["status"].clone()
    };
    let (run, attempt) = (shown("agentdispatchruns"), shown("agentdispatchattempts"));
    assert_eq!((&run["phase"], &run["cost"]), (&json!("succeeded"), &cost));
    assert_eq!((&attempt["exitReason"], &attempt["cost"]), (&json!("completed"), &cost));
    assert!(run.get("eventCursor").is_none());
    let writes = server.requests().iter().filter(|request| request.method != Method::GET).count();
    // Its Job and the secret of the Job. The NetworkPolicy is there since an earlier run.
    let jobs = jobs::writes_of_a_later_attempt().await;
    assert!((9..=10).contains(&(writes + jobs)), "{writes} and {jobs}: {:#?}", server.calls());
}

#[tokio::test]
async fn unknown_object_is_deleted_only_if_the_operator_created_it() {
    let store = Arc::new(MemoryFleet::default());
    let server = ApiServer::new(|request| (StatusCode::OK, request.body.clone()));
    let operator = reconciler(&server, &store, "a").await;
    let mut run = json!({ "metadata": { "name": "adr-1", "uid": "u", "resourceVersion": "1" },
        "spec": {}, "status": {} });
    operator.observe_object(Kind::AgentDispatchRun, object(&run));
    let key = (Kind::AgentDispatchRun, "adr-1".to_owned());
    settle(&operator, &key).await;
    assert!(server.requests().is_empty(), "a person created it");
    run["metadata"]["labels"] = json!({ "app.kubernetes.io/managed-by": "bailiwick-operator" });
    operator.observe_object(Kind::AgentDispatchRun, object(&run));
    settle(&operator, &key).await;
    assert_eq!(server.calls(), ["DELETE agentdispatchruns/adr-1"]);
    assert_eq!(server.requests()[0].body["preconditions"]["uid"], "u");
}

fn list(items: &[Value]) -> Answer {
    let body = json!({ "apiVersion": "v1", "kind": "List", "items": items,
        "metadata": { "resourceVersion": "7" } });
    (StatusCode::OK, body)
}

#[tokio::test]
async fn leader_lists_again_when_its_watch_is_too_old() {
    let store = Arc::new(MemoryFleet::default());
    let mut declared = pool(valid());
    declared["metadata"]["finalizers"] = json!([FINALIZER]);
    let stored = Arc::new(Mutex::new(Stored(declared)));
    let (mut lists, shared) = (0, Arc::clone(&stored));
    let server = ApiServer::new(move |request| {
        let is_watch = request.query.contains("watch=true");
        let is_pools = request.path.ends_with("runnerpools");
        match (&request.method, is_watch) {
            (&Method::GET, _) if request.path.ends_with("/namespaces/agents") => {
                let metadata = json!({ "name": "agents", "uid": "n-1" });
                let namespace =
                    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
                (StatusCode::OK, namespace)
            }
            (&Method::GET, _) if request.path.contains("/leases/") => {
                refusal(StatusCode::NOT_FOUND, "NotFound")
            }
            (&Method::GET, true) if is_pools && lists == 1 => {
                let expired = refusal(StatusCode::GONE, "Expired").1;
                (StatusCode::OK, json!({ "type": "ERROR", "object": expired }))
            }
            (&Method::GET, true) => OPEN,
            (&Method::GET, false) if is_pools => {
                lists += 1;
                // It was created while there was no watch.
                if lists == 1 { list(&[]) } else { list(&[shared.lock().unwrap().0.clone()]) }
            }
            (&Method::GET, false) => list(&[]),
            (&Method::PATCH, _) => shared.lock().unwrap().apply(request),
            _ => (StatusCode::CREATED, request.body.clone()),
        }
    });
    let cluster = Cluster::new(server.client.clone(), "agents");
    let settings = Settings {
        identity: "a".to_owned(),
        history: Duration::from_secs(60),
        takeover: Takeover::SameNamespace,
    };
    let shutdown = async {
        while stored.lock().unwrap().0["status"].is_null() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    run(cluster, client(&store), &settings, shutdown).await.unwrap();
    assert_eq!(copy(&store).await.unwrap().spec["capacity"], 2);
    assert_eq!(condition(&stored.lock().unwrap().0, "Synced")["status"], "True");
    let lists = |request: &&ReceivedRequest| {
        request.path.ends_with("runnerpools") && !request.query.contains("watch")
    };
    assert_eq!(server.requests().iter().filter(lists).count(), 2);
    let lease =
        server.requests().into_iter().find(|request| request.path.ends_with("/leases")).unwrap();
    assert_eq!(lease.body["spec"]["holderIdentity"], "a");
}

#[tokio::test]
async fn leader_releases_the_lease_when_the_server_refuses_its_token() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answers = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 16_384];
            let _ = stream.read(&mut bytes).await.unwrap();
            let text =
                "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(text.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    let address = ServerAddress::parse(&address, PlainHttp::LoopbackOnly).unwrap();
    let token = Token::parse("bwk_0123456789abcdef0123456789abcdef").unwrap();
    let refusing = Http::new(address, &token).unwrap();
    let lease = Arc::new(Mutex::new(Value::Null));
    let shared = Arc::clone(&lease);
    let server = ApiServer::new(move |request| {
        let mut lease = shared.lock().unwrap();
        if request.path.ends_with("/namespaces/agents") {
            let metadata = json!({ "name": "agents", "uid": "n-1" });
            return (StatusCode::OK, json!({ "metadata": metadata }));
        }
        match request.method {
            Method::GET if lease.is_null() => refusal(StatusCode::NOT_FOUND, "NotFound"),
            Method::GET => (StatusCode::OK, lease.clone()),
            _ => {
                *lease = request.body.clone();
                lease["metadata"]["resourceVersion"] = json!("1");
                (StatusCode::OK, lease.clone())
            }
        }
    });
    let cluster = Cluster::new(server.client.clone(), "agents");
    let settings = Settings {
        identity: "a".to_owned(),
        history: Duration::from_secs(60),
        takeover: Takeover::SameNamespace,
    };
    let ended = run(cluster, Arc::new(refusing), &settings, std::future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
    assert!(matches!(ended, Err(OperatorError::TokenRefused)), "{ended:?}");
    let holders: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.method != Method::GET)
        .map(|request| request.body["spec"]["holderIdentity"].clone())
        .collect();
    assert_eq!(holders.first(), Some(&json!("a")), "it led");
    assert_ne!(lease.lock().unwrap()["spec"]["holderIdentity"], "a", "the Lease is free");
    answers.abort();
}

#[tokio::test]
async fn request_to_a_busy_server_is_repeated_after_the_time_it_names() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = tokio::spawn(async move {
        let mut requests = Vec::new();
        for answer in ["429 Too Many Requests\r\nRetry-After: 1", "200 OK"] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 16_384];
            let count = stream.read(&mut bytes).await.unwrap();
            requests.push((Instant::now(), String::from_utf8_lossy(&bytes[..count]).into_owned()));
            let body = pool(valid()).to_string();
            let length = body.len();
            let text = format!(
                "HTTP/1.1 {answer}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n{body}"
            );
            stream.write_all(text.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
        requests
    });
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let cluster = Cluster::new(kube::Client::try_from(config).unwrap(), "agents");
    let written = cluster.apply(Kind::RunnerPool, "fast", &pool(valid())).await.unwrap();
    assert_eq!(written.uid(), "u-1");
    let requests = answers.await.unwrap();
    assert!(requests.iter().all(|(_, text)| text.starts_with("PATCH ")), "{requests:?}");
    assert!(requests[1].0 - requests[0].0 >= Duration::from_secs(1), "{requests:?}");
}

#[tokio::test]
async fn binding_shows_the_permissions_that_the_api_server_denies() {
    let store = Arc::new(MemoryFleet::default());
    let declared = json!({ "metadata": { "name": "logs", "namespace": "agents", "uid": "u-2",
            "generation": 1, "resourceVersion": "1", "finalizers": [FINALIZER] },
        "spec": { "subject": { "kind": "service-account", "name": "runner" },
            "scope": { "kind": "namespace", "name": "default" },
            "roleRef": { "kind": "Role", "name": "reader" },
            "resourceRules": [{ "resources": ["pods", "pods/log"], "verbs": ["get"] }] } });
    let stored = Arc::new(Mutex::new(Stored(declared.clone())));
    let shared = Arc::clone(&stored);
    let server = ApiServer::new(move |request| {
        if request.path.ends_with("localsubjectaccessreviews") {
            let spec = request.body["spec"].clone();
            let allowed = spec["resourceAttributes"]["subresource"].is_null();
            let status = json!({ "allowed": allowed });
            return (
                StatusCode::CREATED,
                json!({ "metadata": {}, "spec": spec, "status": status }),
            );
        }
        storing(&shared)(request)
    });
    let operator = reconciler(&server, &store, "a").await;
    let identity = json!({ "namespace": "default", "serviceAccountName": "runner-account",
        "owner": { "kind": "organization", "name": "o" } });
    operator.observe_record(record(Kind::AgentServiceAccount, "runner", 1, identity, Value::Null));
    operator.observe_object(Kind::AgentRoleBinding, object(&declared));
    settle(&operator, &(Kind::AgentRoleBinding, "logs".to_owned())).await;
    let actual = stored.lock().unwrap().0.clone();
    let access = condition(&actual, "KubernetesAccess");
    assert_eq!(
        (&access["status"], &access["reason"]),
        (&json!("False"), &json!("MissingPermissions"))
    );
    assert!(access["message"].as_str().unwrap().contains("lacks: get pods/log;"), "{access}");
    let reviews: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.path.ends_with("accessreviews"))
        .collect();
    assert_eq!(reviews.len(), 2, "answers are cached for some time");
    assert_eq!(reviews[0].body["spec"]["user"], "system:serviceaccount:agents:runner-account");
    let others = |call: &String| !call.contains("accessreviews") && !call.contains("events");
    let written: Vec<_> = server.calls().into_iter().filter(others).collect();
    assert_eq!(written, ["PATCH agentrolebindings/logs/status"], "no permission is created");
    // The control plane is told as well, so that admission knows it.
    let recorded = store.get(Kind::AgentRoleBinding, DEFAULT_NAMESPACE, "logs").await.unwrap();
    let recorded = recorded.unwrap();
    let report = &recorded.status["access"]["report"];
    assert_eq!(
        (&report["answer"], &report["missing"]),
        (&json!("missing"), &json!(["get pods/log"]))
    );
    assert_eq!(report["account"], "default/runner-account");
    let typed = recorded.typed::<AgentRoleBinding>().unwrap();
    assert_eq!(report["specDigest"], json!(typed.spec_digest().to_string()));
    let remedy = report["remedy"].as_str().unwrap();
    assert!(remedy.contains("kind: Role") && remedy.contains("runner-account"), "{remedy}");
}

#[tokio::test]
async fn deposed_operator_reports_nothing_of_a_binding() {
    let store = Arc::new(MemoryFleet::default());
    let server = ApiServer::new(|request| {
        let spec = request.body["spec"].clone();
        let status = json!({ "allowed": true });
        (StatusCode::CREATED, json!({ "metadata": {}, "spec": spec, "status": status }))
    });
    let operator = reconciler(&server, &store, "a").await;
    let spec = json!({ "subject": { "kind": "service-account", "name": "runner" },
        "scope": { "kind": "namespace", "name": "default" },
        "roleRef": { "kind": "Role", "name": "reader" },
        "resourceRules": [{ "resources": ["pods"], "verbs": ["get"] }] });
    let declared = record(Kind::AgentRoleBinding, "logs", 0, spec, Value::Null);
    let applied = apply(&*store, &[declared], "ada", Moment::from_millis(1), false).await.unwrap();
    let access = async || {
        let stored = store.get(Kind::AgentRoleBinding, DEFAULT_NAMESPACE, "logs").await.unwrap();
        stored.unwrap().status["access"].clone()
    };
    operator.observe_record(applied[0].object.clone());
    let key = (Kind::AgentRoleBinding, "logs".to_owned());
    let next = reconciler(&server, &store, "b").await;
    assert_eq!(operator.reconcile(&key).await, Outcome::Deposed);
    assert!(access().await.is_null());
    // The one that leads reports it.
    next.observe_record(applied[0].object.clone());
    assert!(matches!(next.reconcile(&key).await, Outcome::Later(_)));
    assert_eq!(access().await["report"]["answer"], "unknown", "it knows no account yet");
}

#[tokio::test]
async fn operator_without_its_role_does_not_start() {
    for (status, is_refused) in [
        (json!({ "incomplete": false, "resourceRules": [], "nonResourceRules": [] }), true),
        (json!({ "incomplete": true, "resourceRules": [], "nonResourceRules": [] }), false),
        (
            json!({ "incomplete": false, "nonResourceRules": [], "resourceRules": [
                { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] }),
            false,
        ),
        (Value::Null, false),
    ] {
        let answer = status.clone();
        let server = ApiServer::new(move |request| {
            let (metadata, spec) = (json!({}), request.body["spec"].clone());
            (StatusCode::CREATED, json!({ "metadata": metadata, "spec": spec, "status": answer }))
        });
        let checked = check_own_rights(&Cluster::new(server.client.clone(), "agents")).await;
        assert_eq!(checked.is_err(), is_refused, "{status}: {checked:?}");
        if let Err(error) = checked {
            let message = error.to_string();
            assert!(message.contains("get agentstacks.bailiwick.dev"), "{message}");
            assert!(
                message.contains("bailiwick-kubernetes access --namespace agents"),
                "{message}"
            );
        }
        let asked = server.requests().remove(0);
        assert!(asked.path.ends_with("/selfsubjectrulesreviews"), "{}", asked.path);
        assert_eq!(asked.body["spec"]["namespace"], "agents");
    }
}

/// `cargo test -p bailiwick-operator --test it -- --ignored --nocapture memory_of` prints what the operator needs.
#[tokio::test]
#[ignore = "a measurement"]
async fn memory_of_ten_thousand_objects() {
    let resident = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse().unwrap()
    };
    let store = Arc::new(MemoryFleet::default());
    let server = ApiServer::new(|request| (StatusCode::CREATED, request.body.clone()));
    let operator = reconciler(&server, &store, "a").await;
    let before = resident();
    let definition = json!({ "spec": { "prompt": "x".repeat(20_000) } });
    for number in 0..10_000_u64 {
        let spec = json!({ "agentDispatchRun": "adr-1", "number": number,
            "agentStackSnapshot": { "digest": "d", "objects": [definition] } });
        let status = json!({ "limits": [definition] });
        let name = format!("ada-{number}");
        operator.observe_record(record(Kind::AgentDispatchAttempt, &name, number, spec, status));
    }
    let grown = resident().saturating_sub(before);
    eprintln!("10,000 attempts with 40 kB each: {grown} kB more resident memory");
    assert!(grown < 100_000, "{grown} kB: the definitions are kept");
}
