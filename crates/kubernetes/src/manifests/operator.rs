//! `bailiwick-kubernetes operator` in a pod: with a token of its account, which ends within an hour, and one of the
//! server.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, Container, DownwardAPIProjection, DownwardAPIVolumeFile,
    EmptyDirVolumeSource, KeyToPath, ObjectFieldSelector, PodSpec, ProjectedVolumeSource,
    SecretVolumeSource, ServiceAccountTokenProjection, Volume, VolumeProjection,
};

use super::access::Access;
use super::kustomize::{self, ManifestFile};
use super::{Place, Sandbox, SecretKey, ServerAddress, pod};

/// Where clients of the API server look for the token of the account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Kubernetes renews the file before this time is over.
const TOKEN_SECONDS: i64 = 3_600;
/// Where the token of the server is.
const SERVER_TOKEN: &str = "/run/bailiwick-server";
/// Readable by the group of the pod.
const MODE: i32 = 0o440;

/// The operator that keeps a namespace in step.
#[derive(Debug, Clone)]
pub struct Operator {
    /// The namespace that it keeps in step. Its name is that of the account.
    pub place: Place,
    /// The container image, with `bailiwick-kubernetes`.
    pub image: String,
    /// The server.
    pub server: ServerAddress,
    /// The secret with a token of `bailiwick tokens new` with the scope `admin`.
    pub token: SecretKey,
}

impl Operator {
    /// One pod. A second one would wait for the Lease.
    pub fn deployment(&self) -> Deployment {
        self.place.deployment(self.pod())
    }

    /// The Deployment as a YAML document.
    pub fn yaml(&self) -> Result<String, serde_saphyr::SerializeError> {
        Ok(crate::documents(&[serde_saphyr::to_string(&self.deployment())?]))
    }

    /// Its account, its role and the Deployment, each in a file that is named like its kind.
    pub fn files(&self) -> Result<Vec<ManifestFile>, serde_saphyr::SerializeError> {
        let Access { account, role, binding } = Access::of(&self.place.namespace);
        Ok(vec![
            kustomize::file(&account)?,
            kustomize::file(&role)?,
            kustomize::file(&binding)?,
            kustomize::file(&self.deployment())?,
        ])
    }

    /// The files as a directory for kustomize.
    pub fn kustomize(&self) -> Result<Vec<ManifestFile>, serde_saphyr::SerializeError> {
        Ok(kustomize::with_list(self.files()?))
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
            // The token is a volume, so that it ends soon and only this container has it.
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            security_context: Some(pod::security(sandbox)),
            containers: vec![self.container(sandbox)],
            volumes: Some(vec![
                empty("data"),
                empty("temporary"),
                account_token(),
                self.server_token(),
            ]),
            ..PodSpec::default()
        }
    }

    fn container(&self, sandbox: Sandbox) -> Container {
        let (server, namespace) = (self.server.to_string(), self.place.namespace.to_string());
        let token = format!("{SERVER_TOKEN}/token");
        let command = [
            "bailiwick-kubernetes",
            "operator",
            "--server",
            &server,
            "--token-file",
            &token,
            "--namespace",
            &namespace,
        ];
        let command = command.map(str::to_owned).into();
        let mut container = pod::container(&self.image, sandbox, command, Vec::new());
        for (name, path) in [("account", ACCOUNT), ("server", SERVER_TOKEN)] {
            let mut mount = pod::mount(name, path);
            mount.read_only = Some(true);
            container.volume_mounts.get_or_insert_default().push(mount);
        }
        container
    }

    fn server_token(&self) -> Volume {
        let key = KeyToPath { key: self.token.key.clone(), path: "token".to_owned(), mode: None };
        Volume {
            name: "server".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(self.token.name.clone()),
                items: Some(vec![key]),
                default_mode: Some(MODE),
                optional: None,
            }),
            ..Volume::default()
        }
    }
}

/// The token of the account, the certificate of the API server, and the name of the namespace.
fn account_token() -> Volume {
    let certificate = KeyToPath { key: "ca.crt".to_owned(), path: "ca.crt".to_owned(), mode: None };
    let namespace = DownwardAPIVolumeFile {
        field_ref: Some(ObjectFieldSelector {
            api_version: None,
            field_path: "metadata.namespace".to_owned(),
        }),
        path: "namespace".to_owned(),
        ..DownwardAPIVolumeFile::default()
    };
    let sources = vec![
        VolumeProjection {
            service_account_token: Some(ServiceAccountTokenProjection {
                audience: None,
                expiration_seconds: Some(TOKEN_SECONDS),
                path: "token".to_owned(),
            }),
            ..VolumeProjection::default()
        },
        VolumeProjection {
            config_map: Some(ConfigMapProjection {
                items: Some(vec![certificate]),
                name: "kube-root-ca.crt".to_owned(),
                optional: None,
            }),
            ..VolumeProjection::default()
        },
        VolumeProjection {
            downward_api: Some(DownwardAPIProjection { items: Some(vec![namespace]) }),
            ..VolumeProjection::default()
        },
    ];
    Volume {
        name: "account".to_owned(),
        projected: Some(ProjectedVolumeSource { default_mode: Some(MODE), sources: Some(sources) }),
        ..Volume::default()
    }
}
