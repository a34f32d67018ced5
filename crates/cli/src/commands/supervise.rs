//! `bailiwick supervise`: the background half of `run -d`. Nobody calls it by hand.

use bailiwick_model::AgentId;
use clap::Args;

use super::run::{How, hold};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Format;
use crate::running::{Start, interrupt};

/// Hold a run that was spawned, in the background
#[derive(Debug, Args)]
#[command(hide = true, after_help = "Example:\n  bailiwick supervise fix-42")]
pub struct Supervise {
    /// The agent
    agent: AgentId,
    /// What it is told where it is taken up again
    #[arg(long)]
    resume: Option<Option<String>>,
    #[command(flatten)]
    how: How,
}

impl Supervise {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        interrupt::begin();
        let start = match self.resume {
            None => Start::Fresh,
            Some(words) => Start::Resume(words),
        };
        hold(context, &self.agent, &start, &self.how, None, Format::Human)
    }
}
