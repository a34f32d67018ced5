//! `bailiwick ps`: which agents are running, and how the others ended.

use bailiwick_engine::agent_names::{Scope, shown};
use bailiwick_engine::agent_state::{AgentState, SupervisorState};
use bailiwick_engine::context::Context;
use bailiwick_engine::running::run_list::{self, ListedRun};
use bailiwick_model::Attempt;
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};
use crate::view::plain;

/// List running agents of this repository, or all agents
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick ps\n  bailiwick ps --all -o json\n  bailiwick ps \
                        --all-repos")]
pub struct Ps {
    /// Include agents that have ended or were never started
    #[arg(short, long)]
    all: bool,
    /// List the agents of all repositories; the default outside of a repository
    #[arg(long)]
    all_repos: bool,
    #[command(flatten)]
    format: FormatOption,
}

/// A line of the listing.
#[derive(Debug, Serialize)]
struct Listed {
    agent_id: String,
    /// Its name in the repository.
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
    /// When its last attempt began.
    started_at: u64,
    /// How long all its attempts have worked.
    elapsed_ms: u64,
    tokens: u64,
    turns: u64,
    tool_calls: u64,
    denied: u64,
    /// The questions that wait for a person.
    questions: Vec<(String, String)>,
}

impl Ps {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let (scope, runs) = run_list::read(context, self.all_repos)?;
        let listed: Vec<Listed> = runs
            .iter()
            .map(|one| listed(context, one))
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
            output::note(match self.all {
                true => format!("no agents{place}"),
                false => {
                    format!("no agent is running{place}; --all also lists those that have ended")
                }
            });
            return Ok(());
        }
        table(&listed, scope == Scope::AllRepositories);
        Ok(())
    }
}

fn listed(context: &Context, one: &ListedRun) -> (AgentState, Listed) {
    let ListedRun { run, last, used, elapsed_ms } = one;
    let last = last.as_ref();
    let (seen, questions) = SupervisorState::observe(context, run);
    let state = AgentState::of(run, last, seen);
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
        elapsed_ms: *elapsed_ms,
        tokens: used.tokens,
        turns: used.turns,
        tool_calls: used.tool_calls,
        denied: used.denied,
        questions: questions.into_iter().map(|one| (one.id, one.about)).collect(),
    };
    (state, listed)
}

fn table(listed: &[Listed], with_repository: bool) {
    let mut columns = vec![
        Column::fixed("AGENT"),
        Column::fixed("STATE"),
        Column::fixed("PROGRAM").optional(),
        Column::number("TIME"),
        Column::number("TOKENS"),
        Column::number("CALLS").optional(),
        Column::number("DENIED"),
    ];
    if with_repository {
        columns.push(Column::path("REPOSITORY"));
    }
    let row = |one: &Listed| {
        let seconds = one.elapsed_ms / 1000;
        let mut cells = vec![
            one.name.clone(),
            one.state.clone(),
            one.cli.clone(),
            format!("{}:{:02}", seconds / 60, seconds % 60),
            one.tokens.to_string(),
            one.tool_calls.to_string(),
            one.denied.to_string(),
        ];
        if with_repository {
            cells.push(shown(one.repository.as_deref()));
        }
        cells
    };
    let rows: Vec<Vec<String>> = listed.iter().map(row).collect();
    output::table_with(&columns, &rows, |number| {
        let Some(one) = listed.get(number) else { return };
        for (id, about) in &one.questions {
            output::wrapped(&format!("  asks ({id}): "), &plain(about));
        }
    });
}
