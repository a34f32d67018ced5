//! Claims on one reference: the whole table is changed by compare-and-swap, so that a claim on several paths is taken
//! as a whole, paths that contain each other exclude each other, and two machines never both win.

use std::collections::BTreeMap;

use bailiwick_resources::Moment;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::reservation::{Reservation, ReservationRequest};
use crate::resource::{Resource, overlap};

/// The reference that has the table.
pub const CLAIMS_REF: &str = "refs/bailiwick/claims";
/// The only version that there is.
const VERSION: u32 = 1;
/// How long a claim that has ended is still listed, in milliseconds.
const MAX_LISTED_MS: u64 = 24 * 60 * 60 * 1000;
/// How many versions of migrations are remembered. Earlier ones are refused. A snapshot has room for as many.
const MAX_VERSIONS: usize = 256;

/// All claims of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimTable {
    version: u32,
    next_fence: u64,
    pub claims: Vec<TableClaim>,
    /// Tokens that runs may still use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<Reservation>,
    /// The versions of migrations that were ever claimed, with the invocations that did: work that has landed has used
    /// its version, although nobody claims it any more.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    versions: BTreeMap<String, String>,
}

/// An exclusive lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableClaim {
    /// Larger than that of every claim before it.
    pub fence: u64,
    pub agent: String,
    pub invocation: String,
    pub issue: Option<u64>,
    pub resources: Vec<Resource>,
    pub claimed_at: Moment,
    pub leased_until: Moment,
}

/// What an agent wants to have alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    pub agent: String,
    pub invocation: String,
    pub issue: Option<u64>,
    pub resources: Vec<Resource>,
    pub lease_ms: u64,
    /// Claims of runs that handed the same issue on: they end when this one is taken.
    pub takes_over: Vec<u64>,
}

impl ClaimRequest {
    /// Only within one issue: its next run continues the work.
    fn replaces(&self, claim: &TableClaim) -> bool {
        self.issue.is_some() && self.issue == claim.issue && self.takes_over.contains(&claim.fence)
    }
}

/// Why a table or a claim cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClaimRefusal {
    #[error("`{agent}` has {resource} until {until} (claim {fence})")]
    Held {
        agent: String,
        /// Other machines may have a run of the same name: this tells them apart.
        invocation: String,
        fence: u64,
        resource: Resource,
        claimed_at: Moment,
        until: Moment,
    },
    #[error("claim {0} has ended, or somebody else has taken its paths since")]
    Lost(u64),
    #[error("`{path}` is not part of claim {fence}")]
    Outside { fence: u64, path: String },
    #[error("a claim needs at least one path")]
    Empty,
    #[error("another run was assigned the migration version {0}, or a later one long ago")]
    VersionUsed(String),
    #[error("{remaining} tokens are left, and other runs may still use {reserved}")]
    NoTokens { remaining: u64, reserved: u64 },
    #[error("issue #{0}, which has the claims, is closed or locked; open it again")]
    Closed(u64),
    #[error("the table of claims cannot be read: {0}")]
    Malformed(String),
}

impl Default for ClaimTable {
    fn default() -> Self {
        Self {
            version: VERSION,
            next_fence: 1,
            claims: Vec::new(),
            reservations: Vec::new(),
            versions: BTreeMap::new(),
        }
    }
}

impl ClaimTable {
    pub fn parse(text: &str) -> Result<Self, ClaimRefusal> {
        let table: Self = serde_json::from_str(text)
            .map_err(|error| ClaimRefusal::Malformed(error.to_string()))?;
        if table.version != VERSION {
            return Err(ClaimRefusal::Malformed(format!("version {} is unknown", table.version)));
        }
        Ok(table)
    }

