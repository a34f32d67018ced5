//! The runner pool that the runs of a stack would use.

use bailiwick_resources::{Object, Reason, RunnerPool};

use crate::admission::inventory::{Found, Inventory};
use crate::admission::snapshot::FrozenStack;

/// The pool that a stack names, or the first one that its identity may use. An error says why none of its runs can
/// start in any pool. None if the stack has no identity: that is reported elsewhere.
pub fn stack_pool(
    frozen: &FrozenStack,
    inventory: &Inventory,
) -> Result<Option<Object<RunnerPool>>, (Reason, String)> {
    let Some(account) = &frozen.service_account else { return Ok(None) };
    let allowed = &account.spec.allowed_runner_pools;
    let may_use = |pool: &str| allowed.iter().any(|name| name == pool);
    if let Some(name) = &frozen.stack.spec.runner_pool {
        let pool = match inventory.get::<RunnerPool>(frozen.namespace(), name) {
            Found::Here(pool) => *pool,
            Found::Missing => {
                let message = format!("there is no pool `{name}`; declare it, or name another one");
                return Err((Reason::ForbiddenRunner, message));
            }
            Found::Unknown(why) => return Err((Reason::AccessReviewUnavailable, why)),
        };
        return match may_use(name) {
            true => Ok(Some(pool)),
            false => {
                let message = format!(
                    "`{}` may not run in the pool `{name}`; add the pool to its allowedRunnerPools",
                    account.name()
                );
                Err((Reason::ServiceAccountCannotUseRunner, message))
            }
        };
    }
    let pools = inventory
        .readable::<RunnerPool>()
        .map_err(|error| (Reason::AccessReviewUnavailable, error.to_string()))?;
    let here = |pool: &Object<RunnerPool>| pool.metadata.namespace == frozen.namespace();
    match pools.into_iter().filter(here).find(|pool| may_use(pool.name())) {
        Some(pool) => Ok(Some(pool)),
        None => {
            let message = format!(
                "`{}` may run in no pool that is there; set its allowedRunnerPools",
                account.name()
            );
            Err((Reason::ServiceAccountCannotUseRunner, message))
        }
    }
}
