//! What is installed can do no more than it needs.

use bailiwick_kubernetes::manifests::{Installation, Manifests, Sandbox};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolumeClaim, PodSpec, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn manifests(sandbox: Sandbox) -> Manifests {
    Manifests::new(&Installation {
        namespace: "agents".parse().unwrap(),
        image: "registry.example/bailiwick:1".to_owned(),
        host: "agents.example".to_owned(),
        database: "database/url".parse().unwrap(),
        storage: "20Gi".parse().unwrap(),
        ingress: "ingress-nginx".parse().unwrap(),
        sandbox,
    })
}

fn pod(manifests: &Manifests) -> PodSpec {
    manifests.deployment.spec.clone().unwrap().template.spec.unwrap()
}

/// Reads a document as its type. The types ignore unknown fields: nothing may be missing when it is written again.
fn typed<T: DeserializeOwned + Serialize>(document: &Value) {
    let read: T = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), *document);
}

#[test]
fn printed_yaml_is_read_back_without_unknown_fields() {
    for sandbox in [Sandbox::None, Sandbox::InPod] {
        let text = manifests(sandbox).yaml().unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let kinds: Vec<&str> = documents.iter().map(|one| one["kind"].as_str().unwrap()).collect();
        let expected = [
            "Namespace",
            "ServiceAccount",
            "PersistentVolumeClaim",
            "NetworkPolicy",
            "Deployment",
            "Service",
            "PodDisruptionBudget",
        ];
        assert_eq!(kinds, expected);
        typed::<Namespace>(&documents[0]);
        typed::<ServiceAccount>(&documents[1]);
        typed::<PersistentVolumeClaim>(&documents[2]);
        typed::<NetworkPolicy>(&documents[3]);
        typed::<Deployment>(&documents[4]);
        typed::<Service>(&documents[5]);
        typed::<PodDisruptionBudget>(&documents[6]);
        for document in &documents[1..] {
            assert_eq!(document["metadata"]["namespace"], "agents", "{document}");
        }
    }
}

/// The Pod Security Standard `restricted`, and what it does not ask for.
fn faults(pod: &PodSpec) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let mut must = |holds: bool, what: &'static str| {
        if !holds {
            faults.push(what);
        }
    };
    must(pod.automount_service_account_token == Some(false), "token");
    must(pod.enable_service_links == Some(false), "service links");
    let host = [pod.host_network, pod.host_pid, pod.host_ipc];
    must(host.iter().all(|one| *one != Some(true)), "namespaces of the host");
    let volumes = pod.volumes.iter().flatten();
    must(volumes.clone().all(|volume| volume.host_path.is_none()), "files of the host");
    must(pod.volumes.as_ref().is_some_and(|all| !all.is_empty()), "volumes are looked at");
    let security = pod.security_context.clone().unwrap_or_default();
    must(security.run_as_non_root == Some(true) && security.run_as_user > Some(0), "root");
    let seccomp = security.seccomp_profile.map(|profile| profile.type_);
    must(seccomp.as_deref() == Some("RuntimeDefault"), "seccomp");
    must(security.app_armor_profile.is_none(), "AppArmor");
    for container in &pod.containers {
        let security = container.security_context.clone().unwrap_or_default();
        must(security.allow_privilege_escalation == Some(false), "escalation");
        must(security.privileged != Some(true), "privileged");
        must(security.read_only_root_filesystem == Some(true), "root file system");
        must(security.proc_mount.is_none(), "procMount");
        let capabilities = security.capabilities.unwrap_or_default();
        must(capabilities.add.is_none_or(|add| add.is_empty()), "capabilities");
        must(capabilities.drop == Some(vec!["ALL".to_owned()]), "capabilities");
        let limits = container.resources.clone().unwrap_or_default().limits.unwrap_or_default();
        must(limits.contains_key("memory"), "memory");
        must(limits.contains_key("ephemeral-storage"), "ephemeral storage");
    }
    faults
}

