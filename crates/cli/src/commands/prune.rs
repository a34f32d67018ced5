//! `bailiwick prune`: frees the disk space of agents that are finished, of build caches and of setups.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use bailiwick_engine::context::Context;
use bailiwick_engine::pruning::{self, Item};
use bailiwick_engine::running::recover;
use bailiwick_model::AgentId;
use bailiwick_model::size::readable_size;
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};
use crate::view::forget_typed;

/// Remove the worktrees of finished agents, build caches and installed setups
///
/// An agent is finished when its work has landed, was rolled back or was rejected. Branches, ledger
/// rows, events and verdicts stay. Running agents and the setups of unfinished ones are kept. The
/// next run of a task installs its setup again.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick prune --dry-run\n  bailiwick prune --yes\n  bailiwick \
                        prune --force fix-42 --yes"
)]
pub struct Prune {
    /// Show what would be removed and what would be kept, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove without asking
    #[arg(short, long)]
    yes: bool,
    /// Also remove the worktree of this agent, whose work has neither landed nor been rejected
    #[arg(long, value_name = "AGENT")]
    force: Vec<AgentId>,
    /// Prune all repositories; the default outside of a repository
    #[arg(long)]
    all_repos: bool,
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Debug, Serialize)]
struct Pruned<'a> {
    dry_run: bool,
    items: &'a [Item],
    freed_bytes: u64,
}

impl Prune {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        recover::record_interrupted_runs(context)?;
        let items = pruning::plan(context, self.all_repos, &self.force)?;
        let bytes = items.iter().filter(|item| item.remove).map(|item| item.bytes).sum();
        let human = self.format.format == Format::Human;
        if human {
            show(&items);
        }
        let any = items.iter().any(|item| item.remove);
        if any && !self.dry_run {
            if !self.yes && !human {
                return Err(Failure::usage(
                    "nothing was removed: `-o json` needs --yes or --dry-run",
                ));
            }
            if !self.yes && !confirmed(bytes)? {
                output::note("nothing was removed");
                return Ok(());
            }
            let mut removed = items.iter().filter(|item| item.remove);
            removed.try_for_each(|item| pruning::remove(context, item))?;
        }
        if !human {
            let freed_bytes = if self.dry_run { 0 } else { bytes };
            let pruned = Pruned { dry_run: self.dry_run, items: &items, freed_bytes };
            return output::json(&pruned);
        }
        match (any, self.dry_run) {
            (false, _) => output::line("nothing to remove"),
            (true, true) => output::line(format_args!("would free {}", readable_size(bytes))),
            (true, false) => output::line(format_args!("freed {}", readable_size(bytes))),
        }
        Ok(())
    }
}

fn show(items: &[Item]) {
    if items.is_empty() {
        return;
    }
    let row = |item: &Item| {
        let action = if item.remove { "remove" } else { "keep" };
        vec![action.to_owned(), item.what.clone(), readable_size(item.bytes), item.why.to_owned()]
    };
    let rows: Vec<Vec<String>> = items.iter().map(row).collect();
    let columns = [
        Column::fixed("ACTION"),
        Column::folded("WHAT"),
        Column::number("SIZE"),
        Column::folded("WHY"),
    ];
    output::table(&columns, &rows);
}

/// Asks for confirmation; an error without a terminal.
fn confirmed(bytes: u64) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage(
            "nothing was removed: this is not a terminal, so nobody can confirm",
        )
        .help("remove without asking: --yes; look first: --dry-run"));
    }
    forget_typed(&std::io::stdin());
    let _ = write!(anstream::stderr(), "free {}? [y/N] ", readable_size(bytes));
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
