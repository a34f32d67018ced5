//! How many runs have each stage: the agents of this machine, and the runs of the control plane that have no agent.

use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore, LocalRunCounts, LocalRunStage};
use bailiwick_resources::{Kind, RunPhase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::blocking::blocking;
use crate::numbers::stage;
use crate::request::{ApiRequest, HandlerResult, ok};

/// How many runs have each stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageCounts {
    /// Every stage with its number of runs, in the order of a board.
    pub stages: Vec<StageCount>,
    /// Whether open runs are left out because there are too many; closed ones are always counted.
    pub is_incomplete: bool,
}

/// The number of runs with one stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageCount {
    /// The stage.
    pub stage: LocalRunStage,
    /// The number of runs.
    pub count: u64,
}

impl StageCounts {
    /// The number of runs with a stage.
    pub fn of(&self, stage: LocalRunStage) -> u64 {
        let found = self.stages.iter().find(|one| one.stage == stage);
        found.map_or(0, |one| one.count)
    }
}

pub(crate) async fn read<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let mut counts = match app.local_runs.is_some() {
        true => blocking(app, |runs| runs.count()).await?,
        false => LocalRunCounts::default(),
    };
    // A run with an agent is counted as that agent, as the list of all runs has it.
    let phases = app.store.count_by(Kind::AgentDispatchRun, "status", "agent").await?;
    for (word, count) in phases {
        if let Some(phase) = RunPhase::ALL.into_iter().find(|phase| phase.as_str() == word) {
            counts.add(stage(phase), count);
        }
    }
    let count = |stage: LocalRunStage| {
        let count = counts.stages.get(&stage).copied().unwrap_or_default();
        StageCount { stage, count }
    };
    let stages = LocalRunStage::ALL.map(count).to_vec();
    ok(&StageCounts { stages, is_incomplete: counts.is_incomplete })
}
