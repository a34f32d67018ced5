//! `bailiwick ps`: which agents are at work, and how the others ended.

use std::collections::BTreeMap;

use bailiwick_model::{AgentId, Attempt, Run};
use clap::Args;
use serde::Serialize;

use crate::agent_names::{Scope, shown};
use crate::agent_state::{AgentState, Seen};
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
            .map(|run| listed(context, run, last.get(&run.id)))
            .filter(|(state, _)| self.all || matches!(state, AgentState::AtWork | AgentState::Asks))
            .map(|(_, listed)| listed)
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

fn listed(context: &Context, run: &Run, last: Option<&Attempt>) -> (AgentState, Listed) {
    let (seen, questions) = Seen::observe(context, run);
    let state = AgentState::of(run, last, seen);
    let until = |attempt: &Attempt| attempt.ended_at.unwrap_or_else(wire::now_ms);
    let used = last.map(|attempt| attempt.used).unwrap_or_default();
    let text = |of: fn(&Attempt) -> &String| last.map(of).cloned().unwrap_or_default();
    let listed = Listed {
        agent_id: run.id.to_string(),
        name: run.name.to_string(),
        repository: run.repository.clone(),
        state: state.to_string(),
        cli: text(|attempt| &attempt.cli),
        model: text(|attempt| &attempt.model),
        login: text(|attempt| &attempt.login),
        sandbox: text(|attempt| &attempt.sandbox),
        attempt: last.map_or(0, |attempt| attempt.number),
        started_at: last.map_or(0, |attempt| attempt.started_at),
        elapsed_ms: last.map_or(0, |attempt| until(attempt).saturating_sub(attempt.started_at)),
        tokens: used.tokens,
        turns: used.turns,
        tool_calls: used.tool_calls,
        denied: used.denied,
        questions,
    };
    (state, listed)
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
