//! The pod of `bailiwick serve`, and its address.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar,
    EnvVarSource, HTTPGetAction, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec,
    PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile, SecretKeySelector,
    SecurityContext, Service, ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Installation, Label, NAME, PORT, Sandbox, SecretKey, labels, metadata, selector};

/// A user that no image uses for something else.
const USER: i64 = 10_001;
/// Where the volume is.
const DATA: &str = "/var/lib/bailiwick";
/// How long requests that are running may take when the pod is stopped.
const GRACE_SECONDS: i64 = 60;

pub(super) fn deployment(installation: &Installation) -> Deployment {
    let pod = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels()), ..ObjectMeta::default() }),
        spec: Some(pod(installation)),
    };
    Deployment {
        metadata: metadata(&installation.namespace),
        spec: Some(DeploymentSpec {
            // All servers of a database are on one machine, so an update ends the old pod first.
            replicas: Some(1),
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                rolling_update: None,
            }),
            selector: selector(),
            template: pod,
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

pub(super) fn service(namespace: &Label) -> Service {
    Service {
        metadata: metadata(namespace),
        spec: Some(ServiceSpec {
            selector: selector().match_labels,
            ports: Some(vec![ServicePort {
                name: Some("http".to_owned()),
                port: PORT,
                target_port: Some(IntOrString::String("http".to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn pod(installation: &Installation) -> PodSpec {
    PodSpec {
        service_account_name: Some(NAME.to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        host_users: match installation.sandbox {
            Sandbox::None => None,
            Sandbox::InPod => Some(false),
        },
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            fs_group: Some(USER),
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            seccomp_profile: Some(seccomp(installation.sandbox)),
            app_armor_profile: match installation.sandbox {
                Sandbox::None => None,
                Sandbox::InPod => Some(AppArmorProfile {
                    type_: "Unconfined".to_owned(),
                    localhost_profile: None,
                }),
            },
            ..PodSecurityContext::default()
        }),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        containers: vec![container(installation)],
        volumes: Some(volumes()),
        ..PodSpec::default()
    }
}

/// With the profile of the runtime, nothing in the pod can make the namespaces of a sandbox.
fn seccomp(sandbox: Sandbox) -> SeccompProfile {
    let type_ = match sandbox {
        Sandbox::None => "RuntimeDefault",
        Sandbox::InPod => "Unconfined",
    };
    SeccompProfile { type_: type_.to_owned(), localhost_profile: None }
}

fn container(installation: &Installation) -> Container {
    let Installation { namespace, host, .. } = installation;
    let listen = format!("0.0.0.0:{PORT}");
    let inside = format!("{NAME}.{namespace}.svc");
    let command =
        ["bailiwick", "serve", "--listen", &listen, "--network", "--host", host, "--host", &inside];
    Container {
        name: "server".to_owned(),
        image: Some(installation.image.clone()),
        command: Some(command.map(str::to_owned).into()),
        env: Some(environment(&installation.database)),
        ports: Some(vec![ContainerPort {
            name: Some("http".to_owned()),
            container_port: PORT,
            ..ContainerPort::default()
        }]),
        readiness_probe: Some(probe("/readyz")),
        liveness_probe: Some(probe("/healthz")),
        resources: Some(ResourceRequirements {
            requests: Some(quantities(&[
                ("cpu", "250m"),
                ("memory", "512Mi"),
                ("ephemeral-storage", "1Gi"),
            ])),
            limits: Some(quantities(&[("memory", "4Gi"), ("ephemeral-storage", "10Gi")])),
            claims: None,
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            privileged: Some(false),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            proc_mount: match installation.sandbox {
                Sandbox::None => None,
                Sandbox::InPod => Some("Unmasked".to_owned()),
            },
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![mount("data", DATA), mount("temporary", "/tmp")]),
        ..Container::default()
    }
}

fn environment(database: &SecretKey) -> Vec<EnvVar> {
    let from_secret = EnvVarSource {
        secret_key_ref: Some(SecretKeySelector {
            name: database.name.clone(),
            key: database.key.clone(),
            optional: None,
        }),
        ..EnvVarSource::default()
    };
    let database = EnvVar {
        name: "KEI_LEDGER_DB".to_owned(),
        value_from: Some(from_secret),
        ..EnvVar::default()
    };
    vec![variable("HOME", DATA), variable("BAILIWICK_STATE", &format!("{DATA}/state")), database]
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn probe(path: &str) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("http".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(10),
        timeout_seconds: Some(5),
        failure_threshold: Some(6),
        ..Probe::default()
    }
}

fn quantities(amounts: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    let quantity =
        |(name, amount): &(&str, &str)| ((*name).to_owned(), Quantity((*amount).to_owned()));
    amounts.iter().map(quantity).collect()
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

fn volumes() -> Vec<Volume> {
    vec![
        Volume {
            name: "data".to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: NAME.to_owned(),
                read_only: None,
            }),
            ..Volume::default()
        },
        Volume {
            name: "temporary".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                size_limit: Some(Quantity("8Gi".to_owned())),
                medium: None,
            }),
            ..Volume::default()
        },
    ]
}
