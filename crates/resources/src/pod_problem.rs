//! Why the pod of an attempt does not run, or did not end well.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Reason;

/// What is wrong with the pod of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodProblem {
    /// Its image cannot be pulled.
    ImagePullFailed,
    /// No node has room for it, or none fits.
    Unschedulable,
    /// A quota of its namespace is used up.
    QuotaExceeded,
    /// The API server refuses it.
    PodNotAdmitted,
    /// Its container cannot be started.
    ContainerNotStarted,
    /// It used more memory than its limit.
    OutOfMemory,
    /// Its node needed what it used.
    Evicted,
    /// A pod with a higher priority needed its place.
    Preempted,
    /// Its node is gone.
    NodeLost,
    /// It took longer than its deadline.
    DeadlineExceeded,
    /// The sandbox inside of it is weaker than what the attempt needs.
    SandboxInsufficient,
    /// Its worker lost the attempt, or the server did not accept it.
    WorkerLost,
    /// Its worker ended with an error.
    WorkerFailed,
}

impl PodProblem {
    /// Every problem.
    pub const ALL: [Self; 13] = [
        Self::ImagePullFailed,
        Self::Unschedulable,
        Self::QuotaExceeded,
        Self::PodNotAdmitted,
        Self::ContainerNotStarted,
        Self::OutOfMemory,
        Self::Evicted,
        Self::Preempted,
        Self::NodeLost,
        Self::DeadlineExceeded,
        Self::SandboxInsufficient,
        Self::WorkerLost,
        Self::WorkerFailed,
    ];

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        self.reason().as_str()
    }

    /// The reason of the condition `RunnerAssigned`.
    pub fn reason(self) -> Reason {
        match self {
            Self::ImagePullFailed => Reason::ImagePullFailed,
            Self::Unschedulable => Reason::Unschedulable,
            Self::QuotaExceeded => Reason::QuotaExceeded,
            Self::PodNotAdmitted => Reason::PodNotAdmitted,
            Self::ContainerNotStarted => Reason::ContainerNotStarted,
            Self::OutOfMemory => Reason::OutOfMemory,
            Self::Evicted => Reason::Evicted,
            Self::Preempted => Reason::Preempted,
            Self::NodeLost => Reason::NodeLost,
            Self::DeadlineExceeded => Reason::DeadlineExceeded,
            Self::SandboxInsufficient => Reason::SandboxInsufficient,
            Self::WorkerLost => Reason::WorkerLost,
            Self::WorkerFailed => Reason::WorkerFailed,
        }
    }
}
