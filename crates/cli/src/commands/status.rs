//! `bailiwick status`: the agents of this repository that wait for somebody, with the next command.

use std::collections::BTreeMap;

use bailiwick_engine::agent_state::{AgentState, Seen};
use bailiwick_engine::context::Context;
use bailiwick_engine::running::{
    finish::NOTHING_CHANGED,
    run_list::{self, ListedRun},
};
use bailiwick_engine::verifying::{VERIFICATION_FAILED, VERIFIED};
use bailiwick_model::{AgentId, Attempt, Run, RunStatus};
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

/// What an agent does or waits for, as programs are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Standing {
    Ready,
    Working,
    WaitingForApproval,
    Interrupted,
    Finished,
    Verified,
    ChecksFailed,
    NothingChanged,
}

impl Standing {
    /// Nothing for an agent that waits for nobody: its work has landed, or was turned down.
    fn of(run: &Run, state: AgentState, verdict: Option<Self>) -> Option<Self> {
        match state {
            AgentState::Ready | AgentState::Running => Some(Self::Ready),
            AgentState::AtWork => Some(Self::Working),
            AgentState::Asks => Some(Self::WaitingForApproval),
            AgentState::Done => Some(verdict.unwrap_or(Self::Finished)),
            // Those whose run failed with it are not taken up again.
            AgentState::Ended(_) | AgentState::Failed if run.status != RunStatus::Failed => {
                Some(Self::Interrupted)
            }
            AgentState::Ended(_)
            | AgentState::Failed
            | AgentState::HalfSpawned
            | AgentState::Merged
            | AgentState::RolledBack
            | AgentState::Rejected => None,
        }
    }

    /// What the last verification of a run found, if the agent has not worked since.
    fn found(events: &[Event], last: Option<&Attempt>) -> Option<Self> {
        let since = last.map_or(0, |attempt| attempt.started_at);
        let recent = |event: &&Event| u64::try_from(event.at).is_ok_and(|at| at >= since);
        let recent: Vec<&Event> = events.iter().rev().take_while(recent).collect();
        let found = recent.iter().find_map(|event| match event.kind.as_str() {
            VERIFIED => Some(Self::Verified),
            VERIFICATION_FAILED => Some(Self::ChecksFailed),
            NOTHING_CHANGED => Some(Self::NothingChanged),
            _ => None,
        });
        match found {
            // Checks of nothing pass, and there is nothing to land.
            Some(Self::Verified) if recent.iter().any(|event| event.kind == NOTHING_CHANGED) => {
                Some(Self::NothingChanged)
            }
            found => found,
        }
    }

    /// What a person reads where the state of the agent says less.
    fn said(self) -> Option<&'static str> {
        match self {
            Self::Verified => Some("checks passed"),
            Self::ChecksFailed => Some("checks failed"),
            Self::NothingChanged => Some("nothing changed"),
            Self::Ready
            | Self::Working
            | Self::WaitingForApproval
            | Self::Interrupted
            | Self::Finished => None,
        }
    }

    fn next(self, name: &str) -> String {
        let verb = match self {
            Self::Ready => "run",
            Self::Working => "logs -f",
            Self::WaitingForApproval => "attach",
            Self::Interrupted => "resume",
            Self::Finished => "verify",
            Self::Verified => "land",
            Self::ChecksFailed => "respawn",
            Self::NothingChanged => "rm",
        };
        format!("bailiwick {verb} {name}")
    }
}

#[derive(Debug, Serialize)]
struct Shown {
    agent_id: String,
    name: String,
    state: String,
    standing: Standing,
    next: String,
}

impl Status {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let (_, runs) = run_list::read(context, self.all_repos)?;
        let done = runs.iter().map(|one| &one.run).filter(|run| run.status == RunStatus::Done);
        let events: BTreeMap<AgentId, Vec<Event>> = context.with_store(async |store| {
            let mut events = BTreeMap::new();
            for run in done {
                events.insert(run.id.clone(), store.events(run.id.as_str()).await?);
            }
            Ok(events)
        })?;
        let shown = |one: &ListedRun| {
            let ListedRun { run, last, .. } = one;
            let state = AgentState::of(run, last.as_ref(), Seen::observe(context, run).0);
            let events = events.get(&run.id).map(Vec::as_slice).unwrap_or_default();
            let standing = Standing::of(run, state, Standing::found(events, last.as_ref()))?;
            let (agent_id, name) = (run.id.to_string(), run.name.to_string());
            let (next, state) = (standing.next(&name), state.to_string());
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
            let state = one.standing.said().unwrap_or(&one.state).to_owned();
            vec![one.name.clone(), state, one.next.clone()]
        };
        let rows: Vec<Vec<String>> = agents.iter().map(row).collect();
        let columns = [Column::fixed("AGENT"), Column::fixed("STATE"), Column::fixed("NEXT")];
        output::table(&columns, &rows);
        Ok(())
    }
}
