//! Claims and reservations on a forge: a table on one reference, changed by compare-and-swap, or changes of it in the
//! comments of one issue, which count after a second reading.

use bailiwick_model::claim::ClaimOutcome;
use bailiwick_resources::Moment;

use crate::claim_log::ClaimStore;
use crate::claim_snapshot::ClaimSnapshot;
use crate::claim_table::{CLAIMS_REF, ClaimRefusal, ClaimRequest, ClaimTable, TableClaim};
use crate::event::{ClaimRelease, Event, EventKind, TokenClaim};
use crate::port::{IssueMemory, MemoryError, RefContent, RefSwap};
use crate::protocol::{Loaded, MAX_ATTEMPTS, Protocol};
use crate::reservation::ReservationRequest;

/// How often the table of claims is changed again after somebody else was faster.
const MAX_SWAPS: u32 = 400;
/// How often a comment of ours that is not listed is looked for.
const MAX_READS: u32 = 20;
/// How often tokens are asked for again after others gave some back.
const MAX_RESERVATIONS: u32 = 3;

/// Why a claim was not taken, renewed or checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    #[error(transparent)]
    Refused(#[from] ClaimRefusal),
    #[error(transparent)]
    Forge(#[from] MemoryError),
}

/// What became of a release that was done. Nothing of it loses an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleaseReport {
    /// Why the issue with the claims has no new snapshot.
    pub problem: Option<MemoryError>,
}

/// The issue that has the claims, and how long its comments are late.
#[derive(Clone, Copy)]
struct Place {
    issue: u64,
    settle_ms: u64,
}

