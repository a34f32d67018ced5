//! Installed objects have only the permissions that they need.

use bailiwick_kubernetes::manifests::{
    JobOperator, Manifests, Operator, Place, Sandbox, Server, Worker,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolumeClaim, PodSpec, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn place(name: &str) -> Place {
    Place {
        namespace: "agents".parse().unwrap(),
        name: name.parse().unwrap(),
        storage: "20Gi".parse().unwrap(),
    }
}

pub(crate) fn server(sandbox: Sandbox) -> Manifests {
    let server = Server {
        place: place("bailiwick"),
        image: "registry.example/bailiwick:1".to_owned(),
        host: "agents.example".to_owned(),
        database: "database/url".parse().unwrap(),
        ingress: "ingress-nginx".parse().unwrap(),
        sandbox,
    };
    server.manifests()
}

fn worker() -> Manifests {
    let worker = Worker {
        place: place("worker-1"),
        image: "registry.example/bailiwick:1".to_owned(),
        server: "https://agents.example:8443".parse().unwrap(),
        pool: "inside".parse().unwrap(),
        join_token: "worker-1/token".parse().unwrap(),
        slots: 2,
    };
    worker.manifests()
}

pub(crate) fn operator() -> Operator {
    Operator {
        place: place("bailiwick-operator"),
        image: "registry.example/bailiwick:1".to_owned(),
        server: "https://agents.example".parse().unwrap(),
        token: "operator/token".parse().unwrap(),
    }
}

pub(crate) fn job_operator() -> JobOperator {
    JobOperator {
        installation: "agents".parse().unwrap(),
        server_networks: vec!["198.51.100.7/32".parse().unwrap()],
        model_networks: vec!["203.0.113.0/24".parse().unwrap()],
        place: place("bailiwick-jobs"),
        image: "registry.example/bailiwick:1".to_owned(),
        database: "database/url".parse().unwrap(),
        server: "https://agents.example".parse().unwrap(),
        attempts: vec!["attempts".parse().unwrap(), "untrusted".parse().unwrap()],
        quota_pods: None,
    }
}

fn pod(manifests: &Manifests) -> PodSpec {
    manifests.deployment.spec.clone().unwrap().template.spec.unwrap()
}

/// Checks the type of a document. The types ignore unknown fields, so a round trip must not lose any field.
pub(crate) fn assert_typed<T: DeserializeOwned + Serialize>(document: &Value) {
    let parsed: T = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(&parsed).unwrap(), *document);
}

#[test]
fn printed_yaml_has_no_unknown_fields() {
    for manifests in [server(Sandbox::None), server(Sandbox::InPod), worker()] {
        let text = manifests.yaml().unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let kinds: Vec<&str> = documents.iter().map(|one| one["kind"].as_str().unwrap()).collect();
        let expected = [
            "Namespace",
            "ServiceAccount",
            "PersistentVolumeClaim",
            "NetworkPolicy",
            "Deployment",
            "PodDisruptionBudget",
            "Service",
        ];
        assert_eq!(kinds, expected[..kinds.len()]);
        assert_eq!(kinds.len(), if manifests.service.is_some() { 7 } else { 6 });
        assert_typed::<Namespace>(&documents[0]);
        assert_typed::<ServiceAccount>(&documents[1]);
        assert_typed::<PersistentVolumeClaim>(&documents[2]);
        assert_typed::<NetworkPolicy>(&documents[3]);
        assert_typed::<Deployment>(&documents[4]);
        assert_typed::<PodDisruptionBudget>(&documents[5]);
        documents.get(6).into_iter().for_each(assert_typed::<Service>);
        for document in &documents[1..] {
            assert_eq!(document["metadata"]["namespace"], "agents", "{document}");
        }
    }
}

