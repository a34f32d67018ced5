//! Tokens of an issue that a run reserves, on all machines.

use bailiwick_lifecycle::supervision::Budget;
use bailiwick_memory::{ClaimError, ClaimRefusal, MemoryError, ReservationRequest};
use bailiwick_model::{AgentId, IssueName};

use super::EnteredIssue;
use crate::context::Context;
use crate::failure::Failure;
use crate::issues;
use crate::running::{LockedRun, usage};

/// How long a run without a time limit has its tokens if its machine is lost.
const RESERVATION_LEASE_MS: u64 = 24 * 60 * 60 * 1000;
/// How much longer than its time limit a run has them: its work is checked after it.
const RESERVATION_MARGIN_MS: u64 = 60 * 60 * 1000;

/// Reserves tokens for a run, on all machines.
pub(super) fn reserve(
    running: &LockedRun,
    entered: &EnteredIssue,
    opened: &issues::OpenIssues,
) -> Result<u64, Failure> {
    let task = &running.subject.bound.task;
    let used = usage::total(&running.earlier).tokens;
    let own = Budget::of_run(&task.budget).0.tokens;
    let minutes = task.budget.minutes;
    let request = ReservationRequest {
        issue: entered.issue.number,
        agent: entered.run.to_string(),
        invocation: entered.invocation.clone(),
        // Where the run itself may use less, others may use the rest.
        tokens: own.map(|tokens| tokens.saturating_sub(used)),
        lease_ms: minutes.map_or(RESERVATION_LEASE_MS, |minutes| {
            minutes.saturating_mul(60_000).saturating_add(RESERVATION_MARGIN_MS)
        }),
    };
    let issue = &entered.issue;
    let reserved = opened.with(async |protocol| Ok(protocol.reserve(&request).await))?;
    reserved.map_err(|error| match error {
        ClaimError::Refused(ClaimRefusal::NoTokens { .. }) if request.tokens == Some(0) => {
            Failure::refused(format!("`{}` has used the tokens of its own budget", running.id))
        }
        ClaimError::Refused(refusal) => no_tokens(&running.id, issue, &refusal),
        ClaimError::Forge(error @ MemoryError::Refused(_)) => {
            Failure::refused(format!("tokens of {issue} cannot be reserved: {error}"))
                .help(
                    "allow the token to write to the repository (`write:repository` on Gitea), or name an issue for \
                     claims: `claimsIssue` of the Repository",
                )
        }
        ClaimError::Forge(error) => issues::failure(error),
    })
}

impl EnteredIssue {
    /// Releases its reservation. After its result is stored, so that the tokens are never counted as free in
    /// between.
    pub(super) fn unreserve(
        &self,
        context: &Context,
        opened: &issues::OpenIssues,
    ) -> Result<(), Failure> {
        let released =
            opened.with(async |protocol| Ok(protocol.unreserve(&self.invocation).await))?;
        issues::note_release(context, released.map_err(Failure::refused_by)?);
        Ok(())
    }
}

pub(super) fn no_tokens(run: &AgentId, issue: &IssueName, refusal: &ClaimRefusal) -> Failure {
    Failure::refused(format!("`{run}` cannot work on {issue}: {refusal}"))
        .help("wait until they have ended, or raise it: bailiwick memory budget")
}
