//! The Kubernetes Job of an attempt: what its pod gets, and where it runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Span, is_namespace_name, is_object_name};

/// An ended Job stays at least as long, so that an operator that was away sees how it ended, and makes no second one.
pub const MIN_JOB_KEEP: Span = Span::from_millis(600_000);

/// How long a Job may take if its pool does not say it.
const DEFAULT_DEADLINE: Span = Span::from_millis(6 * 3_600_000);

/// The Jobs of a pool with `runsOn: jobs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JobSettings {
    /// The container image, with `bailiwick`, git and the agent programs. If left out, that of the operator's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The names of the secrets with the credentials of the image registry, in the namespace of the Jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// The namespace of the Jobs. The default is the operator's. Untrusted pools name one that no trusted pool uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What the pod requests, and may use at most.
    pub resources: JobResources,
    /// The longest time that a Job may take, from its creation, such as `2h`. The default is `6h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// How long an ended Job stays, so that its log can be read: `10m` or more. The default is `1h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_for: Option<Span>,
    /// The isolation that the pod asks of its node.
    pub isolation: PodIsolation,
    /// The labels that a node must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// The taints of nodes that the pod tolerates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<JobToleration>,
    /// The name of the RuntimeClass, such as one for gVisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class: Option<String>,
    /// The name of the PriorityClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// The name of the ServiceAccount of the pod, for runs without an identity in the cluster: untrusted runs, and all
    /// runs of untrusted pools. Its token is never mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
}

/// What a pod requests, and may use at most, as quantities of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JobResources {
    /// The requested processor time, such as `500m` or `2`.
    pub cpu: String,
    /// The memory that it requests and may use, such as `4Gi`.
    pub memory: String,
    /// The local disk that it requests and may use, such as `10Gi`.
    pub ephemeral_storage: String,
}

impl Default for JobResources {
    fn default() -> Self {
        Self {
            cpu: "500m".to_owned(),
            memory: "4Gi".to_owned(),
            ephemeral_storage: "10Gi".to_owned(),
        }
    }
}

/// The isolation that the pod of an attempt asks of its node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PodIsolation {
    /// A user namespace of the pod, in which the sandbox makes its own. This is the default.
    #[default]
    UserNamespace,
    /// The profiles of the container runtime. The sandbox needs a RuntimeClass that permits namespaces, such as gVisor.
    RuntimeDefault,
}

/// A taint that a pod tolerates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JobToleration {
    /// The key of the taint. If left out, every key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The value of the taint. If left out, every value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The effect of the taint. If left out, every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// The effect of a taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// Pods that do not tolerate it are not placed there.
    NoSchedule,
    /// Such pods are placed elsewhere if possible.
    PreferNoSchedule,
    /// Such pods are removed.
    NoExecute,
}

impl TaintEffect {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// How `bailiwick worker --once` ended, as its exit code says it. Other codes are errors of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerExit {
    /// The server has the end of an attempt.
    Done,
    /// There was no attempt for it.
    NothingToDo,
    /// This machine or pod cannot run the attempt.
    CannotRunHere,
    /// The attempt is not its own any more, or the server does not accept it.
    Lost,
}

impl WorkerExit {
    /// Every end.
    pub const ALL: [Self; 4] = [Self::Done, Self::NothingToDo, Self::CannotRunHere, Self::Lost];

    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NothingToDo => 64,
            Self::CannotRunHere => 65,
            Self::Lost => 66,
        }
    }
}

impl JobSettings {
    /// How many seconds a Job may take. At least one: zero would mean that it ends at once.
    pub fn deadline_seconds(&self) -> u64 {
        self.deadline.unwrap_or(DEFAULT_DEADLINE).millis().div_ceil(1000).max(1)
    }

    /// What is wrong with it.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut names = vec![
            ("spec.job.runtimeClass", self.runtime_class.as_deref()),
            ("spec.job.priorityClass", self.priority_class.as_deref()),
            ("spec.job.serviceAccount", self.service_account.as_deref()),
        ];
        names.extend(
            self.image_pull_secrets
                .iter()
                .map(|name| ("spec.job.imagePullSecrets", Some(name.as_str()))),
        );
        for (path, name) in names {
            if name.is_some_and(|name| !is_object_name(name)) {
                faults.push(Fault::new(path, "it is not a name of an object of Kubernetes"));
            }
        }
        if self.namespace.as_deref().is_some_and(|name| !is_namespace_name(name)) {
            let why =
                "use a-z, 0-9 and `-`, at most 63, beginning and ending with a letter or a digit";
            faults.push(Fault::new("spec.job.namespace", why));
        }
        if self.keep_for.is_some_and(|keep| keep < MIN_JOB_KEEP) {
            faults.push(Fault::new("spec.job.keepFor", "it must be at least `10m`"));
        }
        let image = self.image.as_deref();
        if image.is_some_and(|image| image.is_empty() || image.contains(char::is_whitespace)) {
            faults.push(Fault::new("spec.job.image", "write an image such as example/agents:1"));
        }
        let JobResources { cpu, memory, ephemeral_storage } = &self.resources;
        for (path, amount) in [
            ("spec.job.resources.cpu", cpu),
            ("spec.job.resources.memory", memory),
            ("spec.job.resources.ephemeralStorage", ephemeral_storage),
        ] {
            if !is_quantity(amount) {
                faults.push(Fault::new(path, "write an amount such as `500m`, `2` or `4Gi`"));
            }
        }
        faults
    }
}

/// A number above zero with a unit of Kubernetes, without fractions.
fn is_quantity(text: &str) -> bool {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let is_unit = ["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"].contains(&unit);
    let is_number = digits.len() <= 12
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits.bytes().next().is_some_and(|first| first != b'0');
    is_unit && is_number
}

#[cfg(test)]
mod tests {
    use super::{JobSettings, is_quantity};

    #[test]
    fn quantities_that_an_api_server_refuses_are_refused() {
        for (text, valid) in [
            ("500m", true),
            ("2", true),
            ("4Gi", true),
            ("", false),
            ("0", false),
            ("05", false),
            ("-1", false),
            ("1.5", false),
            ("4GB", false),
            ("Gi", false),
        ] {
            assert_eq!(is_quantity(text), valid, "{text}");
        }
        assert!(JobSettings::default().faults().is_empty());
        let wrong = JobSettings {
            image: Some("a b".to_owned()),
            namespace: Some("A".to_owned()),
            image_pull_secrets: vec!["-".to_owned()],
            ..JobSettings::default()
        };
        assert_eq!(wrong.faults().len(), 3);
    }

    #[test]
    fn namespace_has_no_dots_and_at_most_63_characters() {
        let with = |namespace: String| JobSettings {
            namespace: Some(namespace),
            ..JobSettings::default()
        };
        for (name, valid) in [
            ("agents".to_owned(), true),
            ("a".repeat(63), true),
            ("a".repeat(64), false),
            ("team.agents".to_owned(), false),
            ("agents-".to_owned(), false),
        ] {
            assert_eq!(with(name.clone()).faults().is_empty(), valid, "{name}");
        }
    }

    #[test]
    fn ended_job_is_kept_until_the_operator_has_seen_it() {
        for (keep_for, valid) in [("1s", false), ("599s", false), ("10m", true), ("1d", true)] {
            let settings =
                JobSettings { keep_for: Some(keep_for.parse().unwrap()), ..JobSettings::default() };
            assert_eq!(settings.faults().is_empty(), valid, "{keep_for}");
        }
    }
}
