//! What runs attempts in Jobs: `bailiwick-kubernetes jobs`, with the permissions that it needs and no others.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, Namespace, PodSpec, ResourceQuota,
    ResourceQuotaSpec, SecretKeySelector, ServiceAccount, Volume,
};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::kustomize::{self, ManifestFile};
use super::{Cidr, INSTALLATION, Label, Place, Sandbox, SecretKey, ServerAddress, pod};

/// The operator for attempts in Jobs.
#[derive(Debug, Clone)]
pub struct JobOperator {
    /// Where it runs: the namespace of the server.
    pub place: Place,
    /// Its image, which is also that of the Jobs.
    pub image: String,
    /// The secret with the address of the database of the server.
    pub database: SecretKey,
    /// The server, as the pods of attempts dial it.
    pub server: ServerAddress,
    /// The name of the installation, on all objects in the namespaces of Jobs.
    pub installation: Label,
    /// The networks of the server. If empty, all addresses at its port.
    pub server_networks: Vec<Cidr>,
    /// The networks of model services. If empty, all addresses at port 443.
    pub model_networks: Vec<Cidr>,
    /// The namespaces of Jobs. The first one is that of pools that name no other one.
    pub attempts: Vec<Label>,
    /// How many pods each namespace of Jobs may have at the same time. If left out, there is no quota.
    pub quota_pods: Option<Quantity>,
}

/// Its objects.
#[derive(Debug, Clone)]
pub struct JobOperatorManifests {
    /// The namespaces of Jobs.
    pub namespaces: Vec<Namespace>,
    /// The quotas of these namespaces.
    pub quotas: Vec<ResourceQuota>,
    /// Its account.
    pub account: ServiceAccount,
    /// What it may do in each namespace of Jobs.
    pub roles: Vec<Role>,
    /// Gives its account these roles.
    pub bindings: Vec<RoleBinding>,
    /// The operator.
    pub deployment: Deployment,
}

impl JobOperator {
    /// Its objects.
    pub fn manifests(&self) -> JobOperatorManifests {
        let metadata = self.place.metadata();
        // Other installations may use the namespace, too.
        let role_name = format!("{}-{}", self.place.name, self.installation);
        let mut labels = metadata.labels.clone().unwrap_or_default();
        labels.insert(INSTALLATION.to_owned(), self.installation.to_string());
        let elsewhere = |namespace: &Label| ObjectMeta {
            name: Some(role_name.clone()),
            namespace: Some(namespace.to_string()),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        };
        let binding = |namespace: &Label| RoleBinding {
            metadata: elsewhere(namespace),
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "Role".to_owned(),
                name: role_name.clone(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: self.place.name.to_string(),
                namespace: Some(self.place.namespace.to_string()),
                api_group: None,
            }]),
        };
        let role =
            |namespace: &Label| Role { metadata: elsewhere(namespace), rules: Some(rules()) };
        let namespace = |namespace: &Label| {
            let place = Place { namespace: namespace.clone(), ..self.place.clone() };
            place.namespace(Sandbox::InPod)
        };
        let quota = |(namespace, pods): (&Label, &Quantity)| ResourceQuota {
            metadata: elsewhere(namespace),
            spec: Some(ResourceQuotaSpec {
                hard: Some(BTreeMap::from([("pods".to_owned(), pods.clone())])),
                ..ResourceQuotaSpec::default()
            }),
            status: None,
        };
        let limited = self.quota_pods.iter();
        let limited =
            limited.flat_map(|pods| self.attempts.iter().map(move |namespace| (namespace, pods)));
        JobOperatorManifests {
            namespaces: self.attempts.iter().map(namespace).collect(),
            quotas: limited.map(quota).collect(),
            account: ServiceAccount {
                metadata: metadata.clone(),
                automount_service_account_token: Some(false),
                ..ServiceAccount::default()
            },
            roles: self.attempts.iter().map(role).collect(),
            bindings: self.attempts.iter().map(binding).collect(),
            deployment: self.place.deployment(self.pod()),
        }
    }

    fn pod(&self) -> PodSpec {
        let sandbox = Sandbox::None;
        let empty = |name: &str| Volume {
            name: name.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        };
        PodSpec {
            service_account_name: Some(self.place.name.to_string()),
            // It is the only pod that asks something of the API server.
            automount_service_account_token: Some(true),
            enable_service_links: Some(false),
            security_context: Some(pod::security(sandbox)),
            containers: vec![self.container(sandbox)],
            volumes: Some(vec![empty("data"), empty("temporary")]),
            ..PodSpec::default()
        }
    }

    fn container(&self, sandbox: Sandbox) -> Container {
        let server = self.server.to_string();
        let mut command =
            ["bailiwick-kubernetes", "jobs", "--server", &server, "--image", &self.image]
                .map(str::to_owned)
                .to_vec();
        for namespace in &self.attempts {
            command.extend(["--namespace".to_owned(), namespace.to_string()]);
        }
        command.extend(["--installation".to_owned(), self.installation.to_string()]);
        for network in &self.server_networks {
            command.extend(["--server-network".to_owned(), network.to_string()]);
        }
        for network in &self.model_networks {
            command.extend(["--model-network".to_owned(), network.to_string()]);
        }
        let from_secret = EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: self.database.name.clone(),
                key: self.database.key.clone(),
                optional: None,
            }),
            ..EnvVarSource::default()
        };
        let database = EnvVar {
            name: "KEI_LEDGER_DB".to_owned(),
            value_from: Some(from_secret),
            ..EnvVar::default()
        };
        pod::container(&self.image, sandbox, command, vec![database])
    }
}

