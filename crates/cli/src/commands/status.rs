//! `bailiwick status`: the agents of this repository that wait for somebody, with the next command.

use bailiwick_model::{Attempt, Run, RunState};
use clap::Args;
use serde::Serialize;

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

/// What an agent does or waits for.
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
    fn of(context: &Context, run: &Run, last: Option<&Attempt>) -> Option<Self> {
        match (run.state, last) {
            (RunState::Ready, _) | (RunState::Running, None) => Some(Self::Ready),
            (RunState::Running, Some(attempt)) if attempt.ending.is_some() => {
                Some(Self::Interrupted)
            }
            (RunState::Running, Some(_)) if !run_list::questions(context, &run.id).is_empty() => {
                Some(Self::WaitingForApproval)
            }
            (RunState::Running, Some(_)) => Some(Self::Working),
            (RunState::Done, _) => Some(Self::Finished),
            (
                RunState::HalfSpawned
                | RunState::Failed
                | RunState::Merged
                | RunState::RolledBack
                | RunState::Rejected,
                _,
            ) => None,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Ready => "ready to start",
            Self::Working => "working",
            Self::WaitingForApproval => "waits for your approval",
            Self::Interrupted => "interrupted",
            Self::Finished => "finished, not landed",
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
    standing: Standing,
    next: String,
}

impl Status {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let (_, runs) = run_list::read(context, self.all_repos)?;
        let shown = |one: &ListedRun| {
            let standing = Standing::of(context, &one.run, one.last.as_ref())?;
            let (agent_id, name) = (one.run.id.to_string(), one.run.name.to_string());
            Some(Shown { next: standing.next(&name), agent_id, name, standing })
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
        let row =
            |one: &Shown| vec![one.name.clone(), one.standing.words().to_owned(), one.next.clone()];
        let rows: Vec<Vec<String>> = agents.iter().map(row).collect();
        let columns = [Column::fixed("AGENT"), Column::text("STATUS"), Column::fixed("NEXT")];
        output::table(&columns, &rows);
        Ok(())
    }
}
