//! Rejecting an agent's work: it is kept, and lands nowhere.

use bailiwick_lifecycle::ports::{RunStore as _, Work as _};
use bailiwick_model::{AgentId, CommitId, RunStatus};
use bailiwick_source_control::git::REJECTED_MARKER;

use crate::failure::Failure;
use crate::running::next_step_hint;
use crate::verifying::AgentWork;
use crate::{claiming, system};

/// Keeps the work and updates the ledger; returns the commit that has it.
pub fn reject(
    subject: &AgentWork,
    agent: &AgentId,
    reason: Option<&str>,
) -> Result<Option<CommitId>, Failure> {
    if let Some(run) = &subject.run {
        run.status.may_become(RunStatus::Rejected).map_err(|_| {
            let text = match run.status {
                RunStatus::Rejected => format!("`{agent}` is rejected already"),
                RunStatus::Running | RunStatus::Done | RunStatus::Failed | RunStatus::Merged => {
                    format!("`{agent}` is {}, and cannot be rejected", run.state)
                }
            };
            Failure::refused(text).help(next_step_hint(run))
        })?;
    }
    let work = subject.work.clone();
    let reference = match work.and_then(|work| work.snapshot(&work.base()?)) {
        Ok(work) => {
            let name = format!("refs/bailiwick/kept/{agent}");
            note_rejection(subject, agent)?;
            subject.repository.git().run(["update-ref", &name, &work.commit])?;
            Some(work.commit)
        }
        // A worktree that is gone has nothing more to keep than its branch.
        Err(error) => {
            subject.context.notices.note(format_args!("only its branch is kept: {error}"));
            None
        }
    };
    subject.context.with_store(async |store| {
        Ok(store.change_status(agent, RunStatus::Rejected, reason).await?)
    })?;
    claiming::forge::release(&subject.context, agent);
    Ok(reference)
}

/// Notes beside the run, out of the agent's reach, that the reference which keeps its work is ours.
fn note_rejection(subject: &AgentWork, agent: &AgentId) -> Result<(), Failure> {
    let run = subject.context.state.join("runs").join(agent.as_str());
    if run.is_dir() {
        system::write_whole(&run.join(REJECTED_MARKER), "")?;
    }
    Ok(())
}
