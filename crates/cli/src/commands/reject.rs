//! `bailiwick reject`: says no to an agent's work, and keeps it.

use bailiwick_engine::agent_names;
use bailiwick_engine::context::Context;
use bailiwick_engine::rejecting::reject;
use bailiwick_engine::verifying::{AgentWork, WorkOptions};
use bailiwick_model::{AgentId, CommitId};
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Reject an agent's work; its worktree and branch stay
///
/// All of its work, committed or not, is kept as a commit under refs/bailiwick/kept/AGENT, even
/// after the worktree is removed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick reject fix-42\n  bailiwick reject fix-42 --reason \
                        'solves another problem'")]
pub struct Reject {
    /// The agent
    agent: AgentId,
    /// The reason; `respawn` tells it to the next run
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Debug, Serialize)]
struct Rejected {
    agent_id: String,
    kept: Option<CommitId>,
    reason: Option<String>,
}

impl Reject {
    /// Runs the command.
    pub fn run(mut self, context: &Context) -> Result<(), Failure> {
        self.agent = agent_names::require(context, &self.agent)?;
        let subject = AgentWork::of_agent(context, &self.agent, &WorkOptions::default())?;
        let _lock = subject.lock(&self.agent)?;
        let kept = reject(&subject, &self.agent, self.reason.as_deref())?;
        let agent = &self.agent;
        if self.format.format == Format::Json {
            return output::json(&Rejected {
                agent_id: agent.to_string(),
                kept,
                reason: self.reason.clone(),
            });
        }
        output::line(format_args!("rejected  {agent}"));
        if let Some(commit) = kept {
            output::line(format_args!("kept      {commit:.12} as refs/bailiwick/kept/{agent}"));
        }
        let reason = if self.reason.is_some() { "" } else { " --reason 'WHAT WAS WRONG'" };
        output::next_step(format_args!(
            "bailiwick respawn {agent}{reason}{}",
            context.global_options
        ));
        Ok(())
    }
}
