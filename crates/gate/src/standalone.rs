//! Decisions from a policy file, without a supervisor: for people who start their agent themselves.

use std::fs;
use std::path::PathBuf;

use bailiwick_policy::call::Action;
use bailiwick_policy::facts::Enforcement;
use bailiwick_policy::{Decision, Policy};

use crate::arguments::{Options, Standalone};
use crate::error::GateError;
use crate::evaluate::EvaluatedCall;
use crate::{ancestors, log, observe};

/// Decides, and appends the decision to the log; one that cannot be logged is a denial.
pub(crate) fn decide(options: &Options, standalone: &Standalone, payload: &[u8]) -> Decision {
    match try_decide(options, standalone, payload) {
        Ok(decision) => decision,
        Err(problem) => Decision::undecidable(problem.to_string()),
    }
}

fn try_decide(
    options: &Options,
    standalone: &Standalone,
    payload: &[u8],
) -> Result<Decision, GateError> {
    let bytes = fs::read(&standalone.policy)
        .map_err(|error| GateError::UnreadablePolicy { path: standalone.policy.clone(), error })?;
    let policy = Policy::read(&bytes, &standalone.digest)?;
    let mut host = observe::HostContext::here(standalone.root.as_deref())?;
    let call = options.dialect.read(payload, &options.servers);
    // The agent's tools for files run in its own process, outside of any sandbox.
    if call.as_ref().is_ok_and(|call| matches!(call.action, Action::Shell(_))) {
        host = host.with_enforcement(enforcement(standalone));
    }
    let evaluated = EvaluatedCall::of(&policy, call, &host);
    let Some(log) = &standalone.log else { return Ok(evaluated.decision) };
    let record = evaluated.record(&standalone.digest, options.dialect);
    log::append(log, &record)?;
    Ok(record.decision)
}

/// What enforces the limits on paths for shell commands: the sandbox, only if it has run a command of this agent.
fn enforcement(standalone: &Standalone) -> Enforcement {
    let recorded = |directory: &PathBuf| {
        ancestors().iter().any(|process| directory.join(process.mark()).is_file())
    };
    if standalone.record.as_ref().is_some_and(recorded) {
        Enforcement::Kernel
    } else {
        standalone.commands
    }
}
