//! Claims and reservations in the comments of one issue, for accounts that may write issues but no references.
//!
//! Each comment is a change of the table, made in the order of the comments' ids. So everybody who reads the same
//! comments comes to the same table. A claim is taken as a whole or refused, and never grows: nobody holds one part
//! while it waits for another, so there is no deadlock.
//!
//! A comment can become visible after one with a larger id. So a change counts for its author only when the comments
//! were read again some seconds after it was written, and the fence is read once more when the work lands.

use std::collections::BTreeMap;

use bailiwick_resources::Moment;

use crate::claim_snapshot::ClaimSnapshot;
use crate::claim_table::{ClaimRefusal, ClaimRequest, ClaimTable, TableClaim};
use crate::event::{Event, EventKind, TaskClaim, TokenClaim};
use crate::issue::Trust;
use crate::port::StateEvent;
use crate::recorded::Recorded;
use crate::reservation::{GivenBack, ReservationRequest};

/// How much later than it read the budget a machine may ask for tokens of it.
const MAX_BUDGET_AGE_MS: u64 = 10 * 60 * 1000;
/// How long after it was given back a reservation is part of a snapshot: longer than a machine may have read the budget
/// before it asks, with clocks that differ.
const GIVEN_BACK_MS: u64 = 3 * MAX_BUDGET_AGE_MS;
/// How long a reservation that is over is kept. A machine that still works then is lost.
const MAX_OVER_MS: u64 = 24 * 60 * 60 * 1000;

/// Where the claims of a repository are. All machines must use the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimStore {
    /// On a reference, which the account must be allowed to write.
    Reference,
    /// In the comments of one issue.
    Comments {
        issue: u64,
        /// How long after its creation a comment with a smaller id can become visible, in milliseconds.
        settle_ms: u64,
    },
}

/// A release of something that is no live claim; it has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRelease {
    pub comment: u64,
    pub claim: u64,
}

/// The table that the comments of an issue lead to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimLog {
    pub table: ClaimTable,
    /// The comment of the last change; zero if there is none.
    pub last_change: u64,
    pub unknown: Vec<UnknownRelease>,
    /// The fence or the tokens that each comment got.
    outcomes: BTreeMap<u64, Result<u64, ClaimRefusal>>,
    /// Reservations that were given back, oldest first.
    given_back: Vec<GivenBack>,
    /// When the last change was made that is part of the snapshot.
    begun_at: Moment,
}

impl ClaimLog {
    /// Makes all changes. Closing the issue revokes the claims before it, also when it is opened again. `is_over` says
    /// that it is closed or locked: a lock only suspends the claims.
    pub fn read(events: &[Recorded], trust: &Trust, states: &[StateEvent], is_over: bool) -> Self {
        Self::read_after(None, events, trust, states, is_over)
    }

    /// The same with the changes before a snapshot, which has been made.
    pub(crate) fn read_after(
        snapshot: Option<&ClaimSnapshot>,
        events: &[Recorded],
        trust: &Trust,
        states: &[StateEvent],
        is_over: bool,
    ) -> Self {
        let (mut log, is_closed_since) = Self::begin(snapshot).with(events, trust, states);
        if is_over || is_closed_since {
            log.table.claims.clear();
        }
        log
    }

    /// A snapshot of the table after these changes, to which those of an earlier one belong.
    pub(crate) fn snapshot_after(
        earlier: Option<&ClaimSnapshot>,
        events: &[Recorded],
        trust: &Trust,
        states: &[StateEvent],
    ) -> Option<ClaimSnapshot> {
        let last = events.last()?;
        // A closing after the last change is found again by a reader that continues here.
        let (log, _) = Self::begin(earlier).with(events, trust, states);
        let mut given_back = log.given_back;
        given_back.retain(|one| last.at <= one.at.plus_millis(GIVEN_BACK_MS));
        Some(ClaimSnapshot { up_to: last.comment, at: last.at, table: log.table, given_back })
    }

    fn begin(snapshot: Option<&ClaimSnapshot>) -> Self {
        snapshot.map_or_else(Self::default, |snapshot| Self {
            table: snapshot.table.clone(),
            last_change: snapshot.up_to,
            given_back: snapshot.given_back.clone(),
            begun_at: snapshot.at,
            ..Self::default()
        })
    }

    /// Makes these changes, and says whether the issue was closed after the last one.
    fn with(mut self, events: &[Recorded], trust: &Trust, states: &[StateEvent]) -> (Self, bool) {
        let is_closing = |state: &&StateEvent| !state.is_open && state.at >= self.begun_at;
        let mut closings: Vec<Moment> =
            states.iter().filter(is_closing).map(|state| state.at).collect();
        closings.sort_unstable();
        let mut closings = closings.into_iter().peekable();
        for recorded in events {
            while closings.next_if(|closed_at| *closed_at < recorded.at).is_some() {
                self.table.claims.clear();
            }
            self.apply(recorded, trust);
        }
        (self, closings.next().is_some())
    }

    /// The fence or the tokens that a comment got; nothing if it is no change of the table.
    pub fn outcome(&self, comment: u64) -> Option<Result<u64, ClaimRefusal>> {
        self.outcomes.get(&comment).cloned()
    }

