//! `bailiwick reject`: says no to an agent's work, and keeps it.

use bailiwick_engine::context::Context;
use bailiwick_engine::running::way_on;
use bailiwick_engine::verifying::{Places, Subject};
use bailiwick_engine::{agent_names, system};
use bailiwick_lifecycle::ports::{RunStore as _, Work as _};
use bailiwick_model::{AgentId, RunStatus};
use bailiwick_source_control::git::REJECTED_MARKER;
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
    /// The reason; `respawn` tells it to the next attempt
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Debug, Serialize)]
struct Rejected {
    agent_id: String,
    kept: Option<String>,
    reason: Option<String>,
}

impl Reject {
    /// Does what was asked.
    pub fn run(mut self, context: &Context) -> Result<(), Failure> {
        self.agent = agent_names::require(context, &self.agent)?;
        let subject = Subject::of_agent(context, &self.agent, &Places::default())?;
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
        output::next_step(format_args!("bailiwick respawn {agent}{reason}{}", context.repeated));
        Ok(())
    }
}

/// Notes beside the run, out of the agent's reach, that the reference which keeps its work is ours.
fn note_rejection(subject: &Subject, agent: &AgentId) -> Result<(), Failure> {
    let run = subject.context.state.join("runs").join(agent.as_str());
    if run.is_dir() {
        system::write_whole(&run.join(REJECTED_MARKER), "")?;
    }
    Ok(())
}

/// Keeps the work and tells the ledger; gives the commit that has it.
pub(crate) fn reject(
    subject: &Subject,
    agent: &AgentId,
    reason: Option<&str>,
) -> Result<Option<String>, Failure> {
    if let Some(run) = &subject.run {
        run.status.may_become(RunStatus::Rejected).map_err(|_| {
            let text = match run.status {
                RunStatus::Rejected => format!("`{agent}` is rejected already"),
                RunStatus::Running | RunStatus::Done | RunStatus::Failed | RunStatus::Merged => {
                    format!("`{agent}` is {}, and cannot be rejected", run.state)
                }
            };
            Failure::usage(text).help(way_on(run))
        })?;
    }
    let work = subject.work.clone();
    let kept = match work.and_then(|work| work.snapshot(&work.base()?)) {
        Ok(work) => {
            let name = format!("refs/bailiwick/kept/{agent}");
            note_rejection(subject, agent)?;
            subject.repository.git().run(["update-ref", &name, &work.commit])?;
            Some(work.commit)
        }
        // A worktree that is gone has nothing more to keep than its branch.
        Err(error) => {
            output::note(format_args!("only its branch is kept: {error}"));
            None
        }
    };
    subject.context.with_store(async |store| {
        Ok(store.change_status(agent, RunStatus::Rejected, reason).await?)
    })?;
    Ok(kept)
}
