//! The operator with a real API server: `scripts/test-kubernetes KUBECONFIG`.
//!
//! The control plane is in memory. Each test creates a namespace and deletes it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_fleet::ports::{FleetStore as _, MemoryFleet, Write};
use bailiwick_kubernetes::crds;
use bailiwick_kubernetes::sync::{FINALIZER, Takeover};
use bailiwick_operator::sync::{Cluster, Settings, run};
use bailiwick_resources::{AnyObject, DEFAULT_NAMESPACE, Kind, Moment};
use k8s_openapi::api::core::v1::{Event, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::sync::{client as control_plane, record};

pub(crate) struct TestNamespace {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    store: Arc<MemoryFleet>,
}

impl TestNamespace {
    /// Installs the definitions and creates a namespace.
    pub(crate) async fn new() -> Self {
        let client = Client::try_default().await.unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let parameters = PatchParams::apply("test").force();
        for kind in crds::custom_kinds() {
            let definition = crds::definition(kind).unwrap();
            let name = definition.metadata.name.clone().unwrap();
            definitions.patch(&name, &parameters, &Patch::Apply(definition)).await.unwrap();
        }
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = json!({ "metadata": { "generateName": "bailiwick-test-" } });
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let created = namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        Self { client, namespace: created.name_any(), store: Arc::default() }
    }

    fn start(&self, identity: &str) -> JoinHandle<()> {
        let cluster = Cluster::new(self.client.clone(), &self.namespace);
        let client = control_plane(&self.store);
        let history = Duration::from_secs(3_600);
        let takeover = Takeover::SameNamespace;
        let settings = Settings { identity: identity.to_owned(), history, takeover };
        tokio::spawn(async move {
            let ended = run(cluster, client, &settings, std::future::pending()).await;
            panic!("the operator ended: {ended:?}");
        })
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "bailiwick.dev".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "bailiwick.dev/v1alpha1".to_owned(),
            kind: kind.to_string(),
            plural: kind.plural().to_owned(),
        };
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    async fn declare(&self, name: &str, capacity: u32) {
        let body = json!({ "apiVersion": "bailiwick.dev/v1alpha1", "kind": "RunnerPool",
            "metadata": { "name": name },
            "spec": { "capacity": capacity, "trustTier": "trusted", "serviceAccountRef": "runner" } });
        let parameters = PatchParams::apply("person");
        let pools = self.api(Kind::RunnerPool);
        pools.patch(name, &parameters, &Patch::Apply(body)).await.unwrap();
    }

    async fn object(&self, kind: Kind, name: &str) -> Value {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap()).unwrap_or_default()
    }

    async fn copy(&self, name: &str) -> Option<AnyObject> {
        self.store.get(Kind::RunnerPool, DEFAULT_NAMESPACE, name).await.unwrap()
    }

    async fn write(&self, write: Write) {
        self.store.commit(vec![write], Moment::from_millis(1)).await.unwrap();
    }

    async fn events(&self) -> Vec<(String, String)> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = events.list(&ListParams::default()).await.unwrap();
        let read = |event: Event| {
            (event.involved_object.name.unwrap_or_default(), event.reason.unwrap_or_default())
        };
        all.items.into_iter().map(read).collect()
    }

    pub(crate) async fn clean(self) {
        for kind in [Kind::RunnerPool, Kind::AgentDispatchRun, Kind::AgentDispatchAttempt] {
            let api = self.api(kind);
            for object in api.list(&ListParams::default()).await.unwrap() {
                let none = json!({ "metadata": { "finalizers": null } });
                let name = object.name_any();
                let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(none)).await;
                let _ = api.delete(&name, &DeleteParams::default()).await;
            }
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let _ = namespaces.delete(&self.namespace, &DeleteParams::background()).await;
    }
}

