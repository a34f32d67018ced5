//! What a pod is granted of its cluster: the account that it runs as, and values that the kubelet mounts for its worker.
//!
//! The pod never gets a token of the API server: `automountServiceAccountToken` stays false. Nothing here is a variable
//! of the container: the supervisor reads the volume, and the agent cannot.

use bailiwick_resources::{IDENTITY_TOKEN, JobSettings, PodGrants, PodToken};
use k8s_openapi::api::core::v1::{
    ProjectedVolumeSource, ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};

use super::job::TOKEN_MODE;
use crate::manifests::pod;

/// The name of the volume.
const VOLUME: &str = "values";
/// Where the values are. The sandbox of an agent has no such directory.
const VALUES: &str = "/run/bailiwick-values";

/// The ServiceAccount of the pod: that of its identity, else that of its pool.
pub(super) fn account(grants: &PodGrants, settings: &JobSettings) -> Option<String> {
    let identity = grants.identity.as_ref().map(|identity| identity.account.clone());
    identity.or_else(|| settings.service_account.clone())
}

/// The secrets for pulling the image: those of the pool, then those of the identity.
pub(super) fn image_pull_secrets(grants: &PodGrants, settings: &JobSettings) -> Vec<String> {
    let own = grants.identity.iter().flat_map(|identity| &identity.image_pull_secrets);
    let mut all: Vec<String> = Vec::new();
    for name in settings.image_pull_secrets.iter().chain(own) {
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    all
}

/// The volume with the values; `None` if there are none.
pub(super) fn volume(grants: &PodGrants) -> Option<Volume> {
    let sources: Vec<VolumeProjection> = grants.token().map(token).into_iter().collect();
    (!sources.is_empty()).then(|| Volume {
        name: VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(TOKEN_MODE),
            sources: Some(sources),
        }),
        ..Volume::default()
    })
}

/// Where the container has it.
pub(super) fn mount(grants: &PodGrants) -> Option<VolumeMount> {
    volume(grants).map(|volume| {
        let mut mount = pod::mount(&volume.name, VALUES);
        mount.read_only = Some(true);
        mount
    })
}

fn token(token: &PodToken) -> VolumeProjection {
    VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection {
            audience: Some(token.audience.clone()),
            expiration_seconds: Some(i64::try_from(token.seconds).unwrap_or(i64::MAX)),
            path: IDENTITY_TOKEN.to_owned(),
        }),
        ..VolumeProjection::default()
    }
}
