//! The end of an attempt: its work is sent, and its end is reported.

use std::path::Path;
use std::time::{Duration, Instant};

use bailiwick_fleet::workers::{AttemptSummary, FinishReport, ProgressReport, WorkClaim};
use bailiwick_model::AgentId;
use bailiwick_model::event::ExitReason;

use super::attempts::{Attempts, Dropped, KeptAttempt, blocking};
use super::repository::{self, WorkFailure};
use crate::context::Context;
use crate::failure::Failure;
use crate::messages::final_message;

/// How soon it is tried again to read and pack the work: at first, and at most.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// What the server has of an attempt that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandedOver {
    Everything,
    /// The work could not be packed: its files must stay here.
    WithoutWork,
}

impl Attempts {
    /// Sends the work, and reports the end. The last report is repeated meanwhile: an empty one would erase the cost.
    pub(super) async fn hand_over(
        &self,
        kept: &KeptAttempt,
        last: &ProgressReport,
    ) -> Result<HandedOver, Dropped> {
        let lease = (&kept.lease, kept.lease_millis);
        self.with_lease(lease, last, self.send_the_end(kept)).await
    }

    async fn send_the_end(&self, kept: &KeptAttempt) -> Result<HandedOver, Dropped> {
        let agent = kept.lease.agent.as_str();
        let (bundle, mut finish, handed_over) = match self.read_the_end(kept).await {
            Ok((bundle, finish)) => (bundle, finish, HandedOver::Everything),
            Err(error @ WorkFailure::Work(_)) => {
                (Vec::new(), failed(error.to_string()), HandedOver::Everything)
            }
            Err(WorkFailure::Machine(failure)) => {
                let why = failure.in_one_line();
                let files = repository::worktree(&self.context_in(kept), agent);
                let detail = format!(
                    "its worker cannot pack its work, and keeps its files in {}: {why}",
                    files.display()
                );
                self.context.notices.note(format_args!("{agent}: {detail}"));
                (Vec::new(), failed(detail), HandedOver::WithoutWork)
            }
        };
        // Another worker may begin it only if nothing of it runs here.
        finish.not_begun = finish.not_begun && !self.is_running(agent).await;
        self.end(&kept.lease, bundle, finish).await?;
        Ok(handed_over)
    }

    /// How an attempt ended here, with its work. It is tried again for a while: the work is complete, and a disk that is
    /// full now can have room soon.
    async fn read_the_end(
        &self,
        kept: &KeptAttempt,
    ) -> Result<(Vec<u8>, FinishReport), WorkFailure> {
        let deadline = Instant::now() + self.follow_limits.packing;
        let mut backoff = MIN_BACKOFF;
        loop {
            let (context, directory) = (self.context_in(kept), self.directory.clone());
            let agent = kept.lease.agent.clone();
            let ended = blocking(move || Ok(ending(&context, &agent, &directory))).await;
            match ended? {
                Err(WorkFailure::Machine(failure)) if Instant::now() + backoff < deadline => {
                    let (agent, why) = (&kept.lease.agent, failure.in_one_line());
                    self.context.notices.note(format_args!("{agent}: {why}; trying again"));
                }
                ended => return ended,
            }
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }
}

/// The end of what failed here.
pub(super) fn failed(detail: String) -> FinishReport {
    FinishReport {
        ending: ExitReason::Failed,
        detail,
        summary: AttemptSummary::default(),
        work: None,
        evidence: None,
        not_begun: false,
    }
}

/// What could not be prepared here: another worker can begin it.
pub(super) fn not_begun(detail: String) -> FinishReport {
    FinishReport { not_begun: true, ..failed(detail) }
}

/// How an attempt ended here, with its work if it was completed.
fn ending(
    context: &Context,
    agent: &str,
    directory: &Path,
) -> Result<(Vec<u8>, FinishReport), WorkFailure> {
    let id = AgentId::parse(agent).map_err(|error| Failure::general(error.to_string()))?;
    let attempts = context.with_store(async |store| Ok(store.attempts(Some(&id)).await?))?;
    let Some(last) = attempts.last() else {
        let why = "its supervisor ended before its agent was started";
        return Ok((Vec::new(), not_begun(why.to_owned())));
    };
    let summary = AttemptSummary {
        cli: last.cli.clone(),
        version: last.version.clone(),
        model: last.model.clone(),
        login: last.login.clone(),
        sandbox: last.sandbox.clone(),
    };
    let ending = last.ending.unwrap_or(ExitReason::CutOff);
    if ending != ExitReason::Completed {
        return Ok((Vec::new(), FinishReport { ending, summary, ..failed(last.detail.clone()) }));
    }
    let detail = final_message(context, &id, last)?;
    let (work, bundle): (WorkClaim, Vec<u8>) = repository::work(context, &id, directory)?;
    Ok((bundle, FinishReport { ending, summary, work: Some(work), ..failed(detail) }))
}
