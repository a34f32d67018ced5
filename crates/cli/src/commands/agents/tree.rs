//! `bailiwick agents tree`: which agent started which, and the state of each.

use std::time::Duration;

use bailiwick_engine::context::Context;
use bailiwick_engine::delegating::DelegationService;
use bailiwick_engine::failure::Failure as ServiceFailure;
use bailiwick_engine::running::recover;
use bailiwick_lifecycle::supervision::Spent;
use bailiwick_lifecycle::supervision::budget::{Budget, BudgetLimit};
use bailiwick_model::Delegate;
use bailiwick_model::attempt::{Allowance, Used};
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};

/// How wide a budget is drawn.
const BAR: usize = 5;
/// How many percent one mark of it represents.
const PART: u128 = 20;
/// How often a tree that is watched is drawn.
const PAUSE: Duration = Duration::from_secs(1);

/// Show which agent started which, with status, model, budget, depth and note
///
/// The budget column shows the largest share that an agent and its sub-agents have used: of tokens,
/// dollars, turns, minutes or tool calls. -o json has the numbers. AT is the depth below the first
/// agent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick agents tree\n  bailiwick agents tree --all\n  \
                        bailiwick agents tree --watch")]
pub struct Tree {
    /// Include agents that have ended
    #[arg(short, long)]
    all: bool,
    /// Refresh every second until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    format: FormatOption,
}

/// One agent of a tree.
#[derive(Debug, Clone, Serialize)]
struct Node {
    agent: String,
    parent: Option<String>,
    depth: u32,
    agent_type: String,
    agent_name: Option<String>,
    status: &'static str,
    model: String,
    used: Used,
    /// How long it has worked.
    milliseconds: u64,
    budget: Allowance,
    /// The part of its budget that it gave to agents below it.
    given: Allowance,
    note: Option<String>,
}