/// Violations of the Pod Security Standard `restricted`, and of some stricter rules.
fn faults(pod: &PodSpec) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let mut must = |is_met: bool, what: &'static str| {
        if !is_met {
            faults.push(what);
        }
    };
    must(pod.automount_service_account_token == Some(false), "token");
    must(pod.enable_service_links == Some(false), "service links");
    let host = [pod.host_network, pod.host_pid, pod.host_ipc];
    must(host.iter().all(|one| *one != Some(true)), "namespaces of the host");
    let volumes = pod.volumes.iter().flatten();
    must(volumes.clone().all(|volume| volume.host_path.is_none()), "files of the host");
    must(pod.volumes.as_ref().is_some_and(|all| !all.is_empty()), "no volumes");
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
fn operator_has_no_privileges_and_its_token_expires() {
    let operator = operator();
    let document: Value = serde_saphyr::from_str(&operator.yaml().unwrap()).unwrap();
    assert_typed::<Deployment>(&document);
    let deployment = operator.deployment().spec.unwrap();
    assert_eq!(deployment.replicas, Some(1));
    assert_eq!(deployment.strategy.unwrap().type_.as_deref(), Some("Recreate"));
    let pod = deployment.template.spec.unwrap();
    assert_eq!(faults(&pod), Vec::<&str>::new());
    assert_eq!(pod.service_account_name.as_deref(), Some("bailiwick-operator"));
    let volumes = pod.volumes.clone().unwrap();
    let sources = volumes.iter().filter_map(|volume| volume.projected.clone()?.sources);
    let tokens: Vec<_> =
        sources.flatten().filter_map(|source| source.service_account_token).collect();
    assert_eq!((tokens.len(), tokens[0].expiration_seconds), (1, Some(3_600)));
    // Every volume of the container is one of the pod.
    for mount in pod.containers[0].volume_mounts.iter().flatten() {
        assert!(volumes.iter().any(|volume| volume.name == mount.name), "{}", mount.name);
    }
    let command = pod.containers[0].command.clone().unwrap().join(" ");
    assert_eq!(
        command,
        "bailiwick-kubernetes operator --server https://agents.example \
         --token-file /run/bailiwick-server/token --namespace agents"
    );
}

#[test]
fn server_without_agents_has_no_privileges() {
    let manifests = server(Sandbox::None);
    assert_eq!(faults(&pod(&manifests)), Vec::<&str>::new());
    assert_eq!(manifests.account.automount_service_account_token, Some(false));
    let labels = manifests.namespace.metadata.labels.unwrap();
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
}

/// Only the privileges that the sandbox needs, and only in a separate user namespace.
#[test]
fn pod_with_agents_has_only_the_privileges_for_the_sandbox() {
    for manifests in [server(Sandbox::InPod), worker()] {
        let pod = pod(&manifests);
        assert_eq!(faults(&pod), ["seccomp", "AppArmor", "procMount"]);
        assert_eq!(pod.host_users, Some(false));
        let labels = manifests.namespace.metadata.labels.unwrap();
        assert_eq!(labels["pod-security.kubernetes.io/enforce"], "privileged");
    }
}

/// The join token is a file, and only this key of its secret is mounted.
#[test]
fn worker_reads_its_token_and_accepts_no_connections() {
    let manifests = worker();
    let network = manifests.network.spec.clone().unwrap();
    assert!(network.policy_types.unwrap().contains(&"Ingress".to_owned()));
    assert_eq!((network.ingress, manifests.service.clone()), (None, None));
    let pod = pod(&manifests);
    let container = &pod.containers[0];
    let command = container.command.clone().unwrap().join(" ");
    assert_eq!(
        command,
        "bailiwick worker --server https://agents.example:8443 --pool inside --name worker-1 --slots 2 \
         --join-token-file /run/bailiwick-join/token --directory /var/lib/bailiwick/worker"
    );
    let secret = pod.volumes.unwrap().pop().unwrap().secret.unwrap();
    let keys = secret.items.unwrap().into_iter().map(|item| (item.key, item.path));
    assert_eq!(keys.collect::<Vec<_>>(), [("token".to_owned(), "token".to_owned())]);
    assert_eq!(secret.secret_name.as_deref(), Some("worker-1"));
    assert!(container.env.iter().flatten().all(|variable| variable.value_from.is_none()));
}

#[test]
fn privileges_are_detected() {
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
        let mut pod = pod(&server(Sandbox::None));
        change(&mut pod);
        assert_eq!(faults(&pod), [fault]);
    }
}

fn security(pod: &mut PodSpec) -> &mut k8s_openapi::api::core::v1::SecurityContext {
    pod.containers[0].security_context.as_mut().unwrap()
}