#[test]
fn a_server_without_agents_has_no_privilege() {
    let manifests = manifests(Sandbox::None);
    assert_eq!(faults(&pod(&manifests)), Vec::<&str>::new());
    assert_eq!(manifests.account.automount_service_account_token, Some(false));
    let labels = manifests.namespace.metadata.labels.unwrap();
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
}

/// What a sandbox needs, and nothing else, and only in a user namespace of its own.
#[test]
fn a_server_with_agents_has_what_their_sandbox_needs() {
    let manifests = manifests(Sandbox::InPod);
    let pod = pod(&manifests);
    assert_eq!(faults(&pod), ["seccomp", "AppArmor", "procMount"]);
    assert_eq!(pod.host_users, Some(false));
    let labels = manifests.namespace.metadata.labels.unwrap();
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "privileged");
}

#[test]
fn a_privilege_would_be_found() {
    type Change = fn(&mut PodSpec);
    let changes: [(Change, &str); 6] = [
        (|pod| pod.automount_service_account_token = None, "token"),
        (|pod| pod.host_pid = Some(true), "namespaces of the host"),
        (|pod| pod.security_context.as_mut().unwrap().run_as_user = Some(0), "root"),
        (|pod| security(pod).allow_privilege_escalation = None, "escalation"),
        (|pod| security(pod).privileged = Some(true), "privileged"),
        (|pod| security(pod).read_only_root_filesystem = None, "root file system"),
    ];
    for (change, fault) in changes {
        let mut pod = pod(&manifests(Sandbox::None));
        change(&mut pod);
        assert_eq!(faults(&pod), [fault]);
    }
}

fn security(pod: &mut PodSpec) -> &mut k8s_openapi::api::core::v1::SecurityContext {
    pod.containers[0].security_context.as_mut().unwrap()
}

#[test]
fn all_objects_mean_the_same_pod() {
    let manifests = manifests(Sandbox::None);
    let deployment = manifests.deployment.spec.clone().unwrap();
    let labels = deployment.template.metadata.unwrap().labels.unwrap();
    let service = manifests.service.spec.clone().unwrap();
    let network = manifests.network.spec.clone().unwrap();
    let selectors = [
        deployment.selector.match_labels,
        service.selector,
        network.pod_selector.unwrap().match_labels,
        manifests.disruption.spec.clone().unwrap().selector.unwrap().match_labels,
    ];
    for selector in selectors {
        let selector = selector.unwrap();
        assert!(!selector.is_empty());
        assert!(selector.iter().all(|(name, value)| labels.get(name) == Some(value)));
    }
    let pod = pod(&manifests);
    let claim = pod.volumes.unwrap()[0].persistent_volume_claim.clone().unwrap().claim_name;
    assert_eq!(manifests.claim.metadata.name, Some(claim));
    assert_eq!(manifests.account.metadata.name, pod.service_account_name);
    // Two pods would be two servers on two machines.
    assert_eq!(deployment.replicas, Some(1));
    assert_eq!(deployment.strategy.unwrap().type_.as_deref(), Some("Recreate"));
}

#[test]
fn credentials_of_the_node_are_out_of_reach() {
    let network = manifests(Sandbox::None).network.spec.unwrap();
    assert_eq!(network.policy_types, Some(vec!["Ingress".to_owned(), "Egress".to_owned()]));
    let peers: Vec<_> =
        network.egress.unwrap().into_iter().flat_map(|rule| rule.to.unwrap()).collect();
    // A rule without peers would allow all.
    assert_eq!(peers.len(), 3);
    let blocks: Vec<_> = peers.into_iter().filter_map(|peer| peer.ip_block).collect();
    let except: Vec<String> =
        blocks.iter().flat_map(|block| block.except.clone().unwrap()).collect();
    assert_eq!(except, ["169.254.0.0/16", "fe80::/10", "fd00:ec2::/32"]);
    assert!(
        network.ingress.unwrap().iter().all(|rule| rule.from.is_some() && rule.ports.is_some())
    );
}
