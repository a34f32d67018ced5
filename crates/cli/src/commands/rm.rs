//! `bailiwick rm`: removes what a run has left on the disk; the ledger and its events stay.

use bailiwick_engine::context::Context;
use bailiwick_engine::removing::{self, RemoveWork, Removed};
use bailiwick_engine::running::recover;
use bailiwick_model::AgentId;
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Remove an agent's worktree, task directory and private files; its branch, ledger row and events stay
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick rm fix-42\n  bailiwick rm fix-42 --force")]
pub struct Rm {
    /// The agents
    #[arg(required = true)]
    agents: Vec<AgentId>,
    /// Also remove work that has neither landed nor been rejected
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    format: FormatOption,
}

/// An agent whose files were removed, for programs.
#[derive(Debug, Serialize)]
struct RemovedAgent {
    agent_id: AgentId,
    name: AgentId,
}

impl Rm {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        recover::record_interrupted_runs(context)?;
        let mut removed = Vec::new();
        for name in &self.agents {
            removed.push(self.remove(context, name)?);
        }
        match self.format.format {
            Format::Human => Ok(()),
            Format::Json => output::json(&removed),
        }
    }

    fn remove(&self, context: &Context, name: &AgentId) -> Result<RemovedAgent, Failure> {
        let which = if self.force { RemoveWork::Any } else { RemoveWork::Finished };
        let (run, removed) = removing::remove(context, name, which)?;
        match (removed, self.format.format) {
            (Removed::Nothing, _) => {
                output::note(format_args!("`{name}` is {}, and has no files left", run.state));
            }
            (Removed::Files, Format::Human) => output::line(format_args!("removed   {name}")),
            (Removed::Files, Format::Json) => {}
        }
        Ok(RemovedAgent { agent_id: run.id, name: run.name })
    }
}
