//! The Job of an attempt: one pod, with the worker and its supervisor inside, that is never started again.

use std::collections::BTreeMap;

use bailiwick_resources::{
    JobResources, JobSettings, JobToleration, MIN_JOB_KEEP, PodGrants, PodIsolation, WorkerExit,
};
use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, KeyToPath, LocalObjectReference, PodSpec, PodTemplateSpec,
    ResourceRequirements, SecretVolumeSource, Toleration, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::name::TOKEN_KEY;
use super::{grants, name};
use crate::manifests::{Cidr, Label, Sandbox, ServerAddress, pod};

/// Where the token is.
const TOKEN: &str = "/run/bailiwick-join";
/// Readable by the group of the pod.
pub(super) const TOKEN_MODE: i32 = 0o440;
const DEFAULT_KEEP_SECONDS: i32 = 3_600;
/// The name of the container.
pub(super) const WORKER: &str = "worker";

/// What all Jobs of a cluster have in common.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The name of the installation: the operator of another one in the cluster leaves its Jobs alone.
    pub installation: Label,
    /// The namespace of the Jobs of pools that name no other one.
    pub namespace: Label,
    /// The other namespaces that pools may name.
    pub other_namespaces: Vec<Label>,
    /// The image of pools that name no other one.
    pub image: String,
    /// The server.
    pub server: ServerAddress,
    /// The networks of the server. If empty, all addresses at its port.
    pub server_networks: Vec<Cidr>,
    /// The networks of model services. If empty, all addresses at port 443.
    pub model_networks: Vec<Cidr>,
}

impl Cluster {
    /// All namespaces for Jobs.
    pub fn namespaces(&self) -> impl Iterator<Item = &Label> {
        std::iter::once(&self.namespace).chain(&self.other_namespaces)
    }
}

/// The Job of an attempt, as it is to be.
#[derive(Debug, Clone, Copy)]
pub struct AttemptJob<'a> {
    /// The attempt: the run of the ledger.
    pub attempt: &'a str,
    /// Its pool.
    pub pool: &'a str,
    /// The settings of the pool.
    pub settings: &'a JobSettings,
    /// What its pod is granted of the cluster.
    pub grants: &'a PodGrants,
    /// Where it is.
    pub namespace: &'a Label,
    /// Its number among the Jobs of the attempt, from 1.
    pub number: u64,
}

/// The Job of an attempt.
pub fn job(wanted: &AttemptJob<'_>, cluster: &Cluster) -> Job {
    let settings = wanted.settings;
    let AttemptJob { attempt, pool, namespace, number, .. } = *wanted;
    let metadata = name::metadata(namespace, &cluster.installation, attempt, pool, number);
    let of_pod = ObjectMeta {
        labels: metadata.labels.clone(),
        annotations: metadata.annotations.clone(),
        ..ObjectMeta::default()
    };
    // Pools of earlier versions may have a shorter time.
    let keep = settings.keep_for.map(|span| seconds(span.max(MIN_JOB_KEEP).millis()));
    let keep = keep.map(i32::try_from);
    Job {
        metadata,
        spec: Some(JobSpec {
            completions: Some(1),
            parallelism: Some(1),
            // The token is for one worker: a second pod could not join.
            backoff_limit: Some(0),
            pod_replacement_policy: Some("Failed".to_owned()),
            pod_failure_policy: Some(PodFailurePolicy { rules: failure_rules() }),
            active_deadline_seconds: Some(deadline_seconds(settings)),
            ttl_seconds_after_finished: Some(match keep {
                None => DEFAULT_KEEP_SECONDS,
                Some(keep) => keep.unwrap_or(i32::MAX),
            }),
            template: PodTemplateSpec {
                metadata: Some(of_pod),
                spec: Some(pod_spec(wanted, cluster)),
            },
            ..JobSpec::default()
        }),
        status: None,
    }
}

/// How long a Job may take.
pub fn deadline_seconds(settings: &JobSettings) -> i64 {
    i64::try_from(settings.deadline_seconds()).unwrap_or(i64::MAX)
}

/// At least one second: zero would mean that it ends, or is deleted, at once.
fn seconds(millis: u64) -> i64 {
    i64::try_from(millis.div_ceil(1000)).unwrap_or(i64::MAX).max(1)
}

/// All of them fail the Job; the rule that matched says why.
fn failure_rules() -> Vec<PodFailurePolicyRule> {
    let disrupted = PodFailurePolicyRule {
        action: "FailJob".to_owned(),
        on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
        }]),
        on_exit_codes: None,
    };
    let ended = WorkerExit::ALL.into_iter().filter(|exit| *exit != WorkerExit::Done);
    let exits = ended.map(|exit| PodFailurePolicyRule {
        action: "FailJob".to_owned(),
        on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
            container_name: Some(WORKER.to_owned()),
            operator: "In".to_owned(),
            values: vec![i32::from(exit.code())],
        }),
        on_pod_conditions: None,
    });
    [disrupted].into_iter().chain(exits).collect()
}