/// Waits until a condition is true.
macro_rules! eventually {
    ($condition:expr) => {{
        let begun = Instant::now();
        while !$condition {
            let waited = begun.elapsed();
            assert!(waited < Duration::from_secs(60), "{} is not true", stringify!($condition));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }};
}

fn condition(object: &Value, kind: &str) -> (String, String) {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|one| one["type"] == kind).unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the API server of KUBECONFIG: scripts/test-kubernetes"]
async fn declaration_is_copied_shown_and_deleted() {
    let fixture = TestNamespace::new().await;
    let operator = fixture.start("one");
    fixture.declare("fast", 2).await;
    let copied = pair("True", "Copied");
    eventually!(condition(&fixture.object(Kind::RunnerPool, "fast").await, "Synced") == copied);
    let object = fixture.object(Kind::RunnerPool, "fast").await;
    assert_eq!(object["metadata"]["finalizers"], json!([FINALIZER]));
    // Another version of the spec.
    fixture.declare("fast", 3).await;
    eventually!(fixture.copy("fast").await.is_some_and(|copy| copy.spec["capacity"] == 3));
    // The API server accepts names of annotations that the control plane refuses.
    let long = json!({ "metadata": { "labels": { "a.example/b": "x" }, "annotations": {
        "k".repeat(60): "x", format!("{}/{}", "d".repeat(200), "n".repeat(63)): "too long" } } });
    let pools = fixture.api(Kind::RunnerPool);
    pools.patch("fast", &PatchParams::default(), &Patch::Merge(long)).await.unwrap();
    let invalid = pair("False", "Invalid");
    eventually!(condition(&fixture.object(Kind::RunnerPool, "fast").await, "Synced") == invalid);
    eventually!(fixture.events().await.contains(&("fast".to_owned(), "Invalid".to_owned())));
    assert!(fixture.copy("fast").await.is_some(), "the last valid copy is retained");
    // The copy is deleted first, then the object.
    pools.delete("fast", &DeleteParams::default()).await.unwrap();
    eventually!(fixture.object(Kind::RunnerPool, "fast").await.is_null());
    assert!(fixture.copy("fast").await.is_none());
    operator.abort();
    fixture.clean().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the API server of KUBECONFIG: scripts/test-kubernetes"]
async fn runs_of_the_control_plane_are_shown_with_their_attempts() {
    let fixture = TestNamespace::new().await;
    let operator = fixture.start("one");
    let spec = json!({ "repository": "acme/app", "ref": "refs/heads/main", "sha": "0".repeat(40),
        "sourceEvent": { "source": "manual", "uid": "u" }, "sourceRefs": {}, "agentStack": "s",
        "taskKind": "review", "task": "t", "runnerPool": "fast", "trustTier": "trusted",
        "approvalPolicy": {}, "writeBackPolicy": {} });
    let mut run = record(Kind::AgentDispatchRun, "adr-1", 0, spec, json!({ "phase": "queued" }));
    let typed = run.check();
    assert!(typed.is_ok(), "{typed:?}");
    let attempt_spec = json!({ "agentDispatchRun": "adr-1", "number": 1, "attemptReason": "initial",
        "agentStackSnapshot": { "digest": "d", "objects": [] }, "contextBundleDigest": "c",
        "permissionSnapshotDigest": "p", "runnerPool": "fast" });
    let attempt = record(Kind::AgentDispatchAttempt, "ada-1", 0, attempt_spec, Value::Null);
    fixture.write(Write::Create(run.clone())).await;
    fixture.write(Write::Create(attempt)).await;
    fixture.write(Write::Status(run.clone())).await;
    eventually!(
        fixture.object(Kind::AgentDispatchRun, "adr-1").await["status"]["phase"] == "queued"
    );
    eventually!(!fixture.object(Kind::AgentDispatchAttempt, "ada-1").await.is_null());
    let object = fixture.object(Kind::AgentDispatchRun, "adr-1").await;
    let actual_attempt = fixture.object(Kind::AgentDispatchAttempt, "ada-1").await;
    assert_eq!(actual_attempt["metadata"]["ownerReferences"][0]["uid"], object["metadata"]["uid"]);
    run.status = json!({ "phase": "failed", "terminalReason": "the tests fail",
        "attempts": ["ada-1"], "completedAt": "2099-01-01T00:00:00.000Z" });
    fixture.write(Write::Status(run)).await;
    let complete = pair("True", "Failed");
    eventually!(
        condition(&fixture.object(Kind::AgentDispatchRun, "adr-1").await, "Complete") == complete
    );
    assert_eq!(fixture.events().await, [pair("adr-1", "RunFailed")]);
    // A change by a person is overwritten.
    let other = json!({ "spec": { "taskKind": "other" } });
    let runs = fixture.api(Kind::AgentDispatchRun);
    runs.patch("adr-1", &PatchParams::default(), &Patch::Merge(other)).await.unwrap();
    eventually!(
        fixture.object(Kind::AgentDispatchRun, "adr-1").await["spec"]["taskKind"] == "review"
    );
    let delete = Write::Delete {
        kind: Kind::AgentDispatchRun,
        namespace: DEFAULT_NAMESPACE.to_owned(),
        name: "adr-1".to_owned(),
        version: 0,
    };
    fixture.write(delete).await;
    eventually!(fixture.object(Kind::AgentDispatchRun, "adr-1").await.is_null());
    operator.abort();
    fixture.clean().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the API server of KUBECONFIG: scripts/test-kubernetes"]
async fn two_hundred_kills_lose_nothing_and_repeat_nothing() {
    const KILLS: u32 = 200;
    let fixture = TestNamespace::new().await;
    for kill in 0..KILLS {
        // The same identity already has the Lease, as after a restart of a container.
        let operator = fixture.start("one");
        fixture.declare(&format!("pool-{}", kill % 20), kill + 1).await;
        tokio::time::sleep(Duration::from_millis(u64::from(kill * 37 % 700))).await;
        operator.abort();
        let _ = operator.await;
    }
    let operator = fixture.start("one");
    for pool in 0..20 {
        let name = format!("pool-{pool}");
        let last = KILLS - 20 + pool + 1;
        eventually!(fixture.copy(&name).await.is_some_and(|copy| copy.spec["capacity"] == last));
        let copied = pair("True", "Copied");
        eventually!(condition(&fixture.object(Kind::RunnerPool, &name).await, "Synced") == copied);
    }
    let events = fixture.events().await;
    let once: BTreeSet<_> = events.iter().collect();
    assert_eq!(once.len(), events.len(), "no Event is repeated: {events:?}");
    operator.abort();
    fixture.clean().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the API server of KUBECONFIG: scripts/test-kubernetes"]
async fn another_operator_takes_over_when_the_first_one_ends() {
    let fixture = TestNamespace::new().await;
    let first = fixture.start("first");
    fixture.declare("one", 1).await;
    eventually!(fixture.copy("one").await.is_some());
    let second = fixture.start("second");
    first.abort();
    fixture.declare("two", 2).await;
    eventually!(fixture.copy("two").await.is_some());
    second.abort();
    fixture.clean().await;
}
