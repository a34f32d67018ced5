//! `bailiwick ps`: which agents are at work, and how the others ended.

use std::collections::BTreeMap;

use bailiwick_model::event::Ending;
use bailiwick_model::{AgentId, Attempt, Run};
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::running::recover;
use crate::running::view::plain;
use crate::wire;

/// List agents: those at work, or all that have run
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick ps\n  bailiwick ps --all -o json")]
pub struct Ps {
    /// Also those that have ended
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    format: FormatOption,
}

/// A line of the listing.
#[derive(Debug, Serialize)]
struct Listed {
    agent_id: String,
    state: String,
    cli: String,
    model: String,
    /// How it is paid for.
    login: String,
    /// How much of a sandbox it has.
    sandbox: String,
    attempt: u64,
    started_at: u64,
    elapsed_ms: u64,
    tokens: u64,
    turns: u64,
    tool_calls: u64,
    denied: u64,
    /// What people are asked at this moment.
    questions: Vec<(String, String)>,
}

impl Ps {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        recover::find(context)?;
        let (runs, attempts) = wire::with_store(context, async |store| {
            Ok((store.list(None).await?, store.attempts(None).await?))
        })?;
        let mut last: BTreeMap<AgentId, Attempt> = BTreeMap::new();
        for mut attempt in attempts {
            // A run has used what all its attempts have.
            if let Some(before) = last.get(&attempt.run) {
                attempt.used = attempt.used.plus(&before.used);
            }
            last.insert(attempt.run.clone(), attempt);
        }
        let listed: Vec<Listed> = runs
            .iter()
            .filter_map(|run| Some((run, last.get(&run.id)?)))
            .filter(|(_, attempt)| self.all || attempt.ending.is_none())
            .map(|(run, attempt)| listed(context, run, attempt))
            .collect();
        if self.format.format == Format::Json {
            return output::json(&listed);
        }
        if listed.is_empty() {
            output::note("no agent is at work; --all lists those that have ended");
            return Ok(());
        }
        table(&listed);
        Ok(())
    }
}

fn listed(context: &Context, run: &Run, attempt: &Attempt) -> Listed {
    let directory = RunDirectory::new(&context.state, run.id.as_str());
    let questions = match attempt.ending {
        Some(_) => Vec::new(),
        None => match supervisor::ask(&directory, &Request::Status) {
            Ok(Some(Reply::Standing(standing))) => standing.questions,
            Ok(_) | Err(_) => Vec::new(),
        },
    };
    let state = match attempt.ending {
        None if questions.is_empty() => "at work".to_owned(),
        None => "asks".to_owned(),
        Some(Ending::Completed) => run.status.to_string(),
        Some(ending) => ending.to_string(),
    };
    let until = attempt.ended_at.unwrap_or_else(wire::now_ms);
    Listed {
        agent_id: run.id.to_string(),
        state,
        cli: attempt.cli.clone(),
        model: attempt.model.clone(),
        login: attempt.login.clone(),
        sandbox: attempt.sandbox.clone(),
        attempt: attempt.number,
        started_at: attempt.started_at,
        elapsed_ms: until.saturating_sub(attempt.started_at),
        tokens: attempt.used.tokens,
        turns: attempt.used.turns,
        tool_calls: attempt.used.tool_calls,
        denied: attempt.used.denied,
        questions,
    }
}

fn table(listed: &[Listed]) {
    let name = listed.iter().map(|one| one.agent_id.len()).max().unwrap_or(0).max(5);
    let state = listed.iter().map(|one| one.state.len()).max().unwrap_or(0).max(5);
    let heading = format!(
        "{:name$}  {:state$}  {:11}  {:>7}  {:>9}  {:>5}  {:>6}",
        "AGENT", "STATE", "PROGRAM", "TIME", "TOKENS", "CALLS", "DENIED"
    );
    output::line(output::styled(output::BOLD, heading));
    for one in listed {
        let seconds = one.elapsed_ms / 1000;
        output::line(format_args!(
            "{:name$}  {:state$}  {:11}  {:>7}  {:>9}  {:>5}  {:>6}",
            one.agent_id,
            one.state,
            one.cli,
            format!("{}:{:02}", seconds / 60, seconds % 60),
            one.tokens,
            one.tool_calls,
            one.denied
        ));
        for (id, about) in &one.questions {
            output::line(format_args!("  asks ({id}): {}", plain(about)));
        }
    }
}
