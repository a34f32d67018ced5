//! What runs the control plane in a cluster: `bailiwick serve` on PostgreSQL, in a namespace of its own.
//!
//! The server asks nothing of the API server, so its account has no token and no role.

mod name;
mod network;
mod server;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolumeClaim, PersistentVolumeClaimSpec, Service, ServiceAccount,
    VolumeResourceRequirements,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub use name::{Label, NameError, SecretKey, Storage};

/// The name of all objects in the namespace.
const NAME: &str = "bailiwick";
/// The port of the server.
const PORT: i32 = 7840;

/// What the pod of the server can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// Nothing that needs a sandbox: agents run on workers. The pod fits the Pod Security Standard `restricted`.
    None,
    /// Agents and checks run in the pod, in sandboxes that need user namespaces.
    InPod,
}

/// How the control plane is installed.
#[derive(Debug, Clone)]
pub struct Installation {
    /// The namespace.
    pub namespace: Label,
    /// The container image, with `bailiwick`, git and the agent programs.
    pub image: String,
    /// The host name that people and forges use.
    pub host: String,
    /// The secret with the address of the database, as `postgres://…`.
    pub database: SecretKey,
    /// The size of the volume for repositories and runs.
    pub storage: Storage,
    /// The namespace from which requests come: that of the ingress controller.
    pub ingress: Label,
    /// What the pod can do.
    pub sandbox: Sandbox,
}

/// The objects of an installation.
#[derive(Debug, Clone)]
pub struct Manifests {
    /// The namespace.
    pub namespace: Namespace,
    /// The account of the pod.
    pub account: ServiceAccount,
    /// The volume for repositories and runs.
    pub claim: PersistentVolumeClaim,
    /// The server.
    pub deployment: Deployment,
    /// Its address in the cluster.
    pub service: Service,
    /// What may reach it, and what it may reach.
    pub network: NetworkPolicy,
    /// Draining a node waits for a person.
    pub disruption: PodDisruptionBudget,
}

impl Manifests {
    /// The objects of this installation.
    pub fn new(installation: &Installation) -> Self {
        let namespace = &installation.namespace;
        Self {
            namespace: self::namespace(installation),
            account: ServiceAccount {
                metadata: metadata(namespace),
                automount_service_account_token: Some(false),
                ..ServiceAccount::default()
            },
            claim: claim(namespace, &installation.storage),
            deployment: server::deployment(installation),
            service: server::service(namespace),
            network: network::policy(namespace, &installation.ingress),
            disruption: PodDisruptionBudget {
                metadata: metadata(namespace),
                spec: Some(PodDisruptionBudgetSpec {
                    max_unavailable: Some(IntOrString::Int(0)),
                    selector: Some(selector()),
                    ..PodDisruptionBudgetSpec::default()
                }),
                status: None,
            },
        }
    }

    /// The objects as YAML documents, in the order in which they are made.
    pub fn yaml(&self) -> Result<String, serde_saphyr::SerializeError> {
        let documents = [
            serde_saphyr::to_string(&self.namespace)?,
            serde_saphyr::to_string(&self.account)?,
            serde_saphyr::to_string(&self.claim)?,
            serde_saphyr::to_string(&self.network)?,
            serde_saphyr::to_string(&self.deployment)?,
            serde_saphyr::to_string(&self.service)?,
            serde_saphyr::to_string(&self.disruption)?,
        ];
        Ok(crate::documents(&documents))
    }
}

/// The namespace enforces what its pod needs, and no less.
fn namespace(installation: &Installation) -> Namespace {
    let level = match installation.sandbox {
        Sandbox::None => "restricted",
        Sandbox::InPod => "privileged",
    };
    let level = ("pod-security.kubernetes.io/enforce".to_owned(), level.to_owned());
    let labels = labels().into_iter().chain([level]).collect();
    Namespace {
        metadata: ObjectMeta {
            name: Some(installation.namespace.to_string()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

fn claim(namespace: &Label, storage: &Storage) -> PersistentVolumeClaim {
    let size = ("storage".to_owned(), Quantity(storage.to_string()));
    PersistentVolumeClaim {
        metadata: metadata(namespace),
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

fn metadata(namespace: &Label) -> ObjectMeta {
    ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: Some(namespace.to_string()),
        labels: Some(labels()),
        ..ObjectMeta::default()
    }
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), NAME.to_owned()),
        ("app.kubernetes.io/part-of".to_owned(), NAME.to_owned()),
        ("app.kubernetes.io/component".to_owned(), "server".to_owned()),
    ])
}

/// The pod of the server.
fn selector() -> LabelSelector {
    let chosen = labels().into_iter().filter(|(name, _)| !name.ends_with("part-of"));
    LabelSelector { match_labels: Some(chosen.collect()), match_expressions: None }
}
