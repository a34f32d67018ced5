//! The requests to the API server about the Jobs of attempts.

use std::collections::BTreeMap;

use bailiwick_kubernetes::jobs::{
    AttemptJob, Cluster, Problem, attempt_of, job, network_policy, number_of, refusal, selector,
    token_secret,
};
use bailiwick_kubernetes::manifests::Label;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod, ResourceQuota, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use thiserror::Error;

/// Who writes the network policies.
const FIELD_MANAGER: &str = "bailiwick-jobs";
/// The label of a pod with the name of its Job.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// A request to the API server failed.
#[derive(Debug, Error)]
#[error("{what}: {source}")]
pub struct ClusterError {
    what: &'static str,
    #[source]
    source: Box<kube::Error>,
}

fn failed(what: &'static str) -> impl FnOnce(kube::Error) -> ClusterError {
    move |error| ClusterError { what, source: Box::new(error) }
}

/// The Jobs of all attempts, with their pods.
#[derive(Debug, Default)]
pub struct Listed {
    jobs: BTreeMap<(String, u64), Job>,
    pods: BTreeMap<String, Pod>,
}

impl Listed {
    /// A Job of an attempt.
    pub fn job(&self, attempt: &str, number: u64) -> Option<&Job> {
        self.jobs.get(&(attempt.to_owned(), number))
    }

    /// The pod of a Job.
    pub fn pod(&self, job: &Job) -> Option<&Pod> {
        self.pods.get(&job.name_any())
    }

    /// All Jobs, with their attempts and numbers.
    pub fn all(&self) -> impl Iterator<Item = (&str, u64, &Job)> {
        self.jobs.iter().map(|((attempt, number), job)| (attempt.as_str(), *number, job))
    }
}

/// What came of making a Job.
pub enum Created {
    /// It is there, made now or before.
    Job(Box<Job>),
    /// The API server refuses it.
    Refused(Problem),
}

/// The API server.
pub struct JobCluster {
    client: Client,
    cluster: Cluster,
}

impl JobCluster {
    pub fn new(client: Client, cluster: Cluster) -> Self {
        Self { client, cluster }
    }

    /// The namespace of a Job.
    pub fn namespace(&self, wanted: &AttemptJob<'_>) -> Label {
        wanted.namespace(&self.cluster)
    }

    /// The Jobs and pods of attempts in these namespaces. The answer is not from a cache.
    pub async fn list(&self, namespaces: &[Label]) -> Result<Listed, ClusterError> {
        let mut listed = Listed::default();
        let ours = ListParams::default().labels(&selector());
        for namespace in namespaces {
            let namespace = namespace.to_string();
            let jobs: Api<Job> = Api::namespaced(self.client.clone(), &namespace);
            for job in jobs.list(&ours).await.map_err(failed("Jobs cannot be listed"))? {
                let of = attempt_of(&job.metadata).zip(number_of(&job.metadata));
                if let Some((attempt, number)) = of {
                    listed.jobs.insert((attempt.to_owned(), number), job);
                }
            }
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
            for pod in pods.list(&ours).await.map_err(failed("pods cannot be listed"))? {
                if let Some(job) = pod.labels().get(JOB_NAME) {
                    listed.pods.insert(job.clone(), pod);
                }
            }
        }
        Ok(listed)
    }

    /// Makes a Job if it is not there.
    pub async fn create(&self, wanted: &AttemptJob<'_>) -> Result<Created, ClusterError> {
        let job = job(wanted, &self.cluster);
        let namespace = self.namespace(wanted).to_string();
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &namespace);
        match jobs.create(&PostParams::default(), &job).await {
            Ok(made) => Ok(Created::Job(Box::new(made))),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let there = jobs.get(&job.name_any()).await;
                Ok(Created::Job(Box::new(there.map_err(failed("a Job cannot be read"))?)))
            }
            // A quota, an admission policy, a missing permission or a field that this API server does not accept.
            Err(kube::Error::Api(status)) if status.is_forbidden() || status.is_invalid() => {
                let quotas = self.quotas(&namespace).await?;
                Ok(Created::Refused(refusal(&quotas, &job, &status.message)))
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                let missing = format!("the namespace {namespace} does not exist");
                Ok(Created::Refused(refusal(&[], &job, &missing)))
            }
            Err(error) => Err(failed("a Job cannot be made")(error)),
        }
    }

    /// Stores the token of a Job, unless it has one.
    pub async fn add_token(&self, job: &Job, token: &str) -> Result<(), ClusterError> {
        let Some(secret) = token_secret(job, token) else { return Ok(()) };
        let namespace = job.namespace().unwrap_or_default();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        match secrets.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(failed("a secret cannot be made")(error)),
        }
    }

    /// Deletes exactly this Job, with its pod and its secret.
    pub async fn delete(&self, job: &Job) -> Result<(), ClusterError> {
        let jobs: Api<Job> =
            Api::namespaced(self.client.clone(), &job.namespace().unwrap_or_default());
        let exactly = Preconditions { uid: job.uid(), resource_version: None };
        let how = DeleteParams::background().preconditions(exactly);
        match jobs.delete(&job.name_any(), &how).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Ok(())
            }
            Err(error) => Err(failed("a Job cannot be deleted")(error)),
        }
    }

    /// What the pods of attempts may reach.
    pub async fn apply_network_policy(&self, namespace: &Label) -> Result<(), ClusterError> {
        let policy = network_policy(namespace, &self.cluster);
        let all: Api<NetworkPolicy> = Api::namespaced(self.client.clone(), &namespace.to_string());
        let how = PatchParams::apply(FIELD_MANAGER).force();
        let applied = all.patch(&policy.name_any(), &how, &Patch::Apply(&policy)).await;
        applied.map(drop).map_err(failed("a NetworkPolicy cannot be applied"))
    }

    /// The quotas of a namespace.
    pub async fn quotas(&self, namespace: &str) -> Result<Vec<ResourceQuota>, ClusterError> {
        let all: Api<ResourceQuota> = Api::namespaced(self.client.clone(), namespace);
        let listed = all.list(&ListParams::default()).await;
        Ok(listed.map_err(failed("quotas cannot be listed"))?.items)
    }

    /// Why the API server refused the pod of a Job, if it did.
    pub async fn refused_pod(&self, job: &Job) -> Result<Option<String>, ClusterError> {
        let all: Api<Event> =
            Api::namespaced(self.client.clone(), &job.namespace().unwrap_or_default());
        let about = format!(
            "involvedObject.kind=Job,involvedObject.name={},reason=FailedCreate",
            job.name_any()
        );
        let listed = all.list(&ListParams::default().fields(&about)).await;
        let listed = listed.map_err(failed("events cannot be listed"))?;
        Ok(listed.items.into_iter().next_back().and_then(|event| event.message))
    }
}
