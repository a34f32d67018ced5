//! `bailiwick ps`: which agents are at work, and how the others ended.

use std::collections::BTreeMap;

use bailiwick_model::event::Ending;
use bailiwick_model::{AgentId, Attempt, Run, RunState};
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use clap::Args;
use serde::Serialize;

use crate::agent_names::{Scope, shown};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::running::recover;
use crate::running::view::plain;
use crate::wire;

/// List this repository's agents: those at work, or all
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick ps\n  bailiwick ps --all -o json\n  bailiwick ps \
                        --all-repos")]
pub struct Ps {
    /// Also those that have ended, and those that were never started
    #[arg(short, long)]
    all: bool,
    /// Those of all repositories; also what is shown outside of one
    #[arg(long)]
    all_repos: bool,
    #[command(flatten)]
    format: FormatOption,
}

/// A line of the listing.
#[derive(Debug, Serialize)]
struct Listed {
    agent_id: String,
    /// What it is called in its repository.
    name: String,
    repository: Option<String>,
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
        let scope = Scope::observe(context, self.all_repos)?;
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
            .filter(|run| scope.includes(run))
            .filter_map(|run| match last.get(&run.id) {
                Some(attempt) if self.all || attempt.ending.is_none() => {
                    Some(listed(context, run, attempt))
                }
                None if self.all && run.state == RunState::Ready => Some(ready(run)),
                Some(_) | None => None,
            })
            .collect();
        if self.format.format == Format::Json {
            return output::json(&listed);
        }
        if listed.is_empty() {
            let place = match scope {
                Scope::AllRepositories => "",
                Scope::Repository(_) => " in this repository (--all-repos shows the others)",
            };
            let hint = if self.all { "" } else { "; --all also lists those that have ended" };
            output::note(format_args!("no agent is at work{place}{hint}"));
            return Ok(());
        }
        table(&listed, scope == Scope::AllRepositories);
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
        Some(Ending::Completed) => run.state.to_string(),
        Some(_) if run.status.next().is_empty() => run.state.to_string(),
        Some(ending) => ending.to_string(),
    };
    let until = attempt.ended_at.unwrap_or_else(wire::now_ms);
    Listed {
        agent_id: run.id.to_string(),
        name: run.name.to_string(),
        repository: run.repository.clone(),
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

/// An agent that was spawned and never started.
fn ready(run: &Run) -> Listed {
    Listed {
        agent_id: run.id.to_string(),
        name: run.name.to_string(),
        repository: run.repository.clone(),
        state: run.state.to_string(),
        cli: String::new(),
        model: String::new(),
        login: String::new(),
        sandbox: String::new(),
        attempt: 0,
        started_at: 0,
        elapsed_ms: 0,
        tokens: 0,
        turns: 0,
        tool_calls: 0,
        denied: 0,
        questions: Vec::new(),
    }
}

fn table(listed: &[Listed], with_repository: bool) {
    let name = listed.iter().map(|one| one.name.len()).max().unwrap_or(0).max(5);
    let state = listed.iter().map(|one| one.state.len()).max().unwrap_or(0).max(5);
    let heading = format!(
        "{:name$}  {:state$}  {:11}  {:>7}  {:>9}  {:>5}  {:>6}{}",
        "AGENT",
        "STATE",
        "PROGRAM",
        "TIME",
        "TOKENS",
        "CALLS",
        "DENIED",
        if with_repository { "  REPOSITORY" } else { "" }
    );
    output::line(output::styled(output::BOLD, heading));
    for one in listed {
        let seconds = one.elapsed_ms / 1000;
        output::line(format_args!(
            "{:name$}  {:state$}  {:11}  {:>7}  {:>9}  {:>5}  {:>6}{}",
            one.name,
            one.state,
            one.cli,
            format!("{}:{:02}", seconds / 60, seconds % 60),
            one.tokens,
            one.tool_calls,
            one.denied,
            match with_repository {
                true => format!("  {}", shown(one.repository.as_deref())),
                false => String::new(),
            }
        ));
        for (id, about) in &one.questions {
            output::line(format_args!("  asks ({id}): {}", plain(about)));
        }
    }
}