    pub fn render(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The table with the claim, and its fence. A repeated request of one invocation gets the claim that it has.
    pub fn acquire(
        &self,
        request: &ClaimRequest,
        now: Moment,
        fold_case: bool,
    ) -> Result<(Self, u64), ClaimRefusal> {
        if request.resources.is_empty() {
            return Err(ClaimRefusal::Empty);
        }
        let is_own = |claim: &&TableClaim| {
            claim.agent == request.agent
                && claim.invocation == request.invocation
                && claim.resources == request.resources
        };
        if let Some(own) = self.claims.iter().find(is_own) {
            return Ok((self.renew(own.fence, now, request.lease_ms)?, own.fence));
        }
        let versions = self.versions_with(request)?;
        let meets = |claim: &TableClaim| {
            let found = claim.resources.iter().find(|held| {
                request.resources.iter().any(|wanted| overlap(held, wanted, fold_case))
            });
            found.cloned()
        };
        let mut claims = Vec::new();
        for claim in &self.claims {
            match meets(claim) {
                Some(resource) if now < claim.leased_until && !request.replaces(claim) => {
                    let TableClaim { agent, invocation, fence, claimed_at, .. } = claim.clone();
                    let until = claim.leased_until;
                    return Err(ClaimRefusal::Held {
                        agent,
                        invocation,
                        fence,
                        resource,
                        claimed_at,
                        until,
                    });
                }
                // Its lease has ended or it is taken over, so its fence is lost with it.
                Some(_) => {}
                None if now.millis()
                    > claim.leased_until.millis().saturating_add(MAX_LISTED_MS) => {}
                None => claims.push(claim.clone()),
            }
        }
        let fence = self.next_fence;
        claims.push(TableClaim {
            fence,
            agent: request.agent.clone(),
            invocation: request.invocation.clone(),
            issue: request.issue,
            resources: request.resources.clone(),
            claimed_at: now,
            leased_until: now.plus_millis(request.lease_ms),
        });
        let (next_fence, reservations) = (fence.saturating_add(1), self.reservations.clone());
        Ok((Self { version: VERSION, next_fence, claims, reservations, versions }, fence))
    }

    /// The versions with those of the request, which nobody else may have used.
    fn versions_with(
        &self,
        request: &ClaimRequest,
    ) -> Result<BTreeMap<String, String>, ClaimRefusal> {
        let mut versions = self.versions.clone();
        for version in request.resources.iter().filter_map(Resource::version) {
            let used = || ClaimRefusal::VersionUsed(version.to_owned());
            match versions.get(version) {
                Some(by) if *by == request.invocation => continue,
                Some(_) => return Err(used()),
                None => {}
            }
            let is_full = self.versions.len() >= MAX_VERSIONS;
            let is_forgotten = |first: &String| is_full && version < first.as_str();
            if self.versions.keys().next().is_some_and(is_forgotten) {
                return Err(used());
            }
            versions.insert(version.to_owned(), request.invocation.clone());
        }
        while versions.len() > MAX_VERSIONS {
            versions.pop_first();
        }
        Ok(versions)
    }

    /// The table whose next claim has this fence, or a larger one.
    #[must_use]
    pub(crate) fn starting_at(mut self, fence: u64) -> Self {
        self.next_fence = self.next_fence.max(fence);
        self
    }

    /// The table with a longer lease. A lease that has ended can be renewed as long as nobody took its paths.
    pub fn renew(&self, fence: u64, now: Moment, lease_ms: u64) -> Result<Self, ClaimRefusal> {
        let mut table = self.clone();
        let claim = table.claims.iter_mut().find(|claim| claim.fence == fence);
        let claim = claim.ok_or(ClaimRefusal::Lost(fence))?;
        claim.leased_until = claim.leased_until.max(now.plus_millis(lease_ms));
        Ok(table)
    }

    /// The table without the claim; nothing if it had ended before.
    pub fn release(&self, fence: u64) -> Option<Self> {
        let mut table = self.clone();
        table.claims.retain(|claim| claim.fence != fence);
        (table != *self).then_some(table)
    }

    /// Whether work that changes these paths may land with this claim.
    pub fn check_fence(
        &self,
        fence: u64,
        paths: &[String],
        fold_case: bool,
    ) -> Result<(), ClaimRefusal> {
        let claim = self.claims.iter().find(|claim| claim.fence == fence);
        let claim = claim.ok_or(ClaimRefusal::Lost(fence))?;
        let outside = paths.iter().find(|path| {
            let file = Resource::file(path);
            !claim.resources.iter().any(|held| held.contains(&file, fold_case))
        });
        match outside {
            Some(path) => Err(ClaimRefusal::Outside { fence, path: path.clone() }),
            None => Ok(()),
        }
    }
}

/// What cannot be in a table that was only changed by this protocol. The table on a reference is not signed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TableProblem {
    #[error("claims {0} and {1} are both on {2}")]
    BothHeld(u64, u64, Resource),
    #[error("claim {0} has a number that was not given out")]
    UnknownFence(u64),
    #[error("claim {0} is on migration version {1}, which was assigned to another run or to none")]
    ForeignVersion(u64, String),
}

