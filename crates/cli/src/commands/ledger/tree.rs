//! Runs as trees: each below the one that started it, or whose task it tries again.

use std::collections::BTreeMap;

use bailiwick_engine::agent_names::{Scope, shown};
use bailiwick_engine::agent_state::AgentState;
use bailiwick_engine::context::Context;
use bailiwick_engine::respawning::is_again;
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, Run};
use bailiwick_store::Store;
use serde::Serialize;

use super::view::{States, show_runs};
use crate::failure::Failure;
use crate::output::{self, Format, GREEN, RED, YELLOW, styled};

/// A run with the runs below it.
#[derive(Debug, Serialize)]
pub struct Branching {
    run: Run,
    children: Vec<Branching>,
}

/// The relation that puts a run below another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    /// That it was started from it.
    Started,
    /// It was started by it, or is a new attempt at its task.
    StartedOrAgain,
}

impl Below {
    fn is(self, run: &Run, parent: &Run) -> bool {
        let started = run.parent_branch.as_deref().is_some_and(|started_from| {
            started_from == parent.id.as_str() || started_from == parent.branch
        });
        started || self == Self::StartedOrAgain && is_again(run, parent)
    }
}

/// Prints runs as trees.
pub async fn show(
    context: &Context,
    store: &Store,
    id: Option<&AgentId>,
    scope: &Scope,
    format: Format,
) -> Result<(), Failure> {
    let mut runs = store.list(None).await?;
    if id.is_none() {
        runs.retain(|run| scope.includes(run));
    }
    let named = runs.iter().filter_map(|run| Some((run.dna.clone()?, run.name.clone())));
    let named = named.collect();
    let roots = grown(runs, id, Below::StartedOrAgain);
    if format == Format::Json {
        return output::json(&roots);
    }
    let states = States::read(context, store).await?;
    let printer = Printer { states, named, with_repository: *scope == Scope::AllRepositories };
    if roots.is_empty() {
        return show_runs(&printer.states, &[], format);
    }
    for root in &roots {
        output::line(printer.label(&root.run));
        printer.branches(root, "");
    }
    if let Some(root) = roots.first() {
        output::next_step(format_args!("bailiwick ledger show {}", root.run.id));
    }
    Ok(())
}

struct Printer<'a> {
    states: States<'a>,
    /// The names of runs, by their identities.
    named: BTreeMap<String, AgentId>,
    with_repository: bool,
}

impl Printer<'_> {
    fn label(&self, run: &Run) -> String {
        let state = self.states.of(run);
        let mut text =
            format!("{} [{}] branch={}", run.id, styled(colour(state), state), run.branch);
        if let Some(former) = run.fork_parent_id.as_ref().and_then(|dna| self.named.get(dna)) {
            text += &format!(" respawn of {former}");
        }
        if self.with_repository {
            text += &format!(" in {}", shown(run.repository.as_deref()));
        }
        text
    }

    fn branches(&self, above: &Branching, indent: &str) {
        for (index, child) in above.children.iter().enumerate() {
            let last = index + 1 == above.children.len();
            let (arm, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let label = self.label(&child.run);
            output::line(format_args!("{indent}{arm}{label}"));
            self.branches(child, &format!("{indent}{below}"));
        }
    }
}

fn colour(state: AgentState) -> anstyle::Style {
    match state {
        AgentState::HalfSpawned
        | AgentState::Ready
        | AgentState::Running
        | AgentState::AtWork
        | AgentState::Asks
        | AgentState::Ended(
            ExitReason::Stopped
            | ExitReason::TimedOut
            | ExitReason::BudgetExhausted
            | ExitReason::CutOff,
        ) => YELLOW,
        AgentState::Done | AgentState::Merged | AgentState::Ended(ExitReason::Completed) => GREEN,
        AgentState::Failed
        | AgentState::Rejected
        | AgentState::RolledBack
        | AgentState::Ended(
            ExitReason::Failed | ExitReason::EnforcementLost | ExitReason::Denied,
        ) => RED,
    }
}

/// The tree below `id` as the kei tools define it: runs, and the runs that they started.
pub async fn kei_forest(store: &Store, id: &AgentId) -> Result<Vec<Branching>, Failure> {
    Ok(grown(store.descendants(id).await?, Some(id), Below::Started))
}

/// The trees of these runs; of `id` alone, or all.
fn grown(mut left: Vec<Run>, id: Option<&AgentId>, below: Below) -> Vec<Branching> {
    let is_child =
        |run: &Run, all: &[Run]| all.iter().any(|other| other.id != run.id && below.is(run, other));
    let all = left.clone();
    let first: Vec<Run> = match id {
        Some(id) => all.iter().filter(|run| run.id == *id).cloned().collect(),
        None => all.iter().filter(|run| !is_child(run, &all)).cloned().collect(),
    };
    let mut roots = Vec::new();
    for run in first {
        left.retain(|other| other.id != run.id);
        roots.push(grow(run, &mut left, below));
    }
    if id.is_some() {
        return roots;
    }
    // Runs that are each other's parents have no root: each such ring begins at its oldest.
    while let Some(run) = left.first().cloned() {
        left.remove(0);
        roots.push(grow(run, &mut left, below));
    }
    roots
}

fn grow(run: Run, left: &mut Vec<Run>, below: Below) -> Branching {
    let (children, others): (Vec<Run>, Vec<Run>) =
        left.drain(..).partition(|other| below.is(other, &run));
    *left = others;
    let children = children.into_iter().map(|child| grow(child, left, below)).collect();
    Branching { run, children }
}

/// The tree as the kei tools print it: an indent for each step down.
pub fn kei_tree(tree: &Branching, depth: usize) {
    let run = &tree.run;
    let indent = "  ".repeat(depth);
    output::line(format_args!("{indent}{} [{}] branch={}", run.id, run.status, run.branch));
    for child in &tree.children {
        kei_tree(child, depth + 1);
    }
}
