//! The phases of a run and the changes between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The phase of a run.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RunPhase {
    /// The run is being admitted.
    #[default]
    Pending,
    /// The run waits in the queue.
    Queued,
    /// The agent is running.
    Running,
    /// The run waits for an approval.
    WaitingForApproval,
    /// The run succeeded.
    Succeeded,
    /// The run failed.
    Failed,
    /// The run was cancelled by a person or by a later run.
    Cancelled,
}

impl RunPhase {
    /// All phases.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Queued,
        Self::Running,
        Self::WaitingForApproval,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::WaitingForApproval => "waiting-for-approval",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the phase is final: it changes only by a request.
    pub fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::Queued | Self::Running | Self::WaitingForApproval => false,
        }
    }

    /// Whether a run may change from this phase to `next`.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Pending => !matches!(next, Self::Pending | Self::Succeeded),
            Self::Queued => matches!(
                next,
                Self::Running | Self::Failed | Self::Cancelled | Self::WaitingForApproval
            ),
            Self::Running => !matches!(next, Self::Pending | Self::Running),
            Self::WaitingForApproval => !matches!(next, Self::Pending | Self::WaitingForApproval),
            // A retry, a resume or a continuation queues it again.
            Self::Succeeded | Self::Failed | Self::Cancelled => matches!(next, Self::Queued),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RunPhase;

    #[test]
    fn final_phase_can_only_become_queued() {
        for phase in RunPhase::ALL.into_iter().filter(|phase| phase.is_final()) {
            for next in RunPhase::ALL {
                assert_eq!(phase.may_become(next), next == RunPhase::Queued, "{phase:?} {next:?}");
            }
        }
    }

    #[test]
    fn every_phase_that_is_not_final_can_be_cancelled() {
        for phase in RunPhase::ALL {
            assert_eq!(phase.may_become(RunPhase::Cancelled), !phase.is_final(), "{phase:?}");
        }
    }
}