impl<M: IssueMemory> Protocol<'_, M> {
    /// Takes a claim as a whole, and gives its fence.
    pub async fn claim(&self, request: &ClaimRequest, now: Moment) -> Result<u64, ClaimError> {
        match self.claim_store {
            ClaimStore::Reference => {
                self.change_claims(|table| {
                    table.acquire(request, now, false).map(|(table, fence)| (Some(table), fence))
                })
                .await
            }
            ClaimStore::Comments { issue, settle_ms } => {
                self.claim_by_comment(Place { issue, settle_ms }, request).await
            }
        }
    }

    /// Ends a claim. A claim that has ended is no error.
    pub async fn release(&self, fence: u64) -> Result<ReleaseReport, ClaimError> {
        match self.claim_store {
            ClaimStore::Reference => {
                self.change_claims(|table| Ok((table.release(fence), ReleaseReport::default())))
                    .await
            }
            ClaimStore::Comments { issue, settle_ms } => {
                let loaded = self.load_open(Place { issue, settle_ms }).await?;
                let Some(claim) = claim_of(&loaded, fence) else {
                    return Ok(ReleaseReport::default());
                };
                let release = ClaimRelease { claim: fence, outcome: ClaimOutcome::Done };
                let event =
                    Event::new(EventKind::TaskClaimRelease, &claim.agent).with_release(&release);
                let text = format!("## 🔓 Task Claim Release\n\n`{}` has ended.", claim.agent);
                self.post_event(issue, &text, event).await?;
                Ok(self.compact_after_release(issue, &loaded).await)
            }
        }
    }

    /// Writes a snapshot if it is time for one. It is only a copy, so the release counts without it.
    async fn compact_after_release(&self, issue: u64, loaded: &Loaded) -> ReleaseReport {
        ReleaseReport { problem: self.compact_claims(issue, loaded).await.err() }
    }

    /// Ends the claim of an invocation, whose fence may have been lost with the answer. A claim that has ended is no
    /// error; that the issue for claims is closed or locked is one, because then nobody can tell.
    pub async fn release_invocation(&self, invocation: &str) -> Result<ReleaseReport, ClaimError> {
        let table = match self.claim_store {
            ClaimStore::Reference => self.claims().await?,
            ClaimStore::Comments { issue, settle_ms } => {
                self.load_open(Place { issue, settle_ms }).await?.state.claims.table
            }
        };
        match table.claims.iter().find(|claim| claim.invocation == invocation) {
            Some(own) => self.release(own.fence).await,
            None => Ok(ReleaseReport::default()),
        }
    }

    /// Whether work that changes these paths may land; renews the claim, so that nobody takes it meanwhile.
    pub async fn require_claim(
        &self,
        fence: u64,
        paths: &[String],
        now: Moment,
        lease_ms: u64,
    ) -> Result<(), ClaimError> {
        match self.claim_store {
            ClaimStore::Reference => {
                self.change_claims(|table| {
                    table.check_fence(fence, paths, false)?;
                    Ok((Some(table.renew(fence, now, lease_ms)?), ()))
                })
                .await
            }
            ClaimStore::Comments { issue, settle_ms } => {
                let loaded = self.load_claims(issue).await?;
                loaded.state.claims.table.check_fence(fence, paths, false)?;
                let claim = claim_of(&loaded, fence).ok_or(ClaimRefusal::Lost(fence))?;
                let until = loaded.read.now.plus_millis(lease_ms / 2);
                // Nobody takes it before its lease has ended.
                if claim.leased_until > until {
                    return Ok(());
                }
                let request = ClaimRequest {
                    agent: claim.agent.clone(),
                    invocation: claim.invocation.clone(),
                    issue: claim.issue,
                    resources: claim.resources.clone(),
                    lease_ms,
                    takes_over: Vec::new(),
                };
                self.renew_by_comment(Place { issue, settle_ms }, &loaded, &request, fence)
                    .await
                    .map(drop)
            }
        }
    }

    /// Gives a run tokens of an issue that nobody else may use meanwhile. The issue is read after the table: a run that
    /// has left its result, and then its reservation, is counted in one of them.
    pub async fn reserve(&self, request: &ReservationRequest) -> Result<u64, ClaimError> {
        match self.claim_store {
            ClaimStore::Reference => self.reserve_on_reference(request).await,
            ClaimStore::Comments { issue, settle_ms } => {
                self.reserve_by_comment(Place { issue, settle_ms }, request).await
            }
        }
    }

    /// Gives back what a run has been given. A run that has nothing is no error.
    pub async fn unreserve(&self, invocation: &str) -> Result<ReleaseReport, ClaimError> {
        match self.claim_store {
            ClaimStore::Reference => {
                self.change_claims(|table| {
                    Ok((table.unreserve(invocation), ReleaseReport::default()))
                })
                .await
            }
            ClaimStore::Comments { issue, .. } => {
                let loaded = self.load_claims(issue).await?;
                let mut listed = loaded.state.claims.table.reservations.iter();
                let Some(own) = listed.find(|one| one.invocation == invocation) else {
                    return Ok(ReleaseReport::default());
                };
                let event = Event::new(EventKind::TaskClaimRelease, &own.agent)
                    .with_token_release(invocation);
                let text = format!("## 🔓 Task Claim Release\n\n`{}` needs no tokens.", own.agent);
                self.post_event(issue, &text, event).await?;
                Ok(self.compact_after_release(issue, &loaded).await)
            }
        }
    }

    /// All claims of the repository; a table that cannot be read is an error of the forge.
    pub async fn claim_table(&self) -> Result<ClaimTable, MemoryError> {
        self.claims().await.map_err(|error| match error {
            ClaimError::Forge(error) => error,
            ClaimError::Refused(refusal) => MemoryError::Refused(refusal.to_string()),
        })
    }

    /// All claims of the repository.
    pub async fn claims(&self) -> Result<ClaimTable, ClaimError> {
        match self.claim_store {
            ClaimStore::Reference => Ok(parsed(self.memory.read_ref(CLAIMS_REF).await?.as_ref())?),
            ClaimStore::Comments { issue, .. } => {
                Ok(self.load_claims(issue).await?.state.claims.table)
            }
        }
    }

    async fn claim_by_comment(
        &self,
        place: Place,
        request: &ClaimRequest,
    ) -> Result<u64, ClaimError> {
        let loaded = self.load_open(place).await?;
        let now = loaded.read.now;
        let (_, fence) = loaded.state.claims.table.acquire(request, now, false)?;
        let Some(own) = claim_of(&loaded, fence) else {
            let paths: Vec<String> = request.resources.iter().map(ToString::to_string).collect();
            let text =
                format!("## 🔒 Task Claim\n\n`{}` claims {}.", request.agent, paths.join(", "));
            return self.change_by_comment(place, &text, request.event(None, now)).await;
        };
        // Read again after it was written, and not nearly over.
        let is_settled = now >= own.claimed_at.plus_millis(place.settle_ms);
        if is_settled && own.leased_until >= now.plus_millis(request.lease_ms / 10 * 9) {
            return Ok(fence);
        }
        self.renew_by_comment(place, &loaded, request, fence).await
    }

    async fn renew_by_comment(
        &self,
        place: Place,
        loaded: &Loaded,
        request: &ClaimRequest,
        fence: u64,
    ) -> Result<u64, ClaimError> {
        let text = format!("## 🔒 Task Claim\n\n`{}` renews claim {fence}.", request.agent);
        let event = request.event(Some(fence), loaded.read.now);
        self.change_by_comment(place, &text, event).await
    }

    async fn reserve_by_comment(
        &self,
        place: Place,
        request: &ReservationRequest,
    ) -> Result<u64, ClaimError> {
        let mut refusal = ClaimRefusal::NoTokens { remaining: 0, reserved: 0 };
        for _ in 0..MAX_RESERVATIONS {
            let claims = self.load_open(place).await?;
            let log = &claims.state.claims;
            let loaded = self.load(request.issue).await?;
            let remaining = remaining(&loaded);
            let settled = |invocation: &&String| loaded.state.has_result(invocation);
            let reserved = log.table.reservations.iter().map(|one| &one.invocation);
            let claim = TokenClaim {
                for_issue: request.issue,
                tokens: request.tokens,
                remaining,
                lease_s: request.lease_ms.div_ceil(1000),
                seen: log.last_change,
                settled: reserved.filter(settled).cloned().collect(),
            };
            let open = log.table.without_settled(|run| loaded.state.has_result(run));
            open.reserve(request, remaining, claims.read.now)?;
            let mut event =
                Event::new(EventKind::TaskClaim, &request.agent).with_token_claim(&claim);
            event.invocation_id = Some(request.invocation.clone());
            event.timestamp = Some(claims.read.now);
            let text = format!(
                "## 🔒 Task Claim\n\n`{}` claims tokens of #{}.",
                request.agent, request.issue
            );
            match self.change_by_comment(place, &text, event).await {
                // Others reserved or gave back at the same time.
                Err(ClaimError::Refused(refused @ ClaimRefusal::NoTokens { .. })) => {
                    refusal = refused;
                }
                other => return other,
            }
        }
        Err(refusal.into())
    }

    /// The issue that has the claims, if it is open.
    async fn load_open(&self, place: Place) -> Result<Loaded, ClaimError> {
        let loaded = self.load_claims(place.issue).await?;
        require_open(&loaded)?;
        Ok(loaded)
    }

    /// The same with the outcome of a comment: a machine that slept reads all comments if a snapshot has this one.
    async fn load_open_with(&self, place: Place, comment: u64) -> Result<Loaded, ClaimError> {
        let loaded = self.load_open(place).await?;
        let snapshot = ClaimSnapshot::find(&loaded.read.issue, &self.trust);
        if snapshot.is_none_or(|snapshot| snapshot.is_before(comment)) {
            return Ok(loaded);
        }
        let loaded = self.load(place.issue).await?;
        require_open(&loaded)?;
        Ok(loaded)
    }

    /// Writes a change of the table, and tells what became of it when no earlier one can appear any more.
    async fn change_by_comment(
        &self,
        place: Place,
        text: &str,
        event: Event,
    ) -> Result<u64, ClaimError> {
        let comment = self.post_event(place.issue, text, event).await?;
        let settled_at = comment.created_at.plus_millis(place.settle_ms);
        let mut wait = place.settle_ms;
        for _ in 0..MAX_READS {
            self.memory.wait(wait).await;
            // The time is read before the comments.
            let loaded = self.load_open_with(place, comment.id).await?;
            let is_listed = loaded.comments.iter().any(|listed| listed.id == comment.id);
            if loaded.read.now >= settled_at && is_listed {
                let outcome = loaded.state.claims.outcome(comment.id).ok_or_else(|| {
                    MemoryError::Refused("the forge says that another account claimed".to_owned())
                })?;
                return Ok(outcome?);
            }
            wait = settled_at.millis().saturating_sub(loaded.read.now.millis()).max(500);
        }
        Err(MemoryError::Unavailable("the forge does not list the claim".to_owned()).into())
    }

    async fn reserve_on_reference(&self, request: &ReservationRequest) -> Result<u64, ClaimError> {
        let mut silences = 0;
        for attempt in 1..=MAX_SWAPS {
            let tried = async {
                let content = self.memory.read_ref(CLAIMS_REF).await?;
                let table = parsed(content.as_ref())?;
                let loaded = self.load(request.issue).await?;
                let open = table.without_settled(|run| loaded.state.has_result(run));
                let (changed, tokens) =
                    open.reserve(request, remaining(&loaded), loaded.read.now)?;
                if changed == table {
                    return Ok(Some(tokens));
                }
                let expected = content.as_ref().map(|content| content.version.as_str());
                let swapped = self.memory.swap_ref(CLAIMS_REF, expected, &changed.render()).await?;
                Ok(matches!(swapped, RefSwap::Done(_)).then_some(tokens))
            };
            match tried.await {
                Ok(Some(tokens)) => return Ok(tokens),
                Ok(None) => self.memory.back_off(attempt.min(6)).await,
                Err(ClaimError::Forge(MemoryError::Unavailable(_))) if silences < MAX_ATTEMPTS => {
                    silences += 1;
                    self.memory.back_off(silences).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(MemoryError::Unavailable("others changed the claims at the same time".to_owned())
            .into())
    }

    async fn change_claims<T>(
        &self,
        change: impl Fn(&ClaimTable) -> Result<(Option<ClaimTable>, T), ClaimRefusal>,
    ) -> Result<T, ClaimError> {
        let mut silences = 0;
        for attempt in 1..=MAX_SWAPS {
            let content = match self.memory.read_ref(CLAIMS_REF).await {
                Ok(content) => content,
                Err(MemoryError::Unavailable(_)) if silences < MAX_ATTEMPTS => {
                    silences += 1;
                    self.memory.back_off(silences).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let table = parsed(content.as_ref())?;
            let (changed, result) = change(&table)?;
            let Some(changed) = changed.filter(|changed| *changed != table) else {
                return Ok(result);
            };
            let expected = content.as_ref().map(|content| content.version.as_str());
            match self.memory.swap_ref(CLAIMS_REF, expected, &changed.render()).await {
                Ok(RefSwap::Done(_)) => return Ok(result),
                Ok(RefSwap::Moved) => self.memory.back_off(attempt.min(6)).await,
                // A lost answer is found again in the table by its invocation or fence.
                Err(MemoryError::Unavailable(_)) if silences < MAX_ATTEMPTS => {
                    silences += 1;
                    self.memory.back_off(silences).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(MemoryError::Unavailable("others changed the claims at the same time".to_owned())
            .into())
    }
}

/// Whether the issue with the claims is open.
fn require_open(loaded: &Loaded) -> Result<(), ClaimRefusal> {
    let issue = &loaded.read.issue;
    if issue.is_open && !issue.is_locked { Ok(()) } else { Err(ClaimRefusal::Closed(issue.number)) }
}

/// The tokens that an issue has left.
fn remaining(loaded: &Loaded) -> u64 {
    let checkpoint = loaded.state.checkpoint.as_ref();
    let remaining = checkpoint.map(|checkpoint| checkpoint.budget.remaining);
    u64::try_from(remaining.unwrap_or_default()).unwrap_or_default()
}

fn claim_of(loaded: &Loaded, fence: u64) -> Option<&TableClaim> {
    loaded.state.claims.table.claims.iter().find(|claim| claim.fence == fence)
}

fn parsed(content: Option<&RefContent>) -> Result<ClaimTable, ClaimRefusal> {
    content.map_or_else(|| Ok(ClaimTable::default()), |content| ClaimTable::parse(&content.text))
}
