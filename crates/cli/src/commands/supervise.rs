//! `bailiwick supervise`: the background half of `run -d`. Nobody calls it by hand.

use std::io::Read as _;

use bailiwick_engine::context::Context;
use bailiwick_engine::options::IfClosed;
use bailiwick_engine::running::Start;
use bailiwick_engine::running::service::RunRequest;
use bailiwick_model::AgentId;
use clap::Args;

use super::options::RunArguments;
use super::resume::Raised;
use super::run::run_and_print;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Format;

/// Supervise a spawned run in the background
#[derive(Debug, Args)]
#[command(hide = true, after_help = "Example:\n  bailiwick supervise fix-42")]
pub struct Supervise {
    /// The agent
    agent: AgentId,
    /// Resume it; the message is read from standard input
    #[arg(long)]
    resume: bool,
    /// Resume it on behalf of a person, even if an agent had closed it
    #[arg(long)]
    by_person: bool,
    #[command(flatten)]
    budget: Raised,
    #[command(flatten)]
    arguments: RunArguments,
}

impl Supervise {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        interrupt::begin();
        let start = match self.resume {
            false => Start::Fresh,
            true => Start::Resume(Some(words()?).filter(|words| !words.is_empty())),
        };
        let if_closed = if self.by_person { IfClosed::Begin } else { IfClosed::Refuse };
        let (options, budget) = (self.arguments.into(), self.budget.allowance());
        let request = RunRequest { start, options, budget, if_closed, quiet: false };
        run_and_print(context, &self.agent, &request, Format::Human)
    }
}

fn words() -> Result<String, Failure> {
    let mut words = String::new();
    let read = std::io::stdin().read_to_string(&mut words);
    read.map_err(|error| Failure::general(format!("its input cannot be read: {error}")))?;
    Ok(words)
}
