//! Deciding alone, from a policy file: for people who start their agent themselves.

use std::fs;

use bailiwick_policy::decide::{decide_effects, wanted};
use bailiwick_policy::record::{FORMAT, KeptCall, Record};
use bailiwick_policy::{Decision, Effects, Policy};

use crate::arguments::{Alone, Told};
use crate::{log, observe};

/// Decides, and appends the decision to the log; one that cannot be kept is a denial.
pub(crate) fn decide(told: &Told, alone: &Alone, payload: &[u8]) -> Decision {
    match decided(told, alone, payload) {
        Ok(decision) => decision,
        Err(problem) => Decision::unreadable(problem),
    }
}

fn decided(told: &Told, alone: &Alone, payload: &[u8]) -> Result<Decision, String> {
    let bytes = fs::read(&alone.policy).map_err(|error| {
        format!("the policy {} cannot be read: {error}", alone.policy.display())
    })?;
    let policy = Policy::read(&bytes, &alone.digest).map_err(|error| error.to_string())?;
    let surroundings = observe::Surroundings::here(alone.root.as_deref())?;
    let mut facts = surroundings.facts();
    let (call, decision) = match told.dialect.read(payload, &told.servers) {
        Ok(call) => {
            let effects = Effects::of(&call);
            observe::look_up(&wanted(&call, &effects, &facts), &call, &mut facts);
            let decision = decide_effects(&policy, &call, &effects, &facts);
            (KeptCall::of(&call), decision)
        }
        Err(error) => {
            let reason = error.to_string();
            (KeptCall::unreadable(&reason), Decision::unreadable(reason))
        }
    };
    if let Some(log) = &alone.log {
        let record = Record {
            format: FORMAT,
            at: log::now(),
            policy: alone.digest.clone(),
            dialect: told.dialect,
            call,
            facts,
            decision: decision.clone(),
        };
        log::append(log, &record)?;
    }
    Ok(decision)
}
