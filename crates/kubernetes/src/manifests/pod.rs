//! What all pods have in common: no token, no root, no capabilities, one volume.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, Container, EmptyDirVolumeSource, EnvVar,
    PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, ResourceRequirements,
    SeccompProfile, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Place, Sandbox};

/// A user that no image uses for something else.
const USER: i64 = 10_001;
/// Where the volume is.
pub(crate) const DATA: &str = "/var/lib/bailiwick";
/// How long a pod may take to end.
pub(crate) const GRACE_SECONDS: i64 = 60;

/// A pod with this container.
pub(super) fn pod(
    place: &Place,
    sandbox: Sandbox,
    container: Container,
    more: Option<Volume>,
) -> PodSpec {
    PodSpec {
        service_account_name: Some(place.name.to_string()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        host_users: host_users(sandbox),
        security_context: Some(security(sandbox)),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        containers: vec![container],
        volumes: Some(volumes(place).into_iter().chain(more).collect()),
        ..PodSpec::default()
    }
}

/// Whether root in the pod could be root of the node; nothing where nothing in the pod becomes root.
pub(crate) fn host_users(sandbox: Sandbox) -> Option<bool> {
    match sandbox {
        Sandbox::None => None,
        Sandbox::InPod => Some(false),
    }
}

/// Not root, and the profiles that the sandbox permits.
pub(crate) fn security(sandbox: Sandbox) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        fs_group: Some(USER),
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(seccomp(sandbox)),
        app_armor_profile: match sandbox {
            Sandbox::None => None,
            Sandbox::InPod => {
                Some(AppArmorProfile { type_: "Unconfined".to_owned(), localhost_profile: None })
            }
        },
        ..PodSecurityContext::default()
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

/// A container that runs this command.
pub(crate) fn container(
    image: &str,
    sandbox: Sandbox,
    command: Vec<String>,
    environment: Vec<EnvVar>,
) -> Container {
    let own = [variable("HOME", DATA), variable("BAILIWICK_STATE", &format!("{DATA}/state"))];
    Container {
        name: "bailiwick".to_owned(),
        image: Some(image.to_owned()),
        command: Some(command),
        env: Some(own.into_iter().chain(environment).collect()),
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
            proc_mount: match sandbox {
                Sandbox::None => None,
                Sandbox::InPod => Some("Unmasked".to_owned()),
            },
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![mount("data", DATA), mount("temporary", "/tmp")]),
        ..Container::default()
    }
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn quantities(amounts: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    let quantity =
        |(name, amount): &(&str, &str)| ((*name).to_owned(), Quantity((*amount).to_owned()));
    amounts.iter().map(quantity).collect()
}

/// A volume at a path.
pub(crate) fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

fn volumes(place: &Place) -> Vec<Volume> {
    vec![
        Volume {
            name: "data".to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: place.name.to_string(),
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
