//! The cost of a run over all of its attempts, and the budget that is left for the next one.

use bailiwick_resources::{AgentDispatchAttempt, AgentDispatchRun, Object, RunCost};
use toml::{Table, Value};

use super::launch::agent_of;
use super::{LaunchRefusal, ReconcileError};

fn each(one: RunCost, other: RunCost, with: impl Fn(u64, u64) -> u64) -> RunCost {
    RunCost {
        tokens: with(one.tokens, other.tokens),
        micro_usd: with(one.micro_usd, other.micro_usd),
        turns: with(one.turns, other.turns),
        tool_calls: with(one.tool_calls, other.tool_calls),
        denied: with(one.denied, other.denied),
    }
}

/// The sum of two costs.
pub(super) fn added(one: RunCost, other: RunCost) -> RunCost {
    each(one, other, u64::saturating_add)
}

/// Updates the cost of an attempt and its run. `whole` is the cost of the conversation, `before` the part that
/// earlier attempts spent.
pub(super) fn note_cost(
    run: &mut Object<AgentDispatchRun>,
    attempt: &mut Object<AgentDispatchAttempt>,
    whole: RunCost,
    before: RunCost,
) {
    let now = each(whole, before, u64::saturating_sub);
    let others = each(run.status.cost, attempt.status.cost, u64::saturating_sub);
    run.status.cost = each(others, now, u64::saturating_add);
    attempt.status.cost = now;
}

/// The task of an attempt, with the budget that earlier attempts have left.
pub(super) fn within_budget(
    run: &Object<AgentDispatchRun>,
    attempt: &Object<AgentDispatchAttempt>,
    task: String,
) -> Result<String, ReconcileError> {
    // The engine sums up a whole conversation.
    let spent = match agent_of(attempt) == attempt.name() {
        true => each(run.status.cost, attempt.status.cost, u64::saturating_sub),
        false => RunCost::default(),
    };
    if spent == RunCost::default() {
        return Ok(task);
    }
    let unreadable = LaunchRefusal::TaskUnreadable;
    let mut read: Table =
        task.parse().map_err(|error: toml::de::Error| unreadable(error.to_string()))?;
    let Some(budget) = read.get_mut("budget").and_then(Value::as_table_mut) else {
        return Ok(task);
    };
    let counted =
        [("tokens", spent.tokens), ("turns", spent.turns), ("tool-calls", spent.tool_calls)];
    for (what, spent) in counted {
        let Some(Value::Integer(most)) = budget.get_mut(what) else { continue };
        *most = most.saturating_sub(i64::try_from(spent).unwrap_or(i64::MAX));
        require_some(*most > 0, what)?;
    }
    if let Some(Value::Float(most)) = budget.get_mut("usd") {
        let text = format!("{}.{:06}", spent.micro_usd / 1_000_000, spent.micro_usd % 1_000_000);
        *most -= text.parse::<f64>().unwrap_or(f64::INFINITY);
        require_some(*most > 0.0, "usd")?;
    }
    Ok(toml::to_string(&read).map_err(|error| unreadable(error.to_string()))?)
}

fn require_some(left: bool, what: &'static str) -> Result<(), LaunchRefusal> {
    match left {
        true => Ok(()),
        false => Err(LaunchRefusal::BudgetExhausted(what)),
    }
}
