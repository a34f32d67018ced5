//! The requests to the API server about the Jobs of attempts.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_kubernetes::jobs::{
    AttemptJob, Cluster, JobPool, NamespaceError, Problem, attempt_and_number, job, job_name,
    namespace, network_policy, refusal, selector, token_secret,
};
use bailiwick_kubernetes::manifests::Label;
use bailiwick_resources::PodProblem;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod, ResourceQuota, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use thiserror::Error;

/// Who writes the network policies.
const FIELD_MANAGER: &str = "bailiwick-jobs";

/// A request to the API server failed.
#[derive(Debug, Error)]
#[error("{what}")]
pub struct ClusterError {
    what: &'static str,
    #[source]
    source: Box<kube::Error>,
}

/// Whether the API server would refuse the same request again: a quota, an admission policy, a missing permission, or
/// something that this version does not accept.
fn is_refusal(code: u16) -> bool {
    (400..500).contains(&code) && !matches!(code, 401 | 408 | 409 | 429)
}

fn failed(what: &'static str) -> impl FnOnce(kube::Error) -> ClusterError {
    move |error| ClusterError { what, source: Box::new(error) }
}

/// A Job of this installation.
#[derive(Debug)]
pub struct FoundJob {
    pub attempt: String,
    pub number: u64,
    pub job: Job,
}

/// The Jobs of attempts in the namespaces that could be listed, with their pods.
#[derive(Debug, Default)]
pub struct Listed {
    namespaces: BTreeSet<Label>,
    /// By their namespaces and names.
    jobs: BTreeMap<(Label, String), FoundJob>,
    /// By their namespaces and the uids of their Jobs. Who may create pods in one namespace can name a Job of another.
    pods: BTreeMap<(Label, String), Pod>,
}

impl Listed {
    /// Whether what it has of a namespace is all that is there.
    pub fn has(&self, namespace: &Label) -> bool {
        self.namespaces.contains(namespace)
    }

    /// The Job with exactly this name.
    pub fn job(&self, namespace: &Label, name: &str) -> Option<&Job> {
        self.jobs.get(&(namespace.clone(), name.to_owned())).map(|found| &found.job)
    }

    /// The pod of a Job.
    pub fn pod(&self, job: &Job) -> Option<&Pod> {
        let namespace = job.metadata.namespace.as_ref()?.parse::<Label>().ok()?;
        self.pods.get(&(namespace, job.metadata.uid.clone()?))
    }

    /// All Jobs, with their namespaces.
    pub fn all(&self) -> impl Iterator<Item = (&Label, &FoundJob)> {
        self.jobs.iter().map(|((namespace, _), found)| (namespace, found))
    }
}

/// Whether a policy has our labels and exactly our rules.
fn has_all_of(there: &NetworkPolicy, wanted: &NetworkPolicy) -> bool {
    let mut labels = wanted.metadata.labels.iter().flatten();
    let has_labels = labels.all(|(key, value)| {
        there.metadata.labels.as_ref().and_then(|labels| labels.get(key)) == Some(value)
    });
    has_labels && there.spec == wanted.spec
}

/// The uid of the Job that has made a pod.
fn job_of(pod: &Pod) -> Option<String> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let job = owners.find(|owner| {
        owner.controller == Some(true) && owner.kind == "Job" && owner.api_version == "batch/v1"
    });
    job.map(|owner| owner.uid.clone())
}

/// What came of making a Job.
pub enum Created {
    /// It is there, made now or before.
    Job(Box<Job>),
    /// The API server refuses it.
    Refused(Problem),
}

