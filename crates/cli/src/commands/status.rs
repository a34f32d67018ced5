//! `bailiwick status`: the agents of this repository that wait for somebody, with the next command.

use std::collections::BTreeMap;

use bailiwick_engine::agent_state::{AgentState, SupervisorState};
use bailiwick_engine::context::Context;
use bailiwick_engine::running::run_list::{self, ListedRun};
use bailiwick_engine::standing::Standing;
use bailiwick_engine::waiting_for::WaitingFor;
use bailiwick_model::{AgentId, Run, RunStatus};
use bailiwick_store::Event;
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};

/// Show the state of this repository's agents, with the next command for each
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick status\n  bailiwick status --all-repos -o json")]
pub struct Status {
    /// Show the agents of all repositories; the default outside of a repository
    #[arg(long)]
    all_repos: bool,
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Debug, Serialize)]
struct Shown {
    agent_id: String,
    name: String,
    state: String,
    standing: WaitingFor,
    next: String,
}

impl Status {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let (_, runs) = run_list::read(context, self.all_repos)?;
        let has_notes = |run: &&Run| matches!(run.status, RunStatus::Done | RunStatus::Failed);
        let noted = runs.iter().map(|one| &one.run).filter(has_notes);
        let (events, dispatches) = context.with_store(async |store| {
            let mut events: BTreeMap<AgentId, Vec<Event>> = BTreeMap::new();
            for run in noted {
                events.insert(run.id.clone(), store.events(run.id.as_str()).await?);
            }
            let mut dispatches = BTreeMap::new();
            for one in &runs {
                if let Some(dispatch) = store.dispatch_of(&one.run.id).await? {
                    dispatches.insert(one.run.id.clone(), dispatch);
                }
            }
            Ok((events, dispatches))
        })?;
        let shown = |one: &ListedRun| {
            let ListedRun { run, last, .. } = one;
            let state =
                AgentState::of(run, last.as_ref(), SupervisorState::observe(context, run).0);
            let events = events.get(&run.id).map(Vec::as_slice).unwrap_or_default();
            let waiting = WaitingFor::of(run, state, last.as_ref(), events);
            let dispatch = dispatches.get(&run.id);
            let found = Standing::of(&run.name, waiting, state, last.as_ref(), dispatch);
            let standing = found.waiting?;
            let (agent_id, name) = (run.id.to_string(), run.name.to_string());
            let next = format!("bailiwick {}", found.next?);
            let state = state.to_string();
            Some(Shown { agent_id, name, state, standing, next })
        };
        let agents: Vec<Shown> = runs.iter().filter_map(shown).collect();
        if self.format.format == Format::Json {
            return output::json(&agents);
        }
        if agents.is_empty() {
            output::note("no agent is working or waiting");
            output::next_step("bailiwick run TASK.toml; bailiwick ps --all lists those that ended");
            return Ok(());
        }
        let row = |one: &Shown| {
            let state = one.standing.words().unwrap_or(&one.state).to_owned();
            vec![one.name.clone(), state, one.next.clone()]
        };
        let rows: Vec<Vec<String>> = agents.iter().map(row).collect();
        let columns = [Column::fixed("AGENT"), Column::fixed("STATE"), Column::fixed("NEXT")];
        output::table(&columns, &rows);
        Ok(())
    }
}