impl ClaimTable {
    /// What does not fit together at this time.
    pub fn problems(&self, now: Moment) -> Vec<TableProblem> {
        let mut problems = Vec::new();
        for (index, claim) in self.claims.iter().enumerate() {
            if claim.fence >= self.next_fence {
                problems.push(TableProblem::UnknownFence(claim.fence));
            }
            for version in claim.resources.iter().filter_map(Resource::version) {
                if self.versions.get(version) != Some(&claim.invocation) {
                    problems.push(TableProblem::ForeignVersion(claim.fence, version.to_owned()));
                }
            }
            if now >= claim.leased_until {
                continue;
            }
            let live = self.claims.iter().skip(index + 1).filter(|other| now < other.leased_until);
            problems.extend(live.filter_map(|other| {
                let is_on = |held: &&Resource| {
                    other.resources.iter().any(|wanted| overlap(held, wanted, false))
                };
                let shared = claim.resources.iter().find(is_on)?;
                Some(TableProblem::BothHeld(claim.fence, other.fence, shared.clone()))
            }));
        }
        problems
    }

    /// Tokens of an issue that others than this invocation may still use.
    pub fn reserved(&self, issue: u64, invocation: &str, now: Moment) -> u64 {
        let others = self.reservations.iter().filter(|one| {
            one.issue == issue && one.invocation != invocation && now < one.reserved_until
        });
        others.fold(0, |sum: u64, one| sum.saturating_add(one.tokens))
    }

    /// The table without the reservations of runs that have left a result: what they used is counted, and they use no
    /// more.
    #[must_use]
    pub fn without_settled(&self, has_result: impl Fn(&str) -> bool) -> Self {
        let mut table = self.clone();
        table.reservations.retain(|one| !has_result(&one.invocation));
        table
    }

    /// The table with the reservation, and its tokens. `remaining` is what the issue has left.
    pub fn reserve(
        &self,
        request: &ReservationRequest,
        remaining: u64,
        now: Moment,
    ) -> Result<(Self, u64), ClaimRefusal> {
        // A lost answer is found again, as it was given.
        if let Some(own) = self.reservations.iter().find(|one| one.invocation == request.invocation)
        {
            return Ok((self.clone(), own.tokens));
        }
        let reserved = self.reserved(request.issue, &request.invocation, now);
        let free = remaining.saturating_sub(reserved);
        let tokens = request.tokens.map_or(free, |tokens| tokens.min(free));
        if tokens == 0 {
            return Err(ClaimRefusal::NoTokens { remaining, reserved });
        }
        let mut table = self.clone();
        table.reservations.retain(|one| now < one.reserved_until);
        table.reservations.push(Reservation {
            issue: request.issue,
            agent: request.agent.clone(),
            invocation: request.invocation.clone(),
            tokens,
            reserved_at: now,
            reserved_until: now.plus_millis(request.lease_ms),
        });
        Ok((table, tokens))
    }

    /// The table without what an invocation had; nothing if it had nothing.
    pub fn unreserve(&self, invocation: &str) -> Option<Self> {
        let mut table = self.clone();
        table.reservations.retain(|one| one.invocation != invocation);
        (table != *self).then_some(table)
    }
}