impl Tree {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        recover::record_interrupted_runs(context)?;
        let service = DelegationService::at_terminal(context);
        loop {
            let nodes = self.nodes(&service)?;
            if self.format.format == Format::Json {
                return output::json(&nodes);
            }
            if self.watch {
                output::clear_screen();
            }
            print(&nodes);
            if !self.watch {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Every agent, each behind the one that started it.
    fn nodes(&self, service: &DelegationService) -> Result<Vec<Node>, Failure> {
        let all = service.known().map_err(ServiceFailure::into_failed)?;
        let mut nodes = Vec::new();
        let is_root = |one: &&Delegate| {
            one.parent.as_ref().is_none_or(|parent| !all.iter().any(|other| other.run == *parent))
        };
        for root in all.iter().filter(is_root) {
            gather(service, root, &all, &mut nodes)?;
        }
        if !self.all {
            let live: Vec<bool> = nodes.iter().map(|node| is_live(node.status)).collect();
            let keeps = |place: usize, node: &Node| {
                // With those above: they are the way to it.
                let below = nodes.iter().zip(&live).skip(place + 1);
                let mut below = below.take_while(|(other, _)| other.depth > node.depth);
                live.get(place) == Some(&true) || below.any(|(_, live)| *live)
            };
            let kept = nodes.iter().enumerate().filter(|(place, node)| keeps(*place, node));
            return Ok(kept.map(|(_, node)| node.clone()).collect());
        }
        Ok(nodes)
    }
}

fn is_live(status: &str) -> bool {
    matches!(status, "pending_init" | "running")
}

fn gather(
    service: &DelegationService,
    one: &Delegate,
    all: &[Delegate],
    nodes: &mut Vec<Node>,
) -> Result<(), Failure> {
    let (status, attempt) = service.seen(one).map_err(ServiceFailure::into_failed)?;
    nodes.push(Node {
        agent: one.run.to_string(),
        parent: one.parent.as_ref().map(ToString::to_string),
        depth: one.depth,
        agent_type: one.agent_type.clone(),
        agent_name: one.agent_name.clone(),
        status: status.label(),
        model: attempt.as_ref().map(|last| last.model.clone()).unwrap_or_default(),
        used: attempt.as_ref().map(|last| last.used).unwrap_or_default(),
        milliseconds: service.worked(one).map_err(ServiceFailure::into_failed)?,
        budget: attempt.map_or(one.reserved, |last| last.budget),
        given: one.given,
        note: one.note.clone(),
    });
    for child in all.iter().filter(|child| child.parent.as_ref() == Some(&one.run)) {
        gather(service, child, all, nodes)?;
    }
    Ok(())
}

fn print(nodes: &[Node]) {
    if nodes.is_empty() {
        output::line("no agent that another one started is running");
        output::next_step("bailiwick agents tree --all");
        return;
    }
    let row = |node: &Node| {
        let indent = "  ".repeat(usize::try_from(node.depth).unwrap_or_default());
        let kind = match &node.agent_name {
            Some(name) => format!("{}/{name}", node.agent_type),
            None => node.agent_type.clone(),
        };
        vec![
            format!("{indent}{}", node.agent),
            kind,
            node.status.to_owned(),
            node.model.clone(),
            bar(node),
            node.depth.to_string(),
            node.note.as_deref().map(output::first_line).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = nodes.iter().map(row).collect();
    let columns = [
        Column::fixed("AGENT"),
        Column::text("TYPE"),
        Column::fixed("STATUS"),
        Column::text("MODEL"),
        Column::fixed("BUDGET"),
        Column::number("AT"),
        Column::text("NOTE"),
    ];
    output::table(&columns, &rows);
}

/// The largest share of a limit that an agent has used, including what it gave to others.
fn bar(node: &Node) -> String {
    let (budget, given) = (Budget(node.budget), Budget(node.given));
    let spent = Spent { used: node.used, time: node.milliseconds };
    let given = |limit| given.of_limit(limit).unwrap_or_default();
    let used = |limit| spent.of_limit(limit).saturating_add(given(limit));
    let share = |limit| {
        let whole = u128::from(budget.of_limit(limit)?.saturating_add(given(limit)));
        let hundred = u128::from(used(limit)) * 100;
        Some((hundred.checked_div(whole).unwrap_or(100), limit))
    };
    // Of equal shares that of the first.
    let shares = BudgetLimit::ALL.into_iter().rev().filter_map(share);
    let Some((share, limit)) = shares.max_by_key(|(share, _)| *share) else {
        return format!("{} {}", used(BudgetLimit::Tokens), BudgetLimit::Tokens.as_str());
    };
    let full = usize::try_from(share / PART).unwrap_or(BAR).min(BAR);
    let empty = BAR.saturating_sub(full);
    format!("{}{} {share}% {}", "█".repeat(full), "░".repeat(empty), limit.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(used: Used, budget: Allowance, given: Allowance) -> Node {
        Node {
            agent: "a".to_owned(),
            parent: None,
            depth: 0,
            agent_type: String::new(),
            agent_name: None,
            status: "running",
            model: String::new(),
            used,
            milliseconds: 90_000,
            budget,
            given,
            note: None,
        }
    }

    #[test]
    fn bar_shows_and_names_the_limit_with_the_highest_share() {
        let used = Used { tokens: 300, micro_usd: 900_000, turns: 3, tool_calls: 9, denied: 0 };
        let none = Allowance::default();
        let tokens = Allowance { tokens: Some(1_000), ..none };
        for (budget, given, expected) in [
            (none, none, "300 tokens"),
            (none, Allowance { tokens: Some(50), ..none }, "350 tokens"),
            (tokens, none, "█░░░░ 30% tokens"),
            (tokens, Allowance { tokens: Some(1_000), ..none }, "███░░ 65% tokens"),
            (Allowance { micro_usd: Some(1_000_000), ..tokens }, none, "████░ 90% usd"),
            (Allowance { turns: Some(5), ..tokens }, none, "███░░ 60% turns"),
            (Allowance { milliseconds: Some(120_000), ..tokens }, none, "███░░ 75% minutes"),
            (Allowance { tool_calls: Some(9), ..tokens }, none, "█████ 100% tool-calls"),
            (Allowance { tool_calls: Some(6), ..none }, none, "█████ 150% tool-calls"),
            // Of two equal shares, the first is shown.
            (Allowance { turns: Some(10), ..tokens }, none, "█░░░░ 30% tokens"),
            (Allowance { tokens: Some(0), ..none }, none, "█████ 100% tokens"),
        ] {
            assert_eq!(bar(&node(used, budget, given)), expected, "{budget:?} {given:?}");
        }
    }
}
