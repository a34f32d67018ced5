//! `bailiwick status`: the agents of this repository that wait for somebody, with the next command.

use bailiwick_model::{Run, RunStatus};
use clap::Args;
use serde::Serialize;

use crate::agent_state::{AgentState, Seen};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};
use crate::running::run_list::{self, ListedRun};

/// Show what this repository's agents do and wait for, with the next command for each
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick status\n  bailiwick status --all-repos -o json")]
pub struct Status {
    /// Those of all repositories; also what is shown outside of one
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
}

impl Standing {
    /// Nothing for an agent that waits for nobody: its work has landed, or was turned down.
    fn of(run: &Run, state: AgentState) -> Option<Self> {
        match state {
            AgentState::Ready | AgentState::Running => Some(Self::Ready),
            AgentState::AtWork => Some(Self::Working),
            AgentState::Asks => Some(Self::WaitingForApproval),
            AgentState::Done => Some(Self::Finished),
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

    fn next(self, name: &str) -> String {
        let verb = match self {
            Self::Ready => "run",
            Self::Working => "logs -f",
            Self::WaitingForApproval => "attach",
            Self::Interrupted => "resume",
            Self::Finished => "verify",
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
        let shown = |one: &ListedRun| {
            let ListedRun { run, last, .. } = one;
            let state = AgentState::of(run, last.as_ref(), Seen::observe(context, run).0);
            let standing = Standing::of(run, state)?;
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
        let row = |one: &Shown| vec![one.name.clone(), one.state.clone(), one.next.clone()];
        let rows: Vec<Vec<String>> = agents.iter().map(row).collect();
        let columns = [Column::fixed("AGENT"), Column::text("STATE"), Column::fixed("NEXT")];
        output::table(&columns, &rows);
        Ok(())
    }
}