#[test]
fn all_objects_select_the_same_pod() {
    let other = server(Sandbox::None).deployment.spec.unwrap().template.metadata.unwrap().labels;
    for manifests in [server(Sandbox::None), worker()] {
        let deployment = manifests.deployment.spec.clone().unwrap();
        let labels = deployment.template.metadata.unwrap().labels.unwrap();
        let network = manifests.network.spec.clone().unwrap();
        let selectors = [
            deployment.selector.match_labels,
            network.pod_selector.unwrap().match_labels,
            manifests.disruption.spec.clone().unwrap().selector.unwrap().match_labels,
        ];
        let service = manifests.service.clone().map(|service| service.spec.unwrap().selector);
        for selector in selectors.into_iter().chain(service) {
            let selector = selector.unwrap();
            assert!(selector.iter().all(|(name, value)| labels.get(name) == Some(value)));
            let selects_other = selector
                .iter()
                .all(|(name, value)| other.as_ref().unwrap().get(name) == Some(value));
            assert_eq!(selects_other, Some(&labels) == other.as_ref(), "it selects only this pod");
        }
        let pod = pod(&manifests);
        let claim = pod.volumes.unwrap()[0].persistent_volume_claim.clone().unwrap().claim_name;
        assert_eq!(manifests.claim.metadata.name, Some(claim));
        assert_eq!(manifests.account.metadata.name, pod.service_account_name);
        // Two pods would be two servers on two machines.
        assert_eq!(deployment.replicas, Some(1));
        assert_eq!(deployment.strategy.unwrap().type_.as_deref(), Some("Recreate"));
    }
}

#[test]
fn credentials_of_the_node_are_unreachable() {
    let network = server(Sandbox::None).network.spec.unwrap();
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

#[test]
fn operator_of_jobs_has_roles_in_the_namespaces_of_jobs_only() {
    use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
    let text = job_operator().manifests().yaml().unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let of_kind =
        |kind: &str| documents.iter().filter(|one| one["kind"] == kind).collect::<Vec<_>>();
    assert_eq!(
        (of_kind("Namespace").len(), of_kind("Role").len(), of_kind("RoleBinding").len()),
        (2, 2, 2)
    );
    assert!(of_kind("ClusterRole").is_empty() && of_kind("ClusterRoleBinding").is_empty());
    for (role, binding) in of_kind("Role").into_iter().zip(of_kind("RoleBinding")) {
        assert_typed::<Role>(role);
        assert_typed::<RoleBinding>(binding);
        assert_ne!(role["metadata"]["namespace"], "agents");
        assert_eq!(role["metadata"]["namespace"], binding["metadata"]["namespace"]);
        // Another installation that uses the namespace has other names.
        assert_eq!(role["metadata"]["name"], "bailiwick-jobs-agents");
        assert_eq!(binding["metadata"]["name"], "bailiwick-jobs-agents");
        assert_eq!(binding["roleRef"]["name"], "bailiwick-jobs-agents");
        assert_eq!(role["metadata"]["labels"]["bailiwick.dev/installation"], "agents");
        assert_eq!(binding["subjects"][0]["name"], "bailiwick-jobs");
        assert_eq!(binding["subjects"][0]["namespace"], "agents");
        let text = role.to_string();
        assert!(!text.contains('*') && !text.contains("escalate"), "{text}");
        let secrets = role["rules"].as_array().unwrap().iter();
        let secrets = secrets.filter(|rule| rule["resources"][0] == "secrets");
        assert!(secrets.clone().all(|rule| rule["verbs"] == serde_json::json!(["create"])));
        assert_eq!(secrets.count(), 1);
    }
    let deployment = of_kind("Deployment")[0];
    assert_typed::<Deployment>(deployment);
    let pod = &deployment["spec"]["template"]["spec"];
    let command: Vec<String> =
        serde_json::from_value(pod["containers"][0]["command"].clone()).unwrap();
    assert_eq!(
        command.join(" "),
        "bailiwick-kubernetes jobs --server https://agents.example --image registry.example/bailiwick:1 \
         --namespace attempts --namespace untrusted --installation agents \
         --server-network 198.51.100.7/32 --model-network 203.0.113.0/24"
    );
    assert_eq!(pod["automountServiceAccountToken"], true, "positive control");
    assert_eq!(pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"], true);
}
