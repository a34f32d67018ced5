//! `bailiwick diff`: what an agent changed, committed or not.

use bailiwick_control::ports::{Work as _, WorkError};
use bailiwick_model::AgentId;
use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::verifying::{Places, Subject};

/// Show what an agent changed, committed or not
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick diff fix-42\n  bailiwick diff fix-42 --stat")]
pub struct Diff {
    /// The agent
    agent: AgentId,
    /// Only how much of which file
    #[arg(long)]
    stat: bool,
}

impl Diff {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let subject = Subject::of_agent(context, &self.agent, &Places::default())?;
        let said = |error: WorkError| Failure::general(error.to_string());
        let work = subject.found()?;
        let base = work.base().map_err(said)?;
        let snapshot = work.snapshot(&base).map_err(said)?;
        let shape = if self.stat { "--stat" } else { "--patch" };
        let arguments = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--find-renames",
            shape,
            &snapshot.merge_base_tree,
            &snapshot.tree,
        ];
        let text = subject.repository.git().run(arguments)?;
        output::plain(&String::from_utf8_lossy(&text));
        Ok(())
    }
}
