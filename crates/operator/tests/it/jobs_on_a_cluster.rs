//! The controller of Jobs with a real API server. No node is needed: the tests set the status of pods.
//!
//! `scripts/test-kubernetes` runs them with the cluster of `KUBECONFIG`.

use bailiwick_resources::PodProblem;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod, ResourceQuota, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::jobs::{Queue, controller_in, job_name};

/// A separate namespace, which the test deletes at its end.
struct TestNamespace {
    client: Client,
    namespace: String,
}

impl TestNamespace {
    async fn new(name: &str) -> Self {
        let client = Client::try_default().await.unwrap();
        let prefix = std::env::var("BAILIWICK_TEST_PREFIX").unwrap_or("bailiwick-test".to_owned());
        let namespace = format!("{prefix}-{name}-{}", std::process::id());
        let object = json!({
            "metadata": {
                "name": namespace,
                "labels": { "pod-security.kubernetes.io/enforce": "privileged" },
            },
        });
        let object: Namespace = serde_json::from_value(object).unwrap();
        let all: Api<Namespace> = Api::all(client.clone());
        all.create(&PostParams::default(), &object).await.unwrap();
        Self { client, namespace }
    }

    fn all<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        <K as kube::Resource>::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates the pod of a Job from its template, and sets its status as a node would.
    async fn run_pod(&self, job: &str, status: Value) {
        let pods: Api<Pod> = self.all();
        let job = self.all::<Job>().get(job).await.unwrap();
        let template = job.spec.unwrap().template;
        let name = job.metadata.name.unwrap();
        let mut metadata = template.metadata.unwrap();
        metadata.name = Some(name.clone());
        metadata.owner_references = Some(vec![OwnerReference {
            api_version: "batch/v1".to_owned(),
            kind: "Job".to_owned(),
            name: name.clone(),
            uid: job.metadata.uid.unwrap(),
            controller: Some(true),
            block_owner_deletion: None,
        }]);
        let pod = Pod { metadata, spec: template.spec, status: None };
        if pods.get_opt(&name).await.unwrap().is_none() {
            pods.create(&PostParams::default(), &pod).await.unwrap();
        }
        let patch = Patch::Merge(json!({ "status": status }));
        pods.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn delete(self) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let pods: Api<Pod> = self.all();
        pods.delete_collection(&now, &ListParams::default()).await.unwrap();
        let all: Api<Namespace> = Api::all(self.client.clone());
        all.delete(&self.namespace, &DeleteParams::default()).await.unwrap();
    }
}

fn container(state: Value) -> Value {
    json!([{ "name": "worker", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state }])
}

#[tokio::test]
#[ignore = "needs a cluster: scripts/test-kubernetes"]
async fn api_server_stores_the_objects_of_an_attempt_unchanged() {
    let fixture = TestNamespace::new("jobs").await;
    let queue = Queue::with(&["fixer-1"]);
    for _ in 0..3 {
        controller_in(&fixture.namespace, fixture.client.clone(), &queue).round().await;
    }
    let name = job_name("fixer-1", 1);
    let jobs = fixture.all::<Job>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].metadata.name, Some(name.clone()));
    // The API server removed or changed none of the requested fields.
    let spec = serde_json::to_value(jobs[0].spec.as_ref().unwrap()).unwrap();
    let pod = &spec["template"]["spec"];
    assert_eq!(
        (&pod["hostUsers"], &pod["automountServiceAccountToken"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(pod["containers"][0]["securityContext"]["procMount"], "Unmasked");
    assert_eq!(spec["podFailurePolicy"]["rules"].as_array().unwrap().len(), 4);
    let secret = fixture.all::<Secret>().get(&name).await.unwrap();
    assert_eq!(
        secret.metadata.owner_references.unwrap()[0].uid,
        jobs[0].metadata.uid.clone().unwrap()
    );
    let policy = fixture.all::<NetworkPolicy>().get("bailiwick-attempts-bailiwick").await.unwrap();
    assert_eq!(policy.spec.unwrap().egress.unwrap().len(), 3);
    fixture.delete().await;
}

#[tokio::test]
#[ignore = "needs a cluster: scripts/test-kubernetes"]
async fn status_of_a_pod_is_recorded_for_the_attempt() {
    let fixture = TestNamespace::new("pods").await;
    let queue = Queue::with(&["fixer-1"]);
    let mut controller = controller_in(&fixture.namespace, fixture.client.clone(), &queue);
    controller.round().await;
    let waiting = |reason: &str| {
        let state = json!({ "waiting": { "reason": reason, "message": "told" } });
        json!({ "phase": "Pending", "containerStatuses": container(state) })
    };
    let unscheduled =
        json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" });
    let disrupted = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    });
    let first = job_name("fixer-1", 1);
    for (status, problem) in [
        (
            json!({ "phase": "Pending", "conditions": [unscheduled] }),
            Some(PodProblem::Unschedulable),
        ),
        (waiting("ImagePullBackOff"), Some(PodProblem::ImagePullFailed)),
        (waiting("CreateContainerConfigError"), Some(PodProblem::ContainerNotStarted)),
        (json!({ "phase": "Running", "containerStatuses": container(json!({})) }), None),
        (json!({ "phase": "Failed", "conditions": [disrupted] }), Some(PodProblem::Preempted)),
    ] {
        let mut status = status;
        status.as_object_mut().unwrap().entry("conditions").or_insert(json!([]));
        fixture.run_pod(&first, status.clone()).await;
        controller.round().await;
        assert_eq!(queue.problem(), problem, "{status}");
    }
    controller.round().await;
    let second = job_name("fixer-1", 2);
    let state = json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } });
    fixture
        .run_pod(&second, json!({ "phase": "Failed", "containerStatuses": container(state) }))
        .await;
    controller.round().await;
    assert_eq!(queue.given_up(), [("fixer-1".to_owned(), PodProblem::OutOfMemory)]);
    for _ in 0..16 {
        controller.round().await;
    }
    let remaining = fixture.all::<Job>().list(&ListParams::default()).await.unwrap().items;
    let live = remaining.iter().filter(|job| job.metadata.deletion_timestamp.is_none());
    assert_eq!(live.count(), 0, "both Jobs were orphans");
    fixture.delete().await;
}

#[tokio::test]
#[ignore = "needs a cluster: scripts/test-kubernetes"]
async fn full_quota_is_distinguished_from_a_refused_permission() {
    let fixture = TestNamespace::new("quota").await;
    let queue = Queue::with(&["fixer-1"]);
    let mut controller = controller_in(&fixture.namespace, fixture.client.clone(), &queue);
    let hard = json!({ "count/jobs.batch": "0" });
    let quota = json!({ "metadata": { "name": "agents" }, "spec": { "hard": hard } });
    let quotas: Api<ResourceQuota> = fixture.all();
    let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    let status = Patch::Merge(json!({ "status": { "hard": hard, "used": hard } }));
    quotas.patch_status("agents", &PatchParams::default(), &status).await.unwrap();
    controller.round().await;
    assert_eq!(queue.problem(), Some(PodProblem::QuotaExceeded));
    quotas.delete("agents", &DeleteParams::default()).await.unwrap();
    for _ in 0..100 {
        controller.round().await;
        if queue.problem().is_none() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(queue.problem(), None, "the Job is created as soon as the quota allows it");
    fixture.delete().await;
}
