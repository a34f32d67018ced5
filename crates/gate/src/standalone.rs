//! Decisions from a policy file, without a supervisor: for people who start their agent themselves.

use std::fs;
use std::path::PathBuf;

use bailiwick_policy::call::Action;
use bailiwick_policy::decide::{decide_effects, lookups};
use bailiwick_policy::dialects::{Dialect, Unreadable};
use bailiwick_policy::facts::Enforcement;
use bailiwick_policy::record::{FORMAT, Record, RecordedCall};
use bailiwick_policy::{Call, Decision, Effects, Facts, Policy};

use crate::arguments::{Options, Standalone};
use crate::error::GateError;
use crate::{ancestors, log, observe};

/// Decides, and appends the decision to the log; one that cannot be logged is a denial.
pub(crate) fn decide(options: &Options, standalone: &Standalone, payload: &[u8]) -> Decision {
    match try_decide(options, standalone, payload) {
        Ok(decision) => decision,
        Err(problem) => Decision::unreadable(problem.to_string()),
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

/// Who enforces the limits on paths for shell commands: the sandbox only if it has run a command of this agent.
fn enforcement(standalone: &Standalone) -> Enforcement {
    let recorded = |directory: &PathBuf| {
        ancestors::above().iter().any(|process| directory.join(process.mark()).is_file())
    };
    if standalone.record.as_ref().is_some_and(recorded) {
        Enforcement::Kernel
    } else {
        standalone.commands
    }
}

/// Looks up the facts of a call and decides. `digest` is the policy's. The dialect contains the names of MCP servers
/// that cannot be derived.
pub fn evaluate_call(
    policy: &Policy,
    digest: &str,
    (dialect, servers): (Dialect, &[String]),
    payload: &[u8],
    host: &observe::HostContext,
) -> Record {
    let call = dialect.read(payload, servers);
    EvaluatedCall::of(policy, call, host).record(digest, dialect)
}

/// A decision with its inputs.
struct EvaluatedCall {
    call: Result<Call, Unreadable>,
    facts: Facts,
    decision: Decision,
}

impl EvaluatedCall {
    fn of(policy: &Policy, call: Result<Call, Unreadable>, host: &observe::HostContext) -> Self {
        let mut facts = host.facts();
        let decision = match &call {
            Ok(call) => {
                let effects = Effects::of(call);
                observe::look_up(&lookups(call, &effects, &facts), call, &mut facts);
                decide_effects(policy, call, &effects, &facts)
            }
            Err(error) => Decision::unreadable(error.to_string()),
        };
        Self { call, facts, decision }
    }

    fn record(self, digest: &str, dialect: Dialect) -> Record {
        let call = match &self.call {
            Ok(call) => RecordedCall::of(call),
            Err(error) => RecordedCall::unreadable(&error.to_string()),
        };
        let (at, policy) = (log::now(), digest.to_owned());
        let (facts, decision) = (self.facts, self.decision);
        Record { format: FORMAT, at, policy, dialect, call, facts, decision }
    }
}
