//! What the pod of an attempt is granted of its cluster.

use bailiwick_kubernetes::jobs::{AttemptJob, NamespaceError, job, require_identity};
use bailiwick_resources::{JobSettings, PodGrants, PodIdentity, PodToken};
use k8s_openapi::api::core::v1::PodSpec;

use crate::job::cluster;

fn pod(grants: &PodGrants) -> PodSpec {
    let settings = JobSettings {
        service_account: Some("of-the-pool".to_owned()),
        image_pull_secrets: vec!["registry".to_owned()],
        ..JobSettings::default()
    };
    let cluster = cluster();
    let wanted = AttemptJob {
        attempt: "fixer-1",
        pool: "inside",
        settings: &settings,
        grants,
        namespace: &cluster.namespace,
        number: 1,
    };
    job(&wanted, &cluster).spec.unwrap().template.spec.unwrap()
}

fn identity(token: Option<PodToken>) -> PodGrants {
    let identity = PodIdentity {
        account: "fixer".to_owned(),
        namespace: Some("bailiwick-attempts".to_owned()),
        image_pull_secrets: vec!["registry".to_owned(), "own".to_owned()],
        token,
    };
    PodGrants { identity: Some(identity) }
}

fn has_values(pod: &PodSpec) -> bool {
    let command = pod.containers[0].command.as_ref().unwrap();
    let volumes = pod.volumes.as_ref().unwrap().iter().filter(|volume| volume.name == "values");
    let mounts = pod.containers[0].volume_mounts.as_ref().unwrap();
    let mounts = mounts.iter().filter(|mount| mount.mount_path == "/run/bailiwick-values");
    let counts = (volumes.count(), mounts.count(), command.contains(&"--values".to_owned()));
    match counts {
        (0, 0, false) => false,
        (1, 1, true) => true,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pod_without_an_identity_runs_as_its_pool_says() {
    let pod = pod(&PodGrants::default());
    assert_eq!(pod.service_account_name.as_deref(), Some("of-the-pool"));
    assert_eq!(pod.image_pull_secrets.as_ref().unwrap().len(), 1);
    assert!(!has_values(&pod));
}

#[test]
fn pod_runs_as_its_identity_and_has_no_token_of_the_api_server() {
    for token in [None, Some(PodToken { audience: "vault".to_owned(), seconds: 7_200 })] {
        let pod = pod(&identity(token.clone()));
        assert_eq!(pod.service_account_name.as_deref(), Some("fixer"));
        assert_eq!(pod.automount_service_account_token, Some(false));
        let secrets = pod.image_pull_secrets.as_ref().unwrap().iter();
        assert_eq!(secrets.map(|one| one.name.as_str()).collect::<Vec<_>>(), ["registry", "own"]);
        assert_eq!(has_values(&pod), token.is_some());
    }
}

#[test]
fn job_in_another_namespace_than_its_identity_is_refused() {
    let cluster = cluster();
    let job: Vec<_> = cluster.namespaces().collect();
    assert_eq!(require_identity(&identity(None), job[0]), Ok(()));
    assert_eq!(require_identity(&PodGrants::default(), job[1]), Ok(()));
    let refused = require_identity(&identity(None), job[1]);
    assert!(matches!(refused, Err(NamespaceError::OtherIdentity { .. })), "{refused:?}");
}

#[test]
fn token_is_a_file_for_its_audience_and_lifetime_and_no_variable() {
    let token = PodToken { audience: "vault".to_owned(), seconds: 7_200 };
    let pod = pod(&identity(Some(token)));
    let mut volumes = pod.volumes.clone().unwrap().into_iter();
    let volume = volumes.find(|volume| volume.name == "values").unwrap().projected.unwrap();
    assert_eq!(volume.default_mode, Some(0o440));
    let sources = volume.sources.unwrap();
    assert_eq!(sources.len(), 1);
    let token = sources[0].service_account_token.as_ref().unwrap();
    assert_eq!(token.audience.as_deref(), Some("vault"));
    assert_eq!((token.expiration_seconds, token.path.as_str()), (Some(7_200), "IDENTITY_TOKEN"));
    let mounts = pod.containers[0].volume_mounts.as_ref().unwrap();
    let mount = mounts.iter().find(|mount| mount.name == "values").unwrap();
    assert_eq!(mount.read_only, Some(true));
    let variables = pod.containers[0].env.as_ref().unwrap();
    assert!(variables.iter().all(|variable| variable.value_from.is_none()), "{variables:?}");
}
