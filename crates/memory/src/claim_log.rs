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
use crate::claim_table::{ClaimRefusal, ClaimTable, ClaimWish, TableClaim};
use crate::event::{Event, EventKind, TaskClaim, TokenClaim};
use crate::issue::Trust;
use crate::port::StateEvent;
use crate::recorded::Recorded;
use crate::reservation::{Reservation, ReservationWish};

/// How many reservations that were given back a snapshot has. Nobody writes a comment that much later than they read.
const MAX_GIVEN_BACK: usize = 200;

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
    /// Reservations that were given back, with the comment that did it.
    given_back: Vec<(u64, Reservation)>,
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
        let first = log.given_back.len().saturating_sub(MAX_GIVEN_BACK);
        let given_back = log.given_back.get(first..).unwrap_or_default().to_vec();
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
        let wish = ClaimWish {
            agent: agent.clone(),
            invocation: invocation(&recorded.event),
            issue: claim.for_issue,
            resources: claim.resources.clone(),
            lease_ms,
        };
        let (table, fence) =
            self.table.clone().starting_at(recorded.comment).acquire(&wish, at, false)?;
        self.table = table;
        Ok(fence)
    }

    fn reserve(&mut self, recorded: &Recorded, tokens: TokenClaim) -> Result<u64, ClaimRefusal> {
        let wish = ReservationWish {
            issue: tokens.for_issue,
            agent: recorded.event.agent.clone(),
            invocation: invocation(&recorded.event),
            tokens: tokens.tokens,
            lease_ms: tokens.lease_s.saturating_mul(1000),
        };
        self.table.reservations.retain(|one| !tokens.settled.contains(&one.invocation));
        // What was given back after its author had read the budget may not be counted as used there yet.
        let mut seen = self.table.clone();
        let late = self.given_back.iter().filter(|(comment, one)| {
            *comment > tokens.seen && !tokens.settled.contains(&one.invocation)
        });
        seen.reservations.extend(late.map(|(_, one)| one.clone()));
        let (reserved, given) = seen.reserve(&wish, tokens.remaining, recorded.at)?;
        let own = reserved.reservations.into_iter().find(|one| one.invocation == wish.invocation);
        self.table.reservations.retain(|one| one.invocation != wish.invocation);
        self.table.reservations.extend(own);
        Ok(given)
    }

    fn release(&mut self, recorded: &Recorded, trust: &Trust) -> Result<u64, ClaimRefusal> {
        let event = &recorded.event;
        if let Some(invocation) = event.token_release() {
            let own = self.table.reservations.iter().find(|one| one.invocation == invocation);
            self.given_back.extend(own.map(|one| (recorded.comment, one.clone())));
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

impl ClaimWish {
    /// The event that asks for it, or renews the claim with this fence.
    pub(crate) fn event(&self, renews: Option<u64>, at: Moment) -> Event {
        let claim = TaskClaim {
            resources: self.resources.clone(),
            lease_s: self.lease_ms.div_ceil(1000),
            renews,
            for_issue: self.issue,
        };
        let mut event = Event::new(EventKind::TaskClaim, &self.agent).with_claim(&claim);
        event.invocation_id = Some(self.invocation.clone());
        event.timestamp = Some(at);
        event
    }
}
