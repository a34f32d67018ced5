//! The end of an attempt: its work is sent, and its end is reported.

use bailiwick_fleet::workers::{AttemptSummary, FinishReport, ProgressReport, WorkClaim};
use bailiwick_model::AgentId;
use bailiwick_model::event::ExitReason;

use super::attempts::{Attempts, Dropped, KeptAttempt, blocking};
use super::repository;
use crate::context::Context;
use crate::failure::Failure;
use crate::messages::final_message;

impl Attempts {
    /// Sends the work, and reports the end. The last report is repeated meanwhile: an empty one would erase the cost.
    pub(super) async fn hand_over(
        &self,
        kept: &KeptAttempt,
        last: &ProgressReport,
    ) -> Result<(), Dropped> {
        let lease = (&kept.lease, kept.lease_millis);
        self.with_lease(lease, last, self.send_the_end(kept)).await
    }

    async fn send_the_end(&self, kept: &KeptAttempt) -> Result<(), Dropped> {
        let agent = kept.lease.agent.clone();
        let context = self.context_in(kept);
        let ended = blocking(move || ending(&context, &agent)).await;
        let (bundle, mut finish) =
            ended.unwrap_or_else(|failure| (Vec::new(), failed(failure.in_one_line())));
        // Another worker may begin it only if nothing of it runs here.
        finish.not_begun = finish.not_begun && !self.is_running(&kept.lease.agent).await;
        self.end(&kept.lease, bundle, finish).await
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
fn ending(context: &Context, agent: &str) -> Result<(Vec<u8>, FinishReport), Failure> {
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
    let (work, bundle): (WorkClaim, Vec<u8>) = repository::work(context, &id)?;
    Ok((bundle, FinishReport { ending, summary, work: Some(work), ..failed(detail) }))
}