    /// A fence is the id of a comment, so only the first change of a comment counts.
    fn apply(&mut self, recorded: &Recorded, trust: &Trust) {
        let event = &recorded.event;
        if recorded.comment == self.last_change {
            return;
        }
        let outcome = if let Some(claim) = event.claim() {
            self.claim(recorded, &claim)
        } else if let Some(tokens) = event.token_claim() {
            self.reserve(recorded, tokens)
        } else if event.kind == EventKind::TaskClaimRelease {
            self.release(recorded, trust)
        } else {
            return;
        };
        self.last_change = recorded.comment;
        self.outcomes.insert(recorded.comment, outcome);
    }

    fn claim(&mut self, recorded: &Recorded, claim: &TaskClaim) -> Result<u64, ClaimRefusal> {
        let (agent, at) = (&recorded.event.agent, recorded.at);
        let lease_ms = claim.lease_s.saturating_mul(1000);
        if let Some(fence) = claim.renews {
            let is_own = |old: &TableClaim| old.agent == *agent && old.resources == claim.resources;
            let own = self.table.claims.iter().find(|old| old.fence == fence);
            own.filter(|old| is_own(old)).ok_or(ClaimRefusal::Lost(fence))?;
            self.table = self.table.renew(fence, at, lease_ms)?;
            return Ok(fence);
        }
        let request = ClaimRequest {
            agent: agent.clone(),
            invocation: invocation(&recorded.event),
            issue: claim.for_issue,
            resources: claim.resources.clone(),
            lease_ms,
            takes_over: claim.takes_over.clone(),
        };
        let (table, fence) =
            self.table.clone().starting_at(recorded.comment).acquire(&request, at, false)?;
        self.table = table;
        Ok(fence)
    }

    fn reserve(&mut self, recorded: &Recorded, tokens: TokenClaim) -> Result<u64, ClaimRefusal> {
        let request = ReservationRequest {
            issue: tokens.for_issue,
            agent: recorded.event.agent.clone(),
            invocation: invocation(&recorded.event),
            tokens: tokens.tokens,
            lease_ms: tokens.lease_s.saturating_mul(1000),
        };
        let is_over = |until: Moment| until.plus_millis(MAX_OVER_MS) <= recorded.at;
        self.table.reservations.retain(|one| {
            !tokens.settled.contains(&one.invocation) && !is_over(one.reserved_until)
        });
        // What was given back after its author had read the budget may not be counted as used there yet.
        let mut seen = self.table.clone();
        let late = self.given_back.iter().filter(|one| {
            one.comment > tokens.seen && !tokens.settled.contains(&one.reservation.invocation)
        });
        seen.reservations.extend(late.map(|one| one.reservation.clone()));
        // A snapshot does not say any more what was given back since then.
        let read_at = recorded.event.timestamp.unwrap_or(recorded.at);
        if read_at.plus_millis(MAX_BUDGET_AGE_MS) < recorded.at {
            let reserved = seen.reserved(request.issue, &request.invocation, recorded.at);
            return Err(ClaimRefusal::NoTokens { remaining: tokens.remaining, reserved });
        }
        let (reserved, given) = seen.reserve(&request, tokens.remaining, recorded.at)?;
        let own =
            reserved.reservations.into_iter().find(|one| one.invocation == request.invocation);
        self.table.reservations.retain(|one| one.invocation != request.invocation);
        self.table.reservations.extend(own);
        Ok(given)
    }

    fn release(&mut self, recorded: &Recorded, trust: &Trust) -> Result<u64, ClaimRefusal> {
        let event = &recorded.event;
        if let Some(invocation) = event.token_release() {
            let own = self.table.reservations.iter().find(|one| one.invocation == invocation);
            self.given_back.extend(own.map(|one| GivenBack {
                comment: recorded.comment,
                at: recorded.at,
                reservation: one.clone(),
            }));
            self.table.reservations.retain(|one| one.invocation != invocation);
            return Ok(0);
        }
        let fence = event.release().map(|release| release.claim).unwrap_or_default();
        let may = |claim: &TableClaim| {
            claim.agent == event.agent
                || trust.orchestrators.contains(&event.agent)
                || trust.people.contains(&recorded.author)
        };
        let found = self.table.claims.iter().find(|claim| claim.fence == fence);
        if !found.is_some_and(may) {
            self.unknown.push(UnknownRelease { comment: recorded.comment, claim: fence });
            return Err(ClaimRefusal::Lost(fence));
        }
        self.table.claims.retain(|claim| claim.fence != fence);
        Ok(fence)
    }
}

/// Claims that are not made by a run are told apart by their agents.
fn invocation(event: &Event) -> String {
    event.invocation_id.clone().unwrap_or_else(|| event.agent.clone())
}

impl ClaimRequest {
    /// The event that asks for it, or renews the claim with this fence.
    pub(crate) fn event(&self, renews: Option<u64>, at: Moment) -> Event {
        let claim = TaskClaim {
            resources: self.resources.clone(),
            lease_s: self.lease_ms.div_ceil(1000),
            renews,
            for_issue: self.issue,
            takes_over: self.takes_over.clone(),
        };
        let mut event = Event::new(EventKind::TaskClaim, &self.agent).with_claim(&claim);
        event.invocation_id = Some(self.invocation.clone());
        event.timestamp = Some(at);
        event
    }
}
