//! What the operator and a real API server say to each other, step by step: recorded with `RECORD=DIR
//! scripts/test-kubernetes KUBECONFIG`, and replayed from the files in `recorded/`.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bailiwick_fleet::ports::{FleetStore as _, MemoryFleet};
use bailiwick_kubernetes::sync::{FINALIZER, NamespaceUid, Takeover};
use bailiwick_operator::sync::{Cluster, ControlPlane, Leadership, Outcome, Reconciler};
use bailiwick_resources::{AnyObject, DEFAULT_NAMESPACE, Kind};
use futures_util::StreamExt as _;
use http::{Method, StatusCode};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::api_server::{ApiServer, Stored};
use crate::exchanges::{NAMESPACE, Recorder, Replay, recorded, store};
use crate::real_cluster::TestNamespace;
use crate::sync::client as control_plane;

type Scenario = fn(Client, String) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const SCENARIOS: [(&str, Scenario); 4] = [
    ("declared", |client, namespace| Box::pin(declared(client, namespace))),
    ("conflict", |client, namespace| Box::pin(conflict(client, namespace))),
    ("refused", |client, namespace| Box::pin(refused(client, namespace))),
    ("gone", |client, namespace| Box::pin(gone(client, namespace))),
];

/// A person and the operator, one after the other, in one namespace.
struct Place {
    pools: Api<DynamicObject>,
    cluster: Cluster,
    store: Arc<MemoryFleet>,
    operator: Reconciler,
}

fn key() -> (Kind, String) {
    (Kind::RunnerPool, "fast".to_owned())
}

impl Place {
    async fn new(client: Client, namespace: &str) -> Self {
        let resource = ApiResource {
            group: "bailiwick.dev".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "bailiwick.dev/v1alpha1".to_owned(),
            kind: Kind::RunnerPool.to_string(),
            plural: Kind::RunnerPool.plural().to_owned(),
        };
        let pools = Api::namespaced_with(client.clone(), namespace, &resource);
        let cluster = Cluster::new(client, namespace);
        let store = Arc::new(MemoryFleet::default());
        let (uid, takeover) = (NamespaceUid::parse("n-1").unwrap(), Takeover::SameNamespace);
        let control_plane =
            ControlPlane::take_over(control_plane(&store), "a", uid, takeover).await.unwrap();
        let leadership = Arc::new(Leadership::since(Instant::now()));
        let history = Duration::from_secs(3_600);
        let operator = Reconciler::new(cluster.clone(), control_plane, leadership, history);
        Self { pools, cluster, store, operator }
    }

    async fn create(&self, spec: Value) -> Result<DynamicObject, kube::Error> {
        let body = json!({ "apiVersion": "bailiwick.dev/v1alpha1", "kind": "RunnerPool",
            "metadata": { "name": "fast" }, "spec": spec });
        let object: DynamicObject = serde_json::from_value(body).unwrap();
        self.pools.create(&PostParams::default(), &object).await
    }

    /// Reads the object, as a watch would.
    async fn observe(&self) -> bool {
        let found = self.cluster.get(Kind::RunnerPool, "fast").await.unwrap();
        let is_there = found.is_some();
        found.into_iter().for_each(|object| self.operator.observe_object(Kind::RunnerPool, object));
        is_there
    }

    async fn settle(&self) -> Outcome {
        for _ in 0..20 {
            let outcome = self.operator.reconcile(&key()).await;
            if outcome != Outcome::Progress {
                return outcome;
            }
        }
        panic!("the reconciliation does not end");
    }

    async fn copy(&self) -> Option<AnyObject> {
        self.store.get(Kind::RunnerPool, DEFAULT_NAMESPACE, "fast").await.unwrap()
    }
}

fn spec() -> Value {
    json!({ "capacity": 2, "trustTier": "trusted", "serviceAccountRef": "runner" })
}

/// Defaults are added, unknown fields are removed, and a deletion waits for the operator.
async fn declared(client: Client, namespace: String) {
    let place = Place::new(client, &namespace).await;
    let mut surprising = spec();
    surprising["surprise"] = json!(1);
    let created = place.create(surprising).await.unwrap();
    assert_eq!(
        (&created.data["spec"]["paused"], created.data["spec"].get("surprise")),
        (&json!(false), None)
    );
    assert!(place.observe().await);
    assert_eq!(place.settle().await, Outcome::InStep);
    assert_eq!(place.copy().await.unwrap().spec["paused"], false);
    place.pools.delete("fast", &DeleteParams::default()).await.unwrap();
    assert!(place.observe().await, "the finalizer keeps it");
    assert_eq!(place.operator.reconcile(&key()).await, Outcome::Progress);
    assert!(place.copy().await.is_none(), "first its copy is deleted");
    let there = place.pools.get("fast").await.unwrap();
    assert_eq!(there.finalizers(), [FINALIZER]);
    assert_eq!(place.operator.reconcile(&key()).await, Outcome::InStep);
    assert!(!place.observe().await);
}

