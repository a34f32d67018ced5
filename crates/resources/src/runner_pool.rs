//! Where attempts are executed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Fault, JobSettings, Kind, Resource, Span, TrustTier};

/// A pool of runners for attempts of one trust tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunnerPool {
    /// The maximum number of attempts that run at the same time.
    pub capacity: u32,
    /// The trust tier of the runs that it accepts. Untrusted runs only use untrusted pools.
    pub trust_tier: TrustTier,
    /// The name of the AgentServiceAccount of its runners.
    pub service_account_ref: String,
    /// How long a run may wait for a free runner, such as `1h`; then it ends. If left out, there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_timeout: Option<Span>,
    /// The repositories that it serves, as globs. If empty, all repositories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_repositories: Vec<String>,
    /// If true, no new attempts are started; runs wait in the queue.
    #[serde(default)]
    pub paused: bool,
    /// The runs that may use the server's own model key. All others need a key that is granted to them.
    #[serde(default)]
    pub model_key: ModelKeyUse,
    /// The machines on which its attempts run: that of the server, those of workers, or pods of a cluster.
    #[serde(default)]
    pub runs_on: RunsOn,
    /// With `runsOn: workers`: the labels that a worker must have. If empty, every worker of the pool is suitable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub worker_labels: BTreeMap<String, String>,
    /// With `runsOn: workers`: how many processor cores the machine of a worker must have, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_cores: Option<u32>,
    /// With `runsOn: workers`: the machines on which checks run commands and tests.
    #[serde(default, skip_serializing_if = "ChecksOn::is_server")]
    pub checks_on: ChecksOn,
    /// With `runsOn: jobs`: what the Job of an attempt gets. If left out, the defaults apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobSettings>,
}

/// The machines on which checks run commands and tests. Everything else of a check is on the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChecksOn {
    /// The machine of the server. This is the default.
    #[default]
    Server,
    /// Workers of the pool, for work of trusted runs: never one that has run the attempt itself. The server runs what
    /// none of them can run.
    Workers,
}

impl ChecksOn {
    pub fn is_server(&self) -> bool {
        *self == Self::Server
    }
}

/// The machines on which the attempts of a pool run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunsOn {
    /// The machine of the server. This is the default.
    #[default]
    Server,
    /// The machines on which `bailiwick worker` runs for this pool.
    Workers,
    /// A Kubernetes Job for each attempt, which the operator makes.
    Jobs,
}

/// The runs that may use the model key or login that the control plane was started with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKeyUse {
    /// Trusted runs only. This is the default.
    #[default]
    TrustedRuns,
    /// All runs, including untrusted ones.
    EveryRun,
}

impl ModelKeyUse {
    /// Whether a run of this trust tier may use the key.
    pub fn lends_to(self, trust: TrustTier) -> bool {
        match self {
            Self::EveryRun => true,
            Self::TrustedRuns => trust == TrustTier::Trusted,
        }
    }
}

/// The status of a runner pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RunnerPoolStatus {
    /// The number of running attempts.
    pub active: u32,
    /// The number of waiting attempts.
    pub queued: u32,
    /// The conditions of the pool.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    pub observed_generation: u64,
}

impl RunnerPool {
    /// What the Jobs of its attempts get, if they run in Jobs.
    pub fn job_settings(&self) -> Option<JobSettings> {
        (self.runs_on == RunsOn::Jobs).then(|| self.job.clone().unwrap_or_default())
    }
}

impl Resource for RunnerPool {
    const KIND: Kind = Kind::RunnerPool;
    type Status = RunnerPoolStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.capacity == 0 {
            faults.push(Fault::new("spec.capacity", "it must be at least 1; `paused` stops it"));
        }
        if self.runs_on != RunsOn::Workers && !self.worker_labels.is_empty() {
            faults.push(Fault::new("spec.workerLabels", "they need `runsOn: workers`"));
        }
        if self.runs_on != RunsOn::Workers && self.worker_cores.is_some() {
            faults.push(Fault::new("spec.workerCores", "it needs `runsOn: workers`"));
        }
        if self.checks_on == ChecksOn::Workers {
            if self.runs_on != RunsOn::Workers {
                faults.push(Fault::new("spec.checksOn", "`workers` needs `runsOn: workers`"));
            }
            if self.trust_tier != TrustTier::Trusted {
                let why = "workers check the work of trusted runs only; use `checksOn: server`";
                faults.push(Fault::new("spec.checksOn", why));
            }
        }
        if self.runs_on != RunsOn::Jobs && self.job.is_some() {
            faults.push(Fault::new("spec.job", "it needs `runsOn: jobs`"));
        }
        let job = self.job.as_ref();
        if self.runs_on == RunsOn::Jobs
            && self.trust_tier == TrustTier::Untrusted
            && job.is_none_or(|job| job.namespace.is_none())
        {
            let why = "an untrusted pool needs a namespace of its own for its Jobs";
            faults.push(Fault::new("spec.job.namespace", why));
        }
        faults.extend(job.map(JobSettings::faults).unwrap_or_default());
        faults
    }
}
