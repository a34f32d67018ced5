//! Where attempts are executed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, Resource, Span, TrustTier};

/// Room for attempts, of one trust.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunnerPool {
    /// How many attempts at once.
    pub capacity: u32,
    /// Whose work it takes. Untrusted work goes to an untrusted pool and nowhere else.
    pub trust_tier: TrustTier,
    /// The AgentServiceAccount of its runners.
    pub service_account_ref: String,
    /// How long an attempt may wait for room, as `1h`; for ever when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_timeout: Option<Span>,
    /// The repositories it serves, as globs; every one when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_repositories: Vec<String>,
    /// Whether it takes nothing new.
    #[serde(default)]
    pub paused: bool,
    /// Who may use the server's model key. Any other run needs a key that is granted to it.
    #[serde(default)]
    pub model_key: ModelKeyUse,
}

/// Whose runs may spend the key of the model, or the login, that the control plane itself was started with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKeyUse {
    /// Runs that are trusted.
    #[default]
    TrustedRuns,
    /// Every run, also that of a stranger.
    EveryRun,
}

impl ModelKeyUse {
    /// Whether a run that is trusted this much may.
    pub fn lends_to(self, trust: TrustTier) -> bool {
        match self {
            Self::EveryRun => true,
            Self::TrustedRuns => trust == TrustTier::Trusted,
        }
    }
}

/// What the control plane knows of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RunnerPoolStatus {
    /// How many run.
    pub active: u32,
    /// How many wait.
    pub queued: u32,
}

impl Resource for RunnerPool {
    const KIND: Kind = Kind::RunnerPool;
    type Status = RunnerPoolStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.capacity == 0 {
            faults.push(Fault::new("spec.capacity", "it must be at least 1; `paused` stops it"));
        }
        faults
    }
}
