//! `bailiwick stop`: ends an agent; its work stays.

use bailiwick_engine::agent_names;
use bailiwick_engine::context::Context;
use bailiwick_engine::running::{control, recover};
use bailiwick_model::AgentId;
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Stop running agents; their work is kept
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick stop fix-42\n  bailiwick stop fix-42 fix-43")]
pub struct Stop {
    /// The agents
    #[arg(required = true)]
    agents: Vec<AgentId>,
    /// The reason, recorded with the run
    #[arg(long, value_name = "TEXT", default_value = "stopped by hand")]
    reason: String,
    #[command(flatten)]
    format: FormatOption,
}

/// An agent that was stopped, for programs.
#[derive(Debug, Serialize)]
struct Stopped {
    agent_id: String,
    reason: String,
}

impl Stop {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        recover::record_interrupted_runs(context)?;
        let mut stopped = Vec::new();
        for name in &self.agents {
            let agent = &agent_names::require(context, name)?;
            control::stop(context, agent, &self.reason)?;
            let reason = self.reason.clone();
            stopped.push(Stopped { agent_id: agent.to_string(), reason });
            if self.format.format == Format::Human {
                output::line(format_args!("stopped   {agent}"));
                output::next_step(format_args!(
                    "resume it: bailiwick resume {agent}{}",
                    context.global_options
                ));
            }
        }
        match self.format.format {
            Format::Human => Ok(()),
            Format::Json => output::json(&stopped),
        }
    }
}
