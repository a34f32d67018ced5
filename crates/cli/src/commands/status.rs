//! `bailiwick status`: the agents of this repository that wait for somebody, with the next command.

use std::collections::BTreeMap;

use bailiwick_model::{AgentId, Attempt, Run, RunState};
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use clap::Args;
use serde::Serialize;

use crate::agent_names::Scope;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::running::recover;
use crate::wire;

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
            (RunState::Running, Some(_)) if has_questions(context, run) => {
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
        recover::find(context)?;
        let scope = Scope::observe(context, self.all_repos)?;
        let (runs, attempts) = wire::with_store(context, async |store| {
            Ok((store.list(None).await?, store.attempts(None).await?))
        })?;
        let last: BTreeMap<AgentId, Attempt> =
            attempts.into_iter().map(|attempt| (attempt.run.clone(), attempt)).collect();
        let shown = |run: &Run| {
            let standing = Standing::of(context, run, last.get(&run.id))?;
            let (agent_id, name) = (run.id.to_string(), run.name.to_string());
            Some(Shown { next: standing.next(&name), agent_id, name, standing })
        };
        let agents: Vec<Shown> =
            runs.iter().filter(|run| scope.includes(run)).filter_map(shown).collect();
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
        output::table(&["AGENT", "STATUS", "NEXT"], &rows);
        Ok(())
    }
}

fn has_questions(context: &Context, run: &Run) -> bool {
    let directory = RunDirectory::new(&context.state, run.id.as_str());
    match supervisor::ask(&directory, &Request::Status) {
        Ok(Some(Reply::Standing(standing))) => !standing.questions.is_empty(),
        Ok(_) | Err(_) => false,
    }
}
