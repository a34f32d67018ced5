//! The Job of an attempt can do no more than it needs, and is the same one each time.

use bailiwick_kubernetes::jobs::{
    AttemptJob, Cluster, attempt_of, job, job_name, network_policy, number_of, token_secret,
};
use bailiwick_resources::{JobSettings, JobToleration, PodIsolation, TaintEffect, WorkerExit};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodSpec;

const ATTEMPT: &str = "fixer-0190c0de";

pub(crate) fn cluster() -> Cluster {
    Cluster {
        namespace: "bailiwick-attempts".parse().unwrap(),
        image: "registry.example/bailiwick:1".to_owned(),
        server: "https://agents.example".parse().unwrap(),
        model_networks: Vec::new(),
    }
}

pub(crate) fn made(settings: &JobSettings, number: u64) -> Job {
    job(&AttemptJob { attempt: ATTEMPT, pool: "inside", settings, number }, &cluster())
}

fn pod(job: &Job) -> PodSpec {
    job.spec.clone().unwrap().template.spec.unwrap()
}

#[test]
fn job_of_an_attempt_is_this_one() {
    insta::assert_snapshot!(serde_saphyr::to_string(&made(&JobSettings::default(), 1)).unwrap());
}

#[test]
fn the_pool_decides_where_its_pods_run() {
    let settings = JobSettings {
        image: Some("registry.example/own:2".to_owned()),
        image_pull_secrets: vec!["registry".to_owned()],
        namespace: Some("untrusted".to_owned()),
        deadline: Some("90m".parse().unwrap()),
        keep_for: Some("5m".parse().unwrap()),
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
    let job = made(&settings, 2);
    assert_eq!(job.metadata.namespace.as_deref(), Some("untrusted"));
    let spec = job.spec.clone().unwrap();
    assert_eq!(spec.active_deadline_seconds, Some(90 * 60));
    assert_eq!(spec.ttl_seconds_after_finished, Some(5 * 60));
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

/// All that the pod gets is a token for this attempt, and empty directories.
#[test]
fn no_secret_but_its_token_reaches_the_pod() {
    let job = made(&JobSettings::default(), 1);
    let pod = pod(&job);
    let volumes = pod.volumes.unwrap();
    let secrets: Vec<_> = volumes.iter().filter_map(|volume| volume.secret.clone()).collect();
    assert_eq!(secrets.len(), 1);
    assert_eq!(secrets[0].secret_name, job.metadata.name);
    let others = volumes.iter().filter(|volume| volume.secret.is_none());
    assert!(others.clone().all(|volume| volume.empty_dir.is_some()) && others.count() == 2);
    assert!(pod.containers[0].env.iter().flatten().all(|one| one.value_from.is_none()));
    assert!(pod.containers[0].env_from.is_none());
    assert_eq!(token_secret(&job, "bwj_x"), None, "a Job that was not made has no uid");
    let mut stored = job.clone();
    stored.metadata.uid = Some("the-uid".to_owned());
    let secret = token_secret(&stored, "bwj_x").unwrap();
    let owner = &secret.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("Job", "the-uid"));
    assert_eq!(secret.metadata.name, job.metadata.name);
    assert_eq!(secret.immutable, Some(true));
}

#[test]
fn a_job_is_found_again_by_its_attempt_and_number() {
    let (first, again) = (made(&JobSettings::default(), 1), made(&JobSettings::default(), 1));
    assert_eq!(first, again);
    let second = made(&JobSettings::default(), 2);
    assert_ne!(first.metadata.name, second.metadata.name);
    assert_eq!(second.metadata.name, Some(job_name(ATTEMPT, 2)));
    assert_eq!(
        (attempt_of(&second.metadata), number_of(&second.metadata)),
        (Some(ATTEMPT), Some(2))
    );
    // Names and labels of Kubernetes are shorter than ours.
    let long = "a".repeat(500);
    let wanted = AttemptJob {
        attempt: &long,
        pool: &"p".repeat(100),
        settings: &JobSettings::default(),
        number: u64::MAX,
    };
    let job = job(&wanted, &cluster());
    assert!(job.metadata.name.unwrap().len() <= 63);
    assert!(job.metadata.labels.unwrap().values().all(|value| value.len() <= 63));
}

/// Each end of the worker, and a disturbed pod, fail the Job by a rule of their own.
#[test]
fn every_end_of_the_worker_has_a_rule() {
    let spec = made(&JobSettings::default(), 1).spec.unwrap();
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
fn pods_of_attempts_reach_names_the_server_and_the_model() {
    let mut cluster = cluster();
    cluster.server = "https://agents.example:8443".parse().unwrap();
    cluster.model_networks = vec!["203.0.113.0/24".to_owned()];
    let policy = network_policy(&cluster.namespace, &cluster);
    let spec = policy.spec.unwrap();
    assert_eq!(spec.policy_types.unwrap(), ["Ingress", "Egress"]);
    assert_eq!(spec.ingress, None);
    let labels = made(&JobSettings::default(), 1).spec.unwrap().template.metadata.unwrap().labels;
    let chosen = spec.pod_selector.unwrap().match_labels.unwrap();
    assert!(chosen.iter().all(|(name, value)| labels.as_ref().unwrap().get(name) == Some(value)));
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
