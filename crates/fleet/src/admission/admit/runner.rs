//! The choice of a runner pool. Untrusted work goes to an untrusted pool, no matter what was requested.

use bailiwick_resources::{Object, Reason, RunnerPool, TrustTier};

use super::{Admission, Refused, Step, refuse};
use crate::admission::snapshot::FrozenStack;
use crate::wildcards;

/// How full a pool is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// Running attempts.
    pub active: u32,
    /// Attempts that wait.
    pub queued: u32,
}

/// Whether a pool has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// It has.
    Free,
    /// It has none: that many are before it.
    Wait {
        /// How many.
        before: u32,
    },
}

/// Chooses the pool.
pub fn select_runner(
    admission: &Admission<'_>,
    frozen: &FrozenStack,
) -> Result<(Object<RunnerPool>, Placement), Box<Refused>> {
    let step = Step::SelectRunner;
    let pools = admission.inventory.readable::<RunnerPool>().map_err(|error| {
        refuse(step, Reason::AccessReviewUnavailable, "RunnerPool", error.to_string())
    })?;
    let request = &admission.request;
    let wanted = request
        .runner_pool
        .as_ref()
        .or(request.rule.and_then(|rule| rule.spec.runner_pool.as_ref()))
        .or(frozen.stack.spec.runner_pool.as_ref());
    let tier = admission.situation.trust_tier;
    let repository = &admission.situation.repository;
    let usable = |pool: &&Object<RunnerPool>| {
        pool.metadata.namespace == admission.namespace
            && pool.spec.trust_tier == tier
            && (pool.spec.allowed_repositories.is_empty()
                || wildcards::any(&pool.spec.allowed_repositories, repository))
    };
    let named = wanted.and_then(|name| pools.iter().find(|pool| pool.name() == name));
    if let (Some(name), None) = (wanted, named) {
        let message = "there is no such pool";
        return Err(refuse(step, Reason::ForbiddenRunner, name, message));
    }
    let chosen = match named {
        Some(pool) if usable(&pool) => Some(pool),
        // Trusted work stays in the requested pool; untrusted work is moved.
        Some(pool) if tier == TrustTier::Trusted => {
            let message = format!("the pool `{}` does not take this work", pool.name());
            return Err(refuse(step, Reason::ForbiddenRunner, pool.name(), message));
        }
        Some(_) | None => first(frozen, pools.iter().filter(usable)),
    };
    let Some(pool) = chosen else {
        let message = match tier {
            TrustTier::Untrusted => {
                "there is no untrusted pool, and untrusted work goes nowhere else"
            }
            TrustTier::Trusted => "there is no pool for this work",
        };
        return Err(refuse(step, Reason::ForbiddenRunner, "RunnerPool", message));
    };
    let used = admission.pools.get(pool.name()).copied().unwrap_or_default();
    // A paused pool starts nothing: new work waits.
    let room = !pool.spec.paused && used.active < pool.spec.capacity && used.queued == 0;
    let placement = if room { Placement::Free } else { Placement::Wait { before: used.queued } };
    Ok((pool.clone(), placement))
}

/// One that the identity may use and that is not paused, before others.
fn first<'a>(
    frozen: &FrozenStack,
    pools: impl Iterator<Item = &'a Object<RunnerPool>>,
) -> Option<&'a Object<RunnerPool>> {
    let account = frozen.service_account.as_ref();
    let mine = |pool: &Object<RunnerPool>| {
        account.is_some_and(|account| {
            account.spec.allowed_runner_pools.iter().any(|name| name == pool.name())
        })
    };
    pools.min_by_key(|pool| (!mine(pool), pool.spec.paused, pool.metadata.name.clone()))
}
