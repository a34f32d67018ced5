//! Statistics of runs: counted by day, rule, stack, role, model and phase.

mod aggregate;

use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore, Selection};
use bailiwick_resources::{AgentDispatchRun, Kind, Moment, Object};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::aggregate::aggregate;
pub(crate) use self::aggregate::stage;
use crate::app::App;
use crate::blocking::blocking;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok};

const DEFAULT_DAYS: u64 = 30;
const MAX_DAYS: u64 = 365;
/// Runs that are counted at most; more make the answer incomplete.
const MAX_RUNS: usize = 5_000;
const PAGE_SIZE: usize = 500;
const DAY_MILLIS: u64 = 86_400_000;

/// Statistics of the runs of a time span.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Numbers {
    /// The start of the time span.
    pub since: Moment,
    /// Whether older runs of the time span are left out because there are too many.
    pub is_incomplete: bool,
    /// Runs by the day of their creation and by stage.
    pub runs: Vec<DayCount>,
    /// Denied tool calls by rule, the most frequent first.
    pub denials: Vec<NamedCount>,
    /// Cost by stack of the control plane, the most expensive first.
    pub stacks: Vec<NamedCost>,
    /// Cost by role, the most expensive first.
    pub roles: Vec<NamedCost>,
    /// Cost by model, the most expensive first.
    pub models: Vec<NamedCost>,
    /// The duration of each phase.
    pub phases: Vec<PhaseTime>,
    /// How long runs of the control plane waited in the queue, by the day of their creation.
    pub queue: Vec<QueueWait>,
}

/// The number of runs of a day with one stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DayCount {
    /// The day in UTC, as `2026-11-15`.
    pub day: String,
    /// The stage, as in the list of runs.
    pub stage: String,
    /// The number of runs.
    pub count: u64,
}

/// A number with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedCount {
    /// The name.
    pub name: String,
    /// The number.
    pub count: u64,
}

/// The cost of runs with something in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedCost {
    /// The name.
    pub name: String,
    /// The number of runs.
    pub runs: u64,
    /// Tokens, in and out.
    pub tokens: u64,
    /// Millionths of a United States dollar; 0 if the price is unknown.
    pub micro_usd: u64,
}

/// The duration of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseTime {
    /// The phase.
    pub phase: String,
    /// The number of runs that were in it.
    pub runs: u64,
    /// The median in milliseconds.
    pub median_ms: u64,
    /// The longest in milliseconds.
    pub max_ms: u64,
}

/// How long runs of a day waited in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueWait {
    /// The day in UTC.
    pub day: String,
    /// The number of runs that left the queue.
    pub runs: u64,
    /// The median in milliseconds.
    pub median_ms: u64,
    /// The longest in milliseconds.
    pub max_ms: u64,
}

pub(crate) async fn read<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["days"])?;
    let days = request.number("days")?.unwrap_or(DEFAULT_DAYS);
    if !(1..=MAX_DAYS).contains(&days) {
        return Err(Problem::bad_request(format!("`days` must be from 1 to {MAX_DAYS}")));
    }
    // Whole days: the first one starts at midnight.
    let today = request.now.millis() / DAY_MILLIS;
    let since = Moment::from_millis(today.saturating_sub(days - 1).saturating_mul(DAY_MILLIS));
    let local = match app.local_runs.is_some() {
        true => blocking(app, move |runs| runs.measure(since, MAX_RUNS)).await?,
        false => Vec::new(),
    };
    let (fleet, is_cut) = fleet_runs(app, since).await?;
    let mut numbers = aggregate(&local, &fleet);
    numbers.since = since;
    numbers.is_incomplete = is_cut || local.len() >= MAX_RUNS;
    ok(&numbers)
}

/// The runs of the control plane since a time, the newest first; and whether some are left out.
async fn fleet_runs<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    since: Moment,
) -> Result<(Vec<Object<AgentDispatchRun>>, bool), Problem> {
    let mut selection = Selection::of(Kind::AgentDispatchRun);
    selection.newest_first = true;
    selection.limit = PAGE_SIZE;
    let mut runs = Vec::new();
    while runs.len() < MAX_RUNS {
        let page = app.store.list(&selection).await?;
        let created = |object: &bailiwick_resources::AnyObject| object.metadata.creation_timestamp;
        let is_old = page.objects.iter().any(|object| created(object) < Some(since));
        let recent = page.objects.iter().filter(|object| created(object) >= Some(since));
        // What cannot be read as a run has nothing to count.
        runs.extend(recent.filter_map(|object| object.typed().ok()));
        selection.after = page.next;
        if is_old || selection.after.is_none() {
            return Ok((runs, false));
        }
    }
    Ok((runs, true))
}
