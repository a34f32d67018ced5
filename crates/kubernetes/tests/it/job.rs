//! The Job of an attempt has only the permissions that it needs, and is always the same for the same input.

use std::collections::BTreeSet;

use bailiwick_kubernetes::jobs::{
    AttemptJob, Cluster, JobPool, NamespaceError, attempt_and_number, job, job_name, namespace,
    network_policy, selector, token_secret,
};
use bailiwick_resources::{
    JobSettings, JobToleration, PodGrants, PodIsolation, TaintEffect, TrustTier, WorkerExit,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodSpec;

const ATTEMPT: &str = "fixer-0190c0de";

pub(crate) fn cluster() -> Cluster {
    Cluster {
        installation: "bailiwick".parse().unwrap(),
        namespace: "bailiwick-attempts".parse().unwrap(),
        other_namespaces: vec!["trusted".parse().unwrap(), "untrusted".parse().unwrap()],
        image: "registry.example/bailiwick:1".to_owned(),
        server: "https://agents.example".parse().unwrap(),
        server_networks: Vec::new(),
        model_networks: Vec::new(),
    }
}

pub(crate) fn example_job(settings: &JobSettings, number: u64) -> Job {
    let cluster = cluster();
    let namespace = &cluster.namespace;
    let grants = &PodGrants::default();
    let wanted =
        AttemptJob { attempt: ATTEMPT, pool: "inside", settings, grants, namespace, number };
    job(&wanted, &cluster)
}

fn pod(job: &Job) -> PodSpec {
    job.spec.clone().unwrap().template.spec.unwrap()
}

#[test]
fn job_of_an_attempt_matches_the_snapshot() {
    insta::assert_snapshot!(
        serde_saphyr::to_string(&example_job(&JobSettings::default(), 1)).unwrap()
    );
}

#[test]
fn settings_of_the_pool_decide_where_its_pods_run() {
    let settings = JobSettings {
        image: Some("registry.example/own:2".to_owned()),
        image_pull_secrets: vec!["registry".to_owned()],
        namespace: Some("untrusted".to_owned()),
        deadline: Some("90m".parse().unwrap()),
        keep_for: Some("20m".parse().unwrap()),
        isolation: PodIsolation::RuntimeDefault,
        node_selector: [("kind".to_owned(), "agents".to_owned())].into(),
        tolerations: vec![
            JobToleration {
                key: Some("agents".to_owned()),
                value: Some("only".to_owned()),
                effect: Some(TaintEffect::NoSchedule),
            },
            JobToleration { key: Some("spot".to_owned()), ..JobToleration::default() },
        ],
        runtime_class: Some("gvisor".to_owned()),
        priority_class: Some("low".to_owned()),
        service_account: Some("runner".to_owned()),
        ..JobSettings::default()
    };
    let pool = JobPool { settings: settings.clone(), trust_tier: TrustTier::Untrusted };
    let namespace = namespace(&pool, &BTreeSet::new(), &cluster()).unwrap();
    let attempt_job = AttemptJob {
        attempt: ATTEMPT,
        pool: "inside",
        settings: &settings,
        grants: &PodGrants::default(),
        namespace: &namespace,
        number: 2,
    };
    let job = job(&attempt_job, &cluster());
    assert_eq!(job.metadata.namespace.as_deref(), Some("untrusted"));
    let spec = job.spec.clone().unwrap();
    assert_eq!(spec.active_deadline_seconds, Some(90 * 60));
    assert_eq!(spec.ttl_seconds_after_finished, Some(20 * 60));
    let pod = pod(&job);
    assert_eq!(pod.containers[0].image.as_deref(), Some("registry.example/own:2"));
    assert_eq!(pod.image_pull_secrets.unwrap()[0].name, "registry");
    assert_eq!(pod.node_selector.unwrap()["kind"], "agents");
    let tolerations = pod.tolerations.unwrap();
    let operators = tolerations.iter().map(|one| one.operator.as_deref().unwrap());
    assert_eq!(operators.collect::<Vec<_>>(), ["Equal", "Exists"]);
    assert_eq!(tolerations[0].effect.as_deref(), Some("NoSchedule"));
    assert_eq!(pod.runtime_class_name.as_deref(), Some("gvisor"));
    assert_eq!(pod.priority_class_name.as_deref(), Some("low"));
    assert_eq!(pod.service_account_name.as_deref(), Some("runner"));
    // With the profiles of the runtime, nothing else changes.
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(pod.host_users, None);
    assert_eq!(pod.security_context.unwrap().seccomp_profile.unwrap().type_, "RuntimeDefault");
}

#[test]
fn untrusted_pool_never_gets_a_trusted_namespace() {
    let trusted = BTreeSet::from(["trusted".to_owned()]);
    let namespace_of = |trust_tier: TrustTier, name: Option<&str>| {
        let settings = JobSettings { namespace: name.map(str::to_owned), ..JobSettings::default() };
        namespace(&JobPool { settings, trust_tier }, &trusted, &cluster())
            .map(|namespace| namespace.to_string())
    };
    let label = |name: &str| name.parse().unwrap();
    for (tier, name, expected) in [
        (TrustTier::Trusted, None, Ok("bailiwick-attempts".to_owned())),
        (TrustTier::Trusted, Some("trusted"), Ok("trusted".to_owned())),
        (TrustTier::Untrusted, Some("untrusted"), Ok("untrusted".to_owned())),
        (TrustTier::Untrusted, None, Err(NamespaceError::Trusted(label("bailiwick-attempts")))),
        (
            TrustTier::Untrusted,
            Some("bailiwick-attempts"),
            Err(NamespaceError::Trusted(label("bailiwick-attempts"))),
        ),
        (TrustTier::Untrusted, Some("trusted"), Err(NamespaceError::Trusted(label("trusted")))),
        // An invalid name is an error; the default namespace is not used instead.
        (
            TrustTier::Untrusted,
            Some("team.untrusted"),
            Err(NamespaceError::NotAName("team.untrusted".to_owned())),
        ),
        (TrustTier::Trusted, Some("elsewhere"), Err(NamespaceError::NotServed(label("elsewhere")))),
    ] {
        assert_eq!(namespace_of(tier, name), expected, "{tier:?} {name:?}");
    }
}

#[test]
fn ended_job_is_retained_for_at_least_ten_minutes() {
    let settings = JobSettings { keep_for: Some("1s".parse().unwrap()), ..JobSettings::default() };
    assert_eq!(example_job(&settings, 1).spec.unwrap().ttl_seconds_after_finished, Some(600));
}

/// The pod gets only a token for this attempt and empty directories.
#[test]
fn pod_gets_no_secret_except_its_token() {
    let job = example_job(&JobSettings::default(), 1);
    let pod = pod(&job);
    let volumes = pod.volumes.unwrap();
    let secrets: Vec<_> = volumes.iter().filter_map(|volume| volume.secret.clone()).collect();
    assert_eq!(secrets.len(), 1);
    assert_eq!(secrets[0].secret_name, job.metadata.name);
    let others = volumes.iter().filter(|volume| volume.secret.is_none());
    assert!(others.clone().all(|volume| volume.empty_dir.is_some()) && others.count() == 2);
    assert!(pod.containers[0].env.iter().flatten().all(|one| one.value_from.is_none()));
    assert!(pod.containers[0].env_from.is_none());
    assert_eq!(token_secret(&job, "bwj_x"), None, "a Job that was not created has no uid");
    let mut stored = job.clone();
    stored.metadata.uid = Some("the-uid".to_owned());
    let secret = token_secret(&stored, "bwj_x").unwrap();
    let owner = &secret.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("Job", "the-uid"));
    assert_eq!(secret.metadata.name, job.metadata.name);
    assert_eq!(secret.immutable, Some(true));
}

