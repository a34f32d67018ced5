//! `bailiwick respawn`: a new run of a task, told what was wrong with the last.

use bailiwick_engine::context::Context;
use bailiwick_engine::{agent_names, respawning};
use bailiwick_model::AgentId;
use clap::Args;

use super::reason;
use super::spawn::print;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Prepare a new run of a task, with the reasons of the failure in its prompt
///
/// Rejects the previous run if it is not rejected, and keeps its work. Landed work must be rolled
/// back first. The new agent starts from `HEAD`, or from `--base`, with the same task and the
/// report of the last verification. Start it with `run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick respawn fix-42\n  bailiwick respawn fix-42 \
                        --agent-id fix-42-again --reason 'keep the old name'")]
pub struct Respawn {
    /// The agent whose task to try again
    agent: AgentId,
    /// The new agent's id; default: the previous id with a number. Required if a new run exists
    /// already
    #[arg(long, value_name = "ID")]
    agent_id: Option<AgentId>,
    /// Additional instructions for the new agent
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The commit to start from
    #[arg(long, value_name = "REVISION", default_value = "HEAD")]
    base: String,
    #[command(flatten)]
    format: FormatOption,
}

impl Respawn {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let former = agent_names::require(context, &self.agent)?;
        let respawn = respawning::Respawn::begin(context, &former, self.agent_id.as_ref())?;
        let reason = self.reason.clone().or_else(|| respawn.recorded_reason());
        let reason = match respawn.has_failed_checks() {
            true => reason,
            false => reason::or_ask(reason, "what was wrong with it?", self.format.format),
        };
        let spawned = respawn.spawn(self.agent_id, reason.as_deref(), &self.base)?;
        match self.format.format {
            Format::Json => output::json(&spawned),
            Format::Human => {
                print(&spawned, context);
                Ok(())
            }
        }
    }
}