/// A person writes between a read of the operator and its write.
async fn conflict(client: Client, namespace: String) {
    let place = Place::new(client, &namespace).await;
    place.create(spec()).await.unwrap();
    place.observe().await;
    let label = Patch::Merge(json!({ "metadata": { "labels": { "team": "a" } } }));
    place.pools.patch("fast", &PatchParams::default(), &label).await.unwrap();
    assert_eq!(place.operator.reconcile(&key()).await, Outcome::Conflict);
    assert_eq!(place.settle().await, Outcome::InStep);
    assert_eq!(place.copy().await.unwrap().metadata.labels["team"], "a");
}

/// What `bailiwick apply` refuses, the API server refuses, too.
async fn refused(client: Client, namespace: String) {
    let place = Place::new(client, &namespace).await;
    let mut faults = [spec(), spec(), spec()];
    faults[0]["capacity"] = json!(0);
    faults[1]["workerLabels"] = json!({ "a": "b" });
    faults[2]["trustTier"] = json!("something else");
    for spec in faults {
        match place.create(spec.clone()).await {
            Err(kube::Error::Api(status)) => assert_eq!(status.code, 422, "{spec}: {status:?}"),
            other => panic!("{spec}: {other:?}"),
        }
    }
}

/// A watch from a version that is not kept any more.
async fn gone(client: Client, namespace: String) {
    let place = Place::new(client, &namespace).await;
    let code = match place.pools.watch(&WatchParams::default().timeout(2), "1").await {
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
        Ok(events) => match Box::pin(events).next().await {
            Some(Ok(WatchEvent::Error(status))) => status.code,
            Some(Err(kube::Error::Api(status))) => status.code,
            other => panic!("{other:?}"),
        },
    };
    assert_eq!(code, 410);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the API server of KUBECONFIG: scripts/test-kubernetes"]
async fn exchanges_with_a_real_cluster_can_be_replayed() {
    for (name, scenario) in SCENARIOS {
        let fixture = TestNamespace::new().await;
        let recorder = Recorder::new(&fixture.namespace);
        scenario(recorder.client(&fixture.client), fixture.namespace.clone()).await;
        fixture.clean().await;
        let replay = Replay::new(recorder.exchanges());
        scenario(replay.client(), NAMESPACE.to_owned()).await;
        assert_eq!(replay.differences(), Vec::<String>::new(), "{name}");
        if let Some(directory) = std::env::var_os("RECORD") {
            store(directory.as_ref(), name, &recorder.exchanges());
        }
    }
}

#[tokio::test]
#[ignore = "nothing is recorded yet: RECORD=DIR scripts/test-kubernetes KUBECONFIG"]
async fn recorded_exchanges_are_repeated() {
    for (name, scenario) in SCENARIOS {
        let exchanges = recorded(name).unwrap_or_else(|| panic!("`{name}` is not recorded"));
        let replay = Replay::new(exchanges);
        scenario(replay.client(), NAMESPACE.to_owned()).await;
        assert_eq!(replay.differences(), Vec::<String>::new(), "{name}");
    }
}

/// The tool itself, with an API server in memory.
#[tokio::test]
async fn replay_detects_a_request_that_differs() {
    let stored = Arc::new(Mutex::new(Stored::default()));
    let server = ApiServer::new(move |request| {
        let mut stored = stored.lock().unwrap();
        match request.method {
            Method::GET => (StatusCode::OK, stored.0.clone()),
            Method::POST => {
                stored.0 = request.body.clone();
                for (field, value) in
                    [("uid", json!("u")), ("resourceVersion", json!("7")), ("generation", json!(1))]
                {
                    stored.0["metadata"][field] = value;
                }
                (StatusCode::CREATED, stored.0.clone())
            }
            _ => stored.apply(request),
        }
    });
    let recorder = Recorder::new("bailiwick-test-xyz");
    // As `conflict`, without the person.
    let steps = async |client: Client, namespace: &str, capacity: u32| {
        let place = Place::new(client, namespace).await;
        let mut spec = spec();
        spec["capacity"] = json!(capacity);
        place.create(spec).await.unwrap();
        place.observe().await;
        place.settle().await
    };
    let client = recorder.client(&server.client);
    assert_eq!(steps(client, "bailiwick-test-xyz", 2).await, Outcome::InStep);
    let exchanges = recorder.exchanges();
    assert_eq!(exchanges.len(), 4, "{exchanges:#?}");
    let text = format!("{exchanges:?}");
    assert!(!text.contains("xyz"), "the namespace is replaced: {text}");
    let same = Replay::new(exchanges.clone());
    assert_eq!(steps(same.client(), NAMESPACE, 2).await, Outcome::InStep);
    assert_eq!(same.differences(), Vec::<String>::new());
    let shorter =
        Replay::new(exchanges.iter().cloned().chain(exchanges.first().cloned()).collect());
    assert_eq!(steps(shorter.client(), NAMESPACE, 2).await, Outcome::InStep);
    assert_eq!(shorter.differences().len(), 1, "a recorded request was not sent");
    let other = Replay::new(exchanges);
    let place = Place::new(other.client(), NAMESPACE).await;
    assert!(place.create(json!({ "capacity": 3 })).await.is_err());
    let differences = other.differences();
    assert!(differences[0].contains("\"capacity\": 3"), "{differences:?}");
}