#[test]
fn job_is_identified_by_its_attempt_and_number() {
    let (first, repeated) =
        (example_job(&JobSettings::default(), 1), example_job(&JobSettings::default(), 1));
    assert_eq!(first, repeated);
    let second = example_job(&JobSettings::default(), 2);
    assert_ne!(first.metadata.name, second.metadata.name);
    let installation = cluster().installation;
    assert_eq!(second.metadata.name, Some(job_name(&installation, ATTEMPT, 2)));
    assert_eq!(attempt_and_number(&second.metadata, &installation), Some((ATTEMPT, 2)));
    // A person who may create Jobs can set these annotations on a Job with another name.
    let mut forged = second.metadata.clone();
    forged.name = Some("forged".to_owned());
    assert_eq!(attempt_and_number(&forged, &installation), None);
    let other = "other".parse().unwrap();
    assert_eq!(attempt_and_number(&second.metadata, &other), None);
    assert_ne!(job_name(&installation, ATTEMPT, 1), job_name(&other, ATTEMPT, 1));
    let labels = second.metadata.labels.unwrap();
    for part in selector(&installation).split(',') {
        let (name, value) = part.split_once('=').unwrap();
        assert_eq!(labels[name], value);
    }
    // Kubernetes limits names and labels to 63 characters.
    let long = "a".repeat(500);
    let attempt_job = AttemptJob {
        attempt: &long,
        pool: &"p".repeat(100),
        settings: &JobSettings::default(),
        grants: &PodGrants::default(),
        namespace: &cluster().namespace,
        number: u64::MAX,
    };
    let job = job(&attempt_job, &cluster());
    assert!(job.metadata.name.unwrap().len() <= 63);
    assert!(job.metadata.labels.unwrap().values().all(|value| value.len() <= 63));
}