/// It adds the tokens of workers, and reads no secret.
fn rules() -> Vec<PolicyRule> {
    let rule = |group: &str, resource: &str, verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    vec![
        rule("batch", "jobs", &["create", "delete", "get", "list"]),
        rule("", "pods", &["list"]),
        rule("", "secrets", &["create"]),
        rule("", "resourcequotas", &["list"]),
        rule("", "events", &["list"]),
        rule("networking.k8s.io", "networkpolicies", &["create", "get", "patch"]),
    ]
}

impl JobOperatorManifests {
    /// The objects as YAML documents, in the order in which they are made.
    pub fn yaml(&self) -> Result<String, serde_saphyr::SerializeError> {
        let mut documents = Vec::new();
        for namespace in &self.namespaces {
            documents.push(serde_saphyr::to_string(namespace)?);
        }
        for quota in &self.quotas {
            documents.push(serde_saphyr::to_string(quota)?);
        }
        documents.push(serde_saphyr::to_string(&self.account)?);
        for role in &self.roles {
            documents.push(serde_saphyr::to_string(role)?);
        }
        for binding in &self.bindings {
            documents.push(serde_saphyr::to_string(binding)?);
        }
        documents.push(serde_saphyr::to_string(&self.deployment)?);
        Ok(crate::documents(&documents))
    }

    /// The objects in a file for each kind, in the order in which they are made.
    pub fn files(&self) -> Result<Vec<ManifestFile>, serde_saphyr::SerializeError> {
        let mut files = vec![kustomize::file_of_all(&self.namespaces)?];
        if !self.quotas.is_empty() {
            files.push(kustomize::file_of_all(&self.quotas)?);
        }
        files.extend([
            kustomize::file(&self.account)?,
            kustomize::file_of_all(&self.roles)?,
            kustomize::file_of_all(&self.bindings)?,
            kustomize::file(&self.deployment)?,
        ]);
        Ok(files)
    }

    /// The files as a directory for kustomize.
    pub fn kustomize(&self) -> Result<Vec<ManifestFile>, serde_saphyr::SerializeError> {
        Ok(kustomize::with_list(self.files()?))
    }
}
