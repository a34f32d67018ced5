//! What a board shows of the agents of this machine: the stage of each, claimed paths, and measured runs.

use std::collections::BTreeMap;

use bailiwick_resources::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LocalRunUsage;

/// How far the work of an agent is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LocalRunStage {
    /// A person must start it, answer it, resume it or have it verified.
    NeedsYou,
    /// The agent works.
    Working,
    /// Its work is being verified.
    Verifying,
    /// Its work is verified and can land.
    ReadyToLand,
    /// Its work has landed.
    Landed,
    /// Its checks failed, it ended without a result, or its work was rejected or reverted.
    Failed,
}

impl LocalRunStage {
    /// Every stage, in the order of a board.
    pub const ALL: [Self; 6] = [
        Self::NeedsYou,
        Self::Working,
        Self::Verifying,
        Self::ReadyToLand,
        Self::Landed,
        Self::Failed,
    ];

    /// The word in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs-you",
            Self::Working => "working",
            Self::Verifying => "verifying",
            Self::ReadyToLand => "ready-to-land",
            Self::Landed => "landed",
            Self::Failed => "failed",
        }
    }
}

/// How many runs of this machine have each stage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalRunCounts {
    /// The number of runs by stage; a stage that no run has can be left out.
    pub stages: BTreeMap<LocalRunStage, u64>,
    /// Whether open runs are left out because there are too many.
    pub is_incomplete: bool,
}

impl LocalRunCounts {
    /// Adds runs with a stage.
    pub fn add(&mut self, stage: LocalRunStage, count: u64) {
        *self.stages.entry(stage).or_default() += count;
    }
}

/// Paths that an agent has claimed: no other agent starts on them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalClaim {
    /// The ID of the claim.
    pub claim: String,
    /// The ID of the agent.
    pub run: String,
    /// The repository, by its path.
    pub repository: String,
    /// The paths, as globs.
    pub paths: Vec<String>,
    /// Paths that are excepted.
    pub except: Vec<String>,
    /// When it was claimed.
    pub claimed_at: Moment,
    /// When others may claim it.
    pub expires_at: Moment,
}

/// The claims that are in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalClaims {
    /// The claims, the oldest first.
    pub items: Vec<LocalClaim>,
}

/// A run of this machine with what statistics need of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredRun {
    /// When it was created.
    pub created_at: Moment,
    /// How far its work is.
    pub stage: LocalRunStage,
    /// The role; empty if it is unknown.
    pub role: String,
    /// The agent CLI; empty before the first attempt.
    pub agent: String,
    /// The model; empty if the agent CLI chooses.
    pub model: String,
    /// What it used.
    pub used: LocalRunUsage,
    /// Denied tool calls by rule.
    pub denials: BTreeMap<String, u64>,
    /// Milliseconds in each phase.
    pub phases: BTreeMap<String, u64>,
}