/// Each exit code of the worker, and a disruption of the pod, has its own rule that fails the Job.
#[test]
fn every_exit_code_of_the_worker_has_a_rule() {
    let spec = example_job(&JobSettings::default(), 1).spec.unwrap();
    assert_eq!(
        (spec.backoff_limit, spec.template.spec.unwrap().restart_policy.as_deref()),
        (Some(0), Some("Never"))
    );
    let rules = spec.pod_failure_policy.unwrap().rules;
    assert!(rules.iter().all(|rule| rule.action == "FailJob"));
    let codes = rules.iter().filter_map(|rule| rule.on_exit_codes.clone());
    let codes: Vec<i32> = codes.flat_map(|codes| codes.values).collect();
    let expected = WorkerExit::ALL.map(|exit| i32::from(exit.code()));
    assert_eq!(codes, expected.into_iter().filter(|code| *code != 0).collect::<Vec<_>>());
    let condition = &rules[0].on_pod_conditions.as_ref().unwrap()[0];
    assert_eq!(condition.type_, "DisruptionTarget");
}

#[test]
fn pods_of_attempts_reach_dns_the_server_and_the_model() {
    let mut cluster = cluster();
    cluster.server = "https://agents.example:8443".parse().unwrap();
    cluster.model_networks = vec!["203.0.113.0/24".parse().unwrap()];
    let policy = network_policy(&cluster.namespace, &cluster);
    let spec = policy.spec.unwrap();
    assert_eq!(spec.policy_types.unwrap(), ["Ingress", "Egress"]);
    assert_eq!(spec.ingress, None);
    let labels =
        example_job(&JobSettings::default(), 1).spec.unwrap().template.metadata.unwrap().labels;
    let selected = spec.pod_selector.unwrap().match_labels.unwrap();
    assert!(selected.iter().all(|(name, value)| labels.as_ref().unwrap().get(name) == Some(value)));
    let rules = spec.egress.unwrap();
    assert_eq!(rules.len(), 3);
    // A rule without peers or ports would allow all.
    assert!(rules.iter().all(|rule| rule.to.as_ref().is_some_and(|to| !to.is_empty())));
    assert!(rules.iter().all(|rule| rule.ports.as_ref().is_some_and(|ports| !ports.is_empty())));
    let blocks = rules.iter().flat_map(|rule| rule.to.clone().unwrap());
    let blocks: Vec<_> = blocks.filter_map(|peer| peer.ip_block).collect();
    assert_eq!(blocks.last().unwrap().cidr, "203.0.113.0/24");
    for block in blocks.iter().filter(|block| block.cidr.ends_with("/0")) {
        assert!(block.except.as_ref().is_some_and(|except| !except.is_empty()), "{block:?}");
    }
}

/// Without configured networks, a pod can also reach nodes, other pods and the API server.
#[test]
fn pods_with_configured_networks_reach_no_other_addresses() {
    let blocks = |cluster: &Cluster| {
        let policy = network_policy(&cluster.namespace, cluster);
        assert_eq!(policy.metadata.name.as_deref(), Some("bailiwick-attempts-bailiwick"));
        let rules = policy.spec.unwrap().egress.unwrap();
        let peers = rules.into_iter().flat_map(|rule| rule.to.unwrap());
        peers.filter_map(|peer| peer.ip_block).map(|block| block.cidr).collect::<Vec<_>>()
    };
    let mut cluster = cluster();
    assert_eq!(blocks(&cluster), ["0.0.0.0/0", "::/0", "0.0.0.0/0", "::/0"]);
    cluster.server_networks = vec!["198.51.100.7/32".parse().unwrap()];
    cluster.model_networks = vec!["203.0.113.0/24".parse().unwrap()];
    assert_eq!(blocks(&cluster), ["198.51.100.7/32", "203.0.113.0/24"]);
}
