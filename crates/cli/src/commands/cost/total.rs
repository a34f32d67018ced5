//! The usage of all agents of a repository.

use bailiwick_engine::context::Context;
use bailiwick_engine::counted::counted;
use bailiwick_engine::running::run_list::{self, ListedRun};
use bailiwick_lifecycle::supervision::budget::BudgetLimit;
use bailiwick_model::attempt::Used;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// The usage of an agent, or of all.
#[derive(Debug, Default, Serialize)]
struct Cost {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    tokens: u64,
    /// Nothing if no settings state a price of what was used.
    micro_usd: Option<u64>,
    turns: u64,
    tool_calls: u64,
    elapsed_ms: u64,
}

/// Shows what each agent of this repository has used, and all of them together.
pub(super) fn show(context: &Context, all_repos: bool, format: Format) -> Result<(), Failure> {
    let (_, runs) = run_list::read(context, all_repos)?;
    let ran: Vec<&ListedRun> = runs.iter().filter(|run| run.last.is_some()).collect();
    let costs: Vec<Cost> = ran.iter().map(|run| of_run(run)).collect();
    let total = sum(&costs);
    if format == Format::Json {
        return output::json(&serde_json::json!({ "agents": costs, "total": total }));
    }
    if costs.is_empty() {
        output::note(match all_repos {
            true => "no agent has run",
            false => "no agent has run in this repository (--all-repos shows the others)",
        });
        return Ok(());
    }
    let named = ran.iter().zip(&costs).map(|(run, cost)| row(run.run.name.as_str(), cost));
    let rows: Vec<Vec<String>> = named.chain([row("total", &total)]).collect();
    let columns = [
        Column::fixed("AGENT"),
        Column::number("TOKENS"),
        Column::number("DOLLARS"),
        Column::number("TURNS"),
        Column::number("CALLS"),
        Column::number("TIME"),
    ];
    output::table(&columns, &rows);
    let unpriced = costs.iter().filter(|cost| cost.micro_usd.is_none()).count();
    if unpriced > 0 {
        output::note(format_args!(
            "no price is known of the models of {}: see [prices] of .bailiwick/settings.toml",
            counted(unpriced, "agent")
        ));
    }
    Ok(())
}

fn of_run(run: &ListedRun) -> Cost {
    let Used { tokens, micro_usd, turns, tool_calls, .. } = run.used;
    let is_known = micro_usd > 0 || tokens == 0;
    Cost {
        agent_id: Some(run.run.id.to_string()),
        tokens,
        micro_usd: is_known.then_some(micro_usd),
        turns,
        tool_calls,
        elapsed_ms: run.elapsed_ms,
    }
}

/// All of them together; of money what is known.
fn sum(costs: &[Cost]) -> Cost {
    costs.iter().fold(Cost::default(), |sum, cost| Cost {
        agent_id: None,
        tokens: sum.tokens.saturating_add(cost.tokens),
        micro_usd: match (sum.micro_usd, cost.micro_usd) {
            (None, known) | (known, None) => known,
            (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
        },
        turns: sum.turns.saturating_add(cost.turns),
        tool_calls: sum.tool_calls.saturating_add(cost.tool_calls),
        elapsed_ms: sum.elapsed_ms.saturating_add(cost.elapsed_ms),
    })
}

fn row(name: &str, cost: &Cost) -> Vec<String> {
    let money =
        cost.micro_usd.map_or_else(|| "-".to_owned(), |used| BudgetLimit::Money.shown(used));
    let seconds = cost.elapsed_ms / 1000;
    vec![
        name.to_owned(),
        cost.tokens.to_string(),
        money,
        cost.turns.to_string(),
        cost.tool_calls.to_string(),
        format!("{}:{:02}", seconds / 60, seconds % 60),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_has_all_tokens_and_the_known_money() {
        let cost = |tokens, micro_usd| Cost { tokens, micro_usd, ..Cost::default() };
        let total = sum(&[cost(5, Some(3)), cost(7, None), cost(1, Some(4))]);
        assert_eq!((total.tokens, total.micro_usd), (13, Some(7)));
        assert_eq!(sum(&[cost(5, None)]).micro_usd, None);
    }
}