/// What is known of the secret with the token of a Job. The operator may not read secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSecret {
    /// It was made now.
    Stored,
    /// There is one of its name: from before a restart, or of an earlier Job and about to be deleted.
    Unknown,
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

    /// All namespaces for Jobs.
    pub fn namespaces(&self) -> BTreeSet<Label> {
        self.cluster.namespaces().cloned().collect()
    }

    /// The namespace of the Jobs of a pool. `trusted` are those that trusted pools name.
    pub fn namespace(
        &self,
        pool: &JobPool,
        trusted: &BTreeSet<String>,
    ) -> Result<Label, NamespaceError> {
        namespace(pool, trusted, &self.cluster)
    }

    /// The name of a Job.
    pub fn job_name(&self, attempt: &str, number: u64) -> String {
        job_name(&self.cluster.installation, attempt, number)
    }

    /// Adds the Jobs and pods of attempts in a namespace. The answer is not from a cache.
    pub async fn list(&self, namespace: &Label, listed: &mut Listed) -> Result<(), ClusterError> {
        let ours = ListParams::default().labels(&selector(&self.cluster.installation));
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &namespace.to_string());
        let jobs = jobs.list(&ours).await.map_err(failed("Jobs cannot be listed"))?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace.to_string());
        let pods = pods.list(&ours).await.map_err(failed("pods cannot be listed"))?;
        listed.namespaces.insert(namespace.clone());
        for job in jobs {
            if let Some((attempt, number)) = self.attempt_of(&job) {
                let key = (namespace.clone(), job.name_any());
                listed.jobs.insert(key, FoundJob { attempt, number, job });
            }
        }
        let key = |pod: &Pod| Some((namespace.clone(), job_of(pod)?));
        let of_jobs = pods.into_iter().filter_map(|pod| Some((key(&pod)?, pod)));
        listed.pods.extend(of_jobs);
        Ok(())
    }

    fn attempt_of(&self, job: &Job) -> Option<(String, u64)> {
        let found = attempt_and_number(&job.metadata, &self.cluster.installation);
        found.map(|(attempt, number)| (attempt.to_owned(), number))
    }

    /// Makes a Job if it is not there.
    pub async fn create(&self, wanted: &AttemptJob<'_>) -> Result<Created, ClusterError> {
        let job = job(wanted, &self.cluster);
        let namespace = wanted.namespace.to_string();
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &namespace);
        match jobs.create(&PostParams::default(), &job).await {
            Ok(made) => Ok(Created::Job(Box::new(made))),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let there = jobs.get(&job.name_any()).await;
                Ok(self.found(wanted, there.map_err(failed("a Job cannot be read"))?))
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                let missing = format!("the namespace {namespace} does not exist");
                Ok(Created::Refused(refusal(&[], &job, &missing)))
            }
            Err(kube::Error::Api(status)) if is_refusal(status.code) => {
                // Without the quotas, the message still says why.
                let quotas = self.quotas(&namespace).await.unwrap_or_default();
                Ok(Created::Refused(refusal(&quotas, &job, &status.message)))
            }
            Err(error) => Err(failed("a Job cannot be made")(error)),
        }
    }

    /// A Job that has the wanted name. Only that of this attempt may get its token.
    fn found(&self, wanted: &AttemptJob<'_>, there: Job) -> Created {
        if self.attempt_of(&there) == Some((wanted.attempt.to_owned(), wanted.number)) {
            return Created::Job(Box::new(there));
        }
        let (name, namespace) = (there.name_any(), wanted.namespace);
        Created::Refused(Problem {
            kind: PodProblem::PodNotAdmitted,
            detail: format!(
                "another Job has its name; delete it: kubectl -n {namespace} delete job {name}"
            ),
        })
    }

    /// Stores the token of a Job in its namespace.
    pub async fn add_token(
        &self,
        namespace: &Label,
        job: &Job,
        token: &str,
    ) -> Result<TokenSecret, ClusterError> {
        let Some(secret) = token_secret(job, token) else { return Ok(TokenSecret::Unknown) };
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace.to_string());
        match secrets.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(TokenSecret::Stored),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(TokenSecret::Unknown),
            Err(kube::Error::Api(status)) if is_refusal(status.code) => {
                Ok(TokenSecret::Refused(Problem {
                    kind: PodProblem::ContainerNotStarted,
                    detail: format!("the secret with its token cannot be made: {}", status.message),
                }))
            }
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

    /// Limits what the pods of attempts may reach, unless the policy is there; or why the API server refuses that.
    pub async fn apply_network_policy(
        &self,
        namespace: &Label,
    ) -> Result<Option<Problem>, ClusterError> {
        let policy = network_policy(namespace, &self.cluster);
        let all: Api<NetworkPolicy> = Api::namespaced(self.client.clone(), &namespace.to_string());
        // Whatever is wrong with the read, the write will say it.
        let there = all.get_opt(&policy.name_any()).await.ok().flatten();
        if there.is_some_and(|there| has_all_of(&there, &policy)) {
            return Ok(None);
        }
        let how = PatchParams::apply(FIELD_MANAGER).force();
        match all.patch(&policy.name_any(), &how, &Patch::Apply(&policy)).await {
            Ok(_) => Ok(None),
            Err(kube::Error::Api(status)) if is_refusal(status.code) => {
                let why = &status.message;
                Ok(Some(Problem {
                    kind: PodProblem::PodNotAdmitted,
                    detail: format!(
                        "its NetworkPolicy cannot be applied in the namespace {namespace}: {why}"
                    ),
                }))
            }
            Err(error) => Err(failed("a NetworkPolicy cannot be applied")(error)),
        }
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
