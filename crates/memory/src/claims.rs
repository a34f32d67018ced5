//! Claims in comments: exclusive leases on files, modules and migrations.
//!
//! A claim is taken as a whole or not at all, and never grows. So nobody holds one part while it waits for another,
//! and there is no deadlock; leases end, so nobody waits for ever.

use bailiwick_model::claim::ClaimOutcome;
use bailiwick_resources::Moment;

use crate::event::EventKind;
use crate::issue::Trust;
use crate::recorded::Recorded;
use crate::resource::{Resource, overlap};

/// A claim that was posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeClaim {
    /// The comment of the first claim: its place in the order, and its fence.
    pub id: u64,
    pub agent: String,
    pub invocation: Option<String>,
    pub resources: Vec<Resource>,
    pub claimed_at: Moment,
    pub leased_until: Moment,
    pub released: Option<ClaimOutcome>,
}

impl ForgeClaim {
    pub fn is_live(&self, now: Moment) -> bool {
        self.released.is_none() && now < self.leased_until
    }

    fn meets(&self, other: &Self, fold_case: bool) -> bool {
        self.resources
            .iter()
            .any(|one| other.resources.iter().any(|two| overlap(one, two, fold_case)))
    }
}

/// A release of something that is no live claim; it has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRelease {
    pub comment: u64,
    pub claim: u64,
}

/// All claims of the recorded events, in the order of their ids, and releases without effect. `is_over` says that the
/// issue is closed or locked, which revokes all its claims.
pub fn claims(
    events: &[Recorded],
    trust: &Trust,
    is_over: bool,
) -> (Vec<ForgeClaim>, Vec<UnknownRelease>) {
    let mut found: Vec<ForgeClaim> = Vec::new();
    let mut unknown = Vec::new();
    for recorded in events {
        if let Some(claim) = recorded.event.claim() {
            let leased_until = recorded.at.plus_millis(claim.lease_s.saturating_mul(1000));
            let renewed = claim.renews.and_then(|id| found.iter_mut().find(|old| old.id == id));
            match renewed {
                // A renewal is by the same agent, of the same resources, before the lease has ended.
                Some(old)
                    if old.agent == recorded.event.agent
                        && old.resources == claim.resources
                        && old.is_live(recorded.at) =>
                {
                    old.leased_until = old.leased_until.max(leased_until);
                }
                Some(_) | None => found.push(ForgeClaim {
                    id: recorded.comment,
                    agent: recorded.event.agent.clone(),
                    invocation: recorded.event.invocation_id.clone(),
                    resources: claim.resources,
                    claimed_at: recorded.at,
                    leased_until,
                    released: None,
                }),
            }
        }
        if recorded.event.kind == EventKind::TaskClaimRelease
            && let Some(release) = recorded.event.release()
        {
            let may = |claim: &ForgeClaim| {
                claim.agent == recorded.event.agent
                    || trust.orchestrators.contains(&recorded.event.agent)
                    || trust.people.contains(&recorded.author)
            };
            match found
                .iter_mut()
                .find(|claim| claim.id == release.claim && claim.released.is_none())
            {
                Some(claim) if may(claim) => claim.released = Some(release.outcome),
                Some(_) | None => {
                    unknown
                        .push(UnknownRelease { comment: recorded.comment, claim: release.claim });
                }
            }
        }
    }
    if is_over {
        for claim in found.iter_mut().filter(|claim| claim.released.is_none()) {
            claim.released = Some(ClaimOutcome::Revoked);
        }
    }
    (found, unknown)
}

/// What a claim gives its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// Nobody else has the resources.
    Held,
    /// This earlier claim has some of them.
    LostTo(u64),
    Expired,
    Released(ClaimOutcome),
    Unknown,
}

/// Whether a claim holds at this time, by the server's clock.
pub fn hold(claims: &[ForgeClaim], id: u64, now: Moment, fold_case: bool) -> Hold {
    let Some(own) = claims.iter().find(|claim| claim.id == id) else { return Hold::Unknown };
    if let Some(outcome) = own.released {
        return Hold::Released(outcome);
    }
    if !own.is_live(now) {
        return Hold::Expired;
    }
    let earlier = claims
        .iter()
        .find(|claim| claim.id < id && claim.is_live(now) && claim.meets(own, fold_case));
    earlier.map_or(Hold::Held, |claim| Hold::LostTo(claim.id))
}
