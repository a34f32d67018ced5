//! What runs Bailiwick in a cluster: `bailiwick serve` on PostgreSQL, `bailiwick worker`, and the operators.
//!
//! The server and workers ask nothing of the API server, so their accounts have no token and no role.

pub mod access;
mod cidr;
mod helm;
mod job_operator;
mod kustomize;
mod name;
pub(crate) mod network;
mod operator;
mod own_rights;
pub(crate) mod pod;
mod server;
mod worker;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolumeClaim, PersistentVolumeClaimSpec, PodSpec, PodTemplateSpec, Service,
    ServiceAccount, VolumeResourceRequirements,
};
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicySpec};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub use cidr::Cidr;
pub use helm::{ChartError, chart};
pub use job_operator::{JobOperator, JobOperatorManifests};
pub use kustomize::ManifestFile;
pub use name::{Label, NameError, SecretKey, ServerAddress, Storage};
pub use operator::Operator;
pub use own_rights::OwnRights;
pub use server::Server;
pub use worker::Worker;

/// The label with the name of the installation. Several of them can use one cluster, and one namespace for Jobs.
pub const INSTALLATION: &str = "bailiwick.dev/installation";

/// The name of the server and its objects.
pub const SERVER: &str = "bailiwick";
/// The name of the operator, its account and its role.
pub const OPERATOR: &str = "bailiwick-operator";
/// The name of the operator for Jobs, and its account.
pub const JOB_OPERATOR: &str = "bailiwick-jobs";
/// A size for objects without a volume.
const UNUSED_STORAGE: &str = "1Gi";

/// What a pod can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// Nothing that needs a sandbox: agents run on workers. The pod fits the Pod Security Standard `restricted`.
    None,
    /// Agents and checks run in the pod, in sandboxes that need user namespaces.
    InPod,
}

/// Where the objects are, and what they are called.
#[derive(Debug, Clone)]
pub struct Place {
    /// The namespace.
    pub namespace: Label,
    /// The name of all objects in it.
    pub name: Label,
    /// The size of the volume.
    pub storage: Storage,
}

/// The objects of one pod.
#[derive(Debug, Clone)]
pub struct Manifests {
    /// The namespace.
    pub namespace: Namespace,
    /// The account of the pod.
    pub account: ServiceAccount,
    /// The volume for repositories and runs.
    pub claim: PersistentVolumeClaim,
    /// What may reach the pod, and what it may reach.
    pub network: NetworkPolicy,
    /// The pod.
    pub deployment: Deployment,
    /// Its address in the cluster, if it has one.
    pub service: Option<Service>,
    /// Draining a node waits for a person.
    pub disruption: PodDisruptionBudget,
}

impl Manifests {
    fn new(place: &Place, sandbox: Sandbox, pod: PodSpec, network: NetworkPolicySpec) -> Self {
        Self {
            namespace: place.namespace(sandbox),
            account: ServiceAccount {
                metadata: place.metadata(),
                automount_service_account_token: Some(false),
                ..ServiceAccount::default()
            },
            claim: place.claim(),
            network: NetworkPolicy { metadata: place.metadata(), spec: Some(network) },
            deployment: place.deployment(pod),
            service: None,
            disruption: PodDisruptionBudget {
                metadata: place.metadata(),
                spec: Some(PodDisruptionBudgetSpec {
                    max_unavailable: Some(IntOrString::Int(0)),
                    selector: Some(place.selector()),
                    ..PodDisruptionBudgetSpec::default()
                }),
                status: None,
            },
        }
    }

    /// The objects as YAML documents, in the order in which they are made.
    pub fn yaml(&self) -> Result<String, serde_saphyr::SerializeError> {
        let mut documents = vec![
            serde_saphyr::to_string(&self.namespace)?,
            serde_saphyr::to_string(&self.account)?,
            serde_saphyr::to_string(&self.claim)?,
            serde_saphyr::to_string(&self.network)?,
            serde_saphyr::to_string(&self.deployment)?,
            serde_saphyr::to_string(&self.disruption)?,
        ];
        if let Some(service) = &self.service {
            documents.push(serde_saphyr::to_string(service)?);
        }
        Ok(crate::documents(&documents))
    }
}

impl Place {
    /// The place of a pod that has no volume.
    pub fn without_volume(namespace: Label, name: &str) -> Result<Self, NameError> {
        Ok(Self { namespace, name: name.parse()?, storage: UNUSED_STORAGE.parse()? })
    }

    /// The namespace enforces what its pod needs, and no less.
    fn namespace(&self, sandbox: Sandbox) -> Namespace {
        let level = match sandbox {
            Sandbox::None => "restricted",
            Sandbox::InPod => "privileged",
        };
        let labels = [
            ("app.kubernetes.io/part-of".to_owned(), "bailiwick".to_owned()),
            ("pod-security.kubernetes.io/enforce".to_owned(), level.to_owned()),
        ];
        Namespace {
            metadata: ObjectMeta {
                name: Some(self.namespace.to_string()),
                labels: Some(labels.into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        }
    }

    fn claim(&self) -> PersistentVolumeClaim {
        let size = ("storage".to_owned(), Quantity(self.storage.to_string()));
        PersistentVolumeClaim {
            metadata: self.metadata(),
            spec: Some(PersistentVolumeClaimSpec {
                // Runs are processes and files of one machine.
                access_modes: Some(vec!["ReadWriteOncePod".to_owned()]),
                resources: Some(VolumeResourceRequirements {
                    requests: Some(BTreeMap::from([size])),
                    limits: None,
                }),
                ..PersistentVolumeClaimSpec::default()
            }),
            status: None,
        }
    }

    /// One pod at a time: an update ends the old one first.
    fn deployment(&self, pod: PodSpec) -> Deployment {
        let labels = Some(self.labels());
        Deployment {
            metadata: self.metadata(),
            spec: Some(DeploymentSpec {
                replicas: Some(1),
                strategy: Some(DeploymentStrategy {
                    type_: Some("Recreate".to_owned()),
                    rolling_update: None,
                }),
                selector: self.selector(),
                template: PodTemplateSpec {
                    metadata: Some(ObjectMeta { labels, ..ObjectMeta::default() }),
                    spec: Some(pod),
                },
                ..DeploymentSpec::default()
            }),
            status: None,
        }
    }

    fn metadata(&self) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name.to_string()),
            namespace: Some(self.namespace.to_string()),
            labels: Some(self.labels()),
            ..ObjectMeta::default()
        }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("app.kubernetes.io/name".to_owned(), "bailiwick".to_owned()),
            ("app.kubernetes.io/instance".to_owned(), self.name.to_string()),
            ("app.kubernetes.io/part-of".to_owned(), "bailiwick".to_owned()),
        ])
    }

    /// The pod of this place.
    fn selector(&self) -> LabelSelector {
        let chosen = self.labels().into_iter().filter(|(name, _)| !name.ends_with("part-of"));
        LabelSelector { match_labels: Some(chosen.collect()), match_expressions: None }
    }
}
