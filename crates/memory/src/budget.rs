//! Whether an agent may work on an issue, and start another one: budget and depth.

use bailiwick_model::settings::DEFAULT_MAX_DEPTH;
use thiserror::Error;

use crate::checkpoint::Budget;
use crate::labels::Family;

/// The lowest tier that may start sub-agents.
const MIN_SPAWNING_TIER: u32 = 2;

/// Why an agent may not work at this depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("depth {depth} is deeper than {max}, which the issue's label allows")]
pub struct DepthRefusal {
    pub depth: u32,
    pub max: u32,
}

/// Why an agent may not start another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SpawnRefusal {
    #[error("agents of tier {0} start no sub-agents; tier {MIN_SPAWNING_TIER} and above do")]
    Tier(u32),
    #[error(transparent)]
    Depth(DepthRefusal),
    #[error(
        "it is thought to take {estimate} tokens, and {remaining} remain, of which one sub-agent gets at most half"
    )]
    Budget { estimate: u64, remaining: i64 },
}

/// The deepest level that the labels and the agent's own limit allow; `None` is unlimited. `cascade::depth-n` is
/// unlimited for the orchestrator alone, because every agent of an issue sees the same labels: for the others it is the
/// limit that sub-agents have by default.
pub fn max_depth(labels: &[String], is_orchestrator: bool, own: Option<u32>) -> Option<u32> {
    let labelled = labels.iter().filter_map(|label| match Family::of(label) {
        Some((Family::Cascade, value)) => value.strip_prefix("depth-"),
        Some(_) | None => None,
    });
    let limits: Vec<&str> = labelled.filter(|value| *value != "exceeded").collect();
    let mut max: Option<u32> = own;
    for limit in &limits {
        match limit.parse() {
            Ok(number) => max = Some(max.map_or(number, |max: u32| max.min(number))),
            Err(_) if *limit == "n" && is_orchestrator => {}
            Err(_) if *limit == "n" => {
                max = Some(max.map_or(DEFAULT_MAX_DEPTH, |max| max.min(DEFAULT_MAX_DEPTH)));
            }
            // A limit that cannot be read allows nothing below.
            Err(_) => max = Some(0),
        }
    }
    if limits.is_empty() && !is_orchestrator { Some(max.unwrap_or(0)) } else { max }
}

/// Whether an agent may work at this depth.
pub fn may_enter(depth: u32, max: Option<u32>) -> Result<(), DepthRefusal> {
    match max {
        Some(max) if depth > max => Err(DepthRefusal { depth, max }),
        Some(_) | None => Ok(()),
    }
}

/// Whether an agent may start another one that is thought to take this many tokens. `reserved` is what others that
/// were started, and have not ended, are thought to take.
pub fn may_spawn(
    tier: u32,
    depth: u32,
    max: Option<u32>,
    budget: Budget,
    reserved: u64,
    estimate: u64,
) -> Result<(), SpawnRefusal> {
    if tier < MIN_SPAWNING_TIER {
        return Err(SpawnRefusal::Tier(tier));
    }
    may_enter(depth.saturating_add(1), max).map_err(SpawnRefusal::Depth)?;
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let remaining = budget.remaining.saturating_sub(signed(reserved));
    let fits = remaining > 0 && signed(estimate) <= remaining / 2 && signed(estimate) < remaining;
    if fits { Ok(()) } else { Err(SpawnRefusal::Budget { estimate, remaining }) }
}
