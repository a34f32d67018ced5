//! Deciding alone, from a policy file: for people who start their agent themselves.

use std::fs;
use std::path::PathBuf;

use bailiwick_policy::call::Action;
use bailiwick_policy::decide::{decide_effects, wanted};
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::facts::Enforcement;
use bailiwick_policy::record::{FORMAT, KeptCall, Record};
use bailiwick_policy::{Decision, Effects, Policy};

use crate::arguments::{Alone, Told};
use crate::{ancestors, log, observe};

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
    let mut surroundings = observe::Surroundings::here(alone.root.as_deref())?;
    // The agent's tools for files run in its own process, outside of any sandbox.
    let call = told.dialect.read(payload, &told.servers);
    if call.is_ok_and(|call| matches!(call.action, Action::Shell(_))) {
        surroundings = surroundings.with_enforcement(enforcement(alone));
    }
    let record =
        judged(&policy, &alone.digest, (told.dialect, &told.servers), payload, &surroundings);
    if let Some(log) = &alone.log {
        log::append(log, &record)?;
    }
    Ok(record.decision)
}

/// Who holds the limits on paths for shell commands: the sandbox only where one has run a command of this agent.
fn enforcement(alone: &Alone) -> Enforcement {
    let recorded = |directory: &PathBuf| {
        ancestors::above().iter().any(|process| directory.join(process.mark()).is_file())
    };
    if alone.record.as_ref().is_some_and(recorded) { Enforcement::Kernel } else { alone.commands }
}

/// Looks up what a decision has to know, and decides. `digest` is the policy's; the dialect comes with
/// the names of MCP servers that it cannot tell by itself.
pub fn judged(
    policy: &Policy,
    digest: &str,
    (dialect, servers): (Dialect, &[String]),
    payload: &[u8],
    surroundings: &observe::Surroundings,
) -> Record {
    let mut facts = surroundings.facts();
    let (call, decision) = match dialect.read(payload, servers) {
        Ok(call) => {
            let effects = Effects::of(&call);
            observe::look_up(&wanted(&call, &effects, &facts), &call, &mut facts);
            let decision = decide_effects(policy, &call, &effects, &facts);
            (KeptCall::of(&call), decision)
        }
        Err(error) => {
            let reason = error.to_string();
            (KeptCall::unreadable(&reason), Decision::unreadable(reason))
        }
    };
    let (at, policy) = (log::now(), digest.to_owned());
    Record { format: FORMAT, at, policy, dialect, call, facts, decision }
}
