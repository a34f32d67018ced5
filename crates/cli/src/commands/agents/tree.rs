//! `bailiwick agents tree`: which agent started which, and how each stands.

use std::io::IsTerminal as _;
use std::time::Duration;

use bailiwick_model::Delegate;
use bailiwick_model::attempt::{Allowance, Used};
use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::delegating::Session;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::running::recover;

/// How wide a budget is drawn.
const BAR: u64 = 5;
/// How often a tree that is watched is drawn.
const PAUSE: Duration = Duration::from_secs(1);

/// Show which agent started which, with status, model, budget, depth and note
///
/// Tokens are the share that an agent has used of its own, with what it gave to those below it; -o json
/// has the numbers. AT is its depth below the first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick agents tree\n  bailiwick agents tree --all\n  \
                        bailiwick agents tree --watch")]
pub struct Tree {
    /// With agents that have ended
    #[arg(short, long)]
    all: bool,
    /// Draw it again every second, until Ctrl-C
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
    budget: Allowance,
    /// What of its budget it gave to those below it.
    given: Allowance,
    note: Option<String>,
}

impl Tree {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        recover::find(context)?;
        let session = Session::at_terminal(context);
        loop {
            let nodes = self.nodes(&session).map_err(Failure::general)?;
            if self.format.format == Format::Json {
                return output::json(&nodes);
            }
            if self.watch && std::io::stdout().is_terminal() {
                output::text_out("\u{1b}[2J\u{1b}[H");
            }
            print(&nodes);
            if !self.watch {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Every agent, each behind the one that started it.
    fn nodes(&self, session: &Session) -> Result<Vec<Node>, String> {
        let all = session.known()?;
        let mut nodes = Vec::new();
        let is_root = |one: &&Delegate| {
            one.parent.as_ref().is_none_or(|parent| !all.iter().any(|other| other.run == *parent))
        };
        for root in all.iter().filter(is_root) {
            gather(session, root, &all, &mut nodes)?;
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
    session: &Session,
    one: &Delegate,
    all: &[Delegate],
    nodes: &mut Vec<Node>,
) -> Result<(), String> {
    let (status, attempt) = session.seen(one)?;
    nodes.push(Node {
        agent: one.run.to_string(),
        parent: one.parent.as_ref().map(ToString::to_string),
        depth: one.depth,
        agent_type: one.agent_type.clone(),
        agent_name: one.agent_name.clone(),
        status: status.label(),
        model: attempt.as_ref().map(|last| last.model.clone()).unwrap_or_default(),
        used: attempt.as_ref().map(|last| last.used).unwrap_or_default(),
        budget: attempt.map_or(one.reserved, |last| last.budget),
        given: one.given,
        note: one.note.clone(),
    });
    for child in all.iter().filter(|child| child.parent.as_ref() == Some(&one.run)) {
        gather(session, child, all, nodes)?;
    }
    Ok(())
}

fn print(nodes: &[Node]) {
    if nodes.is_empty() {
        output::line("no agent that another one started is at work");
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
    output::table(&["AGENT", "TYPE", "STATUS", "MODEL", "TOKENS", "AT", "NOTE"], &rows);
}

/// How much of its tokens an agent has used, with what it gave to others.
fn bar(node: &Node) -> String {
    let given = node.given.tokens.unwrap_or_default();
    let used = node.used.tokens.saturating_add(given);
    let Some(budget) = node.budget.tokens.map(|own| own.saturating_add(given)) else {
        return used.to_string();
    };
    let full = used.saturating_mul(BAR).checked_div(budget).unwrap_or(BAR).min(BAR);
    let mark = |sign: &str, count: u64| sign.repeat(usize::try_from(count).unwrap_or_default());
    let share = used.saturating_mul(100).checked_div(budget).unwrap_or(100);
    format!("{}{} {share}%", mark("█", full), mark("░", BAR.saturating_sub(full)))
}
