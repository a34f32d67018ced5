//! `bailiwick rollback`: reverts what a run has landed.

use bailiwick_engine::agent_names;
use bailiwick_engine::context::Context;
use bailiwick_engine::rollback::{self, RollbackFailure};
use bailiwick_lifecycle::verification::Progress;
use bailiwick_model::AgentId;
use clap::Args;

use super::options::CheckArguments;
use super::reason;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::view::verification::Live;

/// Revert what an agent has landed, by a commit on the target branch
///
/// The reverted tree must pass the checks of the agent's role that run code, unless it is the tree
/// that the branch had before. If later work changed the same lines, that is a conflict and nothing
/// moves.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick rollback fix-42 --reason 'slower than before'\n  \
                        bailiwick rollback fix-42 --unchecked")]
pub struct Rollback {
    /// The agent
    agent: AgentId,
    /// The reason, for the commit message
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Revert without running the checks, for example if they test what is removed
    #[arg(long)]
    unchecked: bool,
    #[command(flatten)]
    options: CheckArguments,
    #[command(flatten)]
    format: FormatOption,
}

impl Rollback {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let agent = agent_names::require(context, &self.agent)?;
        let format = self.format.format;
        let json = format == Format::Json;
        let rollback = rollback::Rollback::begin(context, &agent)?;
        let reason = reason::or_ask(self.reason, "why is it rolled back?", format);
        let checks = (!self.unchecked).then(|| self.options.into());
        let mut live = None;
        let mut tell = |progress: Progress<'_>| {
            live.get_or_insert_with(|| Live::start(json)).tell(&progress);
        };
        let done = rollback.revert(reason.as_deref(), checks, &mut tell);
        drop(live);
        let done = match done {
            Ok(done) => done,
            Err(RollbackFailure::Other(failure)) => return Err(failure.into()),
            Err(RollbackFailure::ChecksFailed(shown)) => {
                match format {
                    Format::Json => output::json(&shown)?,
                    Format::Human => output::print_verification(&shown),
                }
                output::next_step("the checks may be about what is taken away: --unchecked");
                return Err(Failure::AlreadyReported(2));
            }
        };
        if json {
            return output::json(&done);
        }
        let branch = done.branch.strip_prefix("refs/heads/").unwrap_or(&done.branch);
        output::line(format_args!(
            "rolled back  {agent} by {:.12} on {branch}; it had landed as {:.12}",
            done.commit, rollback.record.commit
        ));
        output::next_step(format_args!("bailiwick respawn {agent}{}", context.global_options));
        Ok(())
    }
}