fn sandbox(settings: &JobSettings) -> Sandbox {
    match settings.isolation {
        PodIsolation::UserNamespace => Sandbox::InPod,
        PodIsolation::RuntimeDefault => Sandbox::None,
    }
}

fn pod_spec(wanted: &AttemptJob<'_>, cluster: &Cluster) -> PodSpec {
    let settings = wanted.settings;
    let sandbox = sandbox(settings);
    let pull = grants::image_pull_secrets(wanted.grants, settings).into_iter();
    let pull = pull.map(|name| LocalObjectReference { name });
    let tolerations = settings.tolerations.iter().map(toleration);
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        service_account_name: grants::account(wanted.grants, settings),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        share_process_namespace: Some(false),
        host_users: pod::host_users(sandbox),
        security_context: Some(pod::security(sandbox)),
        termination_grace_period_seconds: Some(pod::GRACE_SECONDS),
        image_pull_secrets: not_empty(pull.collect()),
        node_selector: Some(settings.node_selector.clone()).filter(|labels| !labels.is_empty()),
        tolerations: not_empty(tolerations.collect()),
        runtime_class_name: settings.runtime_class.clone(),
        priority_class_name: settings.priority_class.clone(),
        containers: vec![container(wanted, cluster, sandbox)],
        volumes: Some(volumes(wanted, cluster)),
        ..PodSpec::default()
    }
}

fn not_empty<T>(all: Vec<T>) -> Option<Vec<T>> {
    Some(all).filter(|all| !all.is_empty())
}

fn toleration(toleration: &JobToleration) -> Toleration {
    let operator = if toleration.value.is_some() { "Equal" } else { "Exists" };
    Toleration {
        key: toleration.key.clone(),
        operator: Some(operator.to_owned()),
        value: toleration.value.clone(),
        effect: toleration.effect.map(|effect| effect.as_str().to_owned()),
        toleration_seconds: None,
    }
}

fn container(wanted: &AttemptJob<'_>, cluster: &Cluster, sandbox: Sandbox) -> Container {
    let settings = wanted.settings;
    let server = cluster.server.to_string();
    let name = name::job_name(&cluster.installation, wanted.attempt, wanted.number);
    let (token, directory) = (format!("{TOKEN}/{TOKEN_KEY}"), format!("{}/worker", pod::DATA));
    let command = [
        "bailiwick",
        "worker",
        "--once",
        "--server",
        &server,
        "--pool",
        wanted.pool,
        "--name",
        &name,
        "--join-token-file",
        &token,
        "--directory",
        &directory,
    ];
    let mut command: Vec<String> = command.map(str::to_owned).into();
    let values = grants::mount(wanted.grants);
    if let Some(values) = &values {
        command.extend(["--values".to_owned(), values.mount_path.clone()]);
    }
    let image = settings.image.as_deref().unwrap_or(&cluster.image);
    let mut container = pod::container(image, sandbox, command, Vec::new());
    let mut join = pod::mount("join", TOKEN);
    join.read_only = Some(true);
    container.volume_mounts.get_or_insert_default().extend([join].into_iter().chain(values));
    Container {
        name: WORKER.to_owned(),
        resources: Some(resources(&settings.resources)),
        // Its last words say why it could not run the attempt.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..container
    }
}

/// Memory and disk are requested as they are limited, so that a node never has to take them back.
fn resources(wanted: &JobResources) -> ResourceRequirements {
    let amounts = |amounts: &[(&str, &String)]| -> BTreeMap<String, Quantity> {
        let quantity =
            |(name, amount): &(&str, &String)| ((*name).to_owned(), Quantity((*amount).clone()));
        amounts.iter().map(quantity).collect()
    };
    let JobResources { cpu, memory, ephemeral_storage } = wanted;
    let limits = [("memory", memory), ("ephemeral-storage", ephemeral_storage)];
    let requests = [("cpu", cpu), ("memory", memory), ("ephemeral-storage", ephemeral_storage)];
    ResourceRequirements {
        limits: Some(amounts(&limits)),
        requests: Some(amounts(&requests)),
        claims: None,
    }
}

fn volumes(wanted: &AttemptJob<'_>, cluster: &Cluster) -> Vec<Volume> {
    let empty = |name: &str| Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity(wanted.settings.resources.ephemeral_storage.clone())),
            medium: None,
        }),
        ..Volume::default()
    };
    let join = Volume {
        name: "join".to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(name::job_name(&cluster.installation, wanted.attempt, wanted.number)),
            items: Some(vec![KeyToPath {
                key: TOKEN_KEY.to_owned(),
                path: TOKEN_KEY.to_owned(),
                mode: None,
            }]),
            default_mode: Some(TOKEN_MODE),
            optional: None,
        }),
        ..Volume::default()
    };
    let own = [empty("data"), empty("temporary"), join];
    own.into_iter().chain(grants::volume(wanted.grants)).collect()
}
