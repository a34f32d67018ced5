//! Evaluates one call against a policy: reads it, looks up its facts, decides, and makes the record.

use bailiwick_policy::decide::{decide_effects, lookups};
use bailiwick_policy::dialects::{Dialect, Unreadable};
use bailiwick_policy::record::{FORMAT, Record, RecordedCall};
use bailiwick_policy::{Call, Decision, Effects, Facts, Policy};

use crate::{log, observe};

/// Evaluates a call of an agent. `digest` is the policy's. The names of the MCP servers are for a dialect that does
/// not mark their tools.
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
pub(crate) struct EvaluatedCall {
    call: Result<Call, Unreadable>,
    facts: Facts,
    pub(crate) decision: Decision,
}

impl EvaluatedCall {
    pub(crate) fn of(
        policy: &Policy,
        call: Result<Call, Unreadable>,
        host: &observe::HostContext,
    ) -> Self {
        let mut facts = host.facts();
        let decision = match &call {
            Ok(call) => {
                let effects = Effects::of(call);
                observe::look_up(&lookups(call, &effects, &facts), call, &mut facts);
                decide_effects(policy, call, &effects, &facts)
            }
            Err(error) => Decision::undecidable(error.to_string()),
        };
        Self { call, facts, decision }
    }

    pub(crate) fn record(self, digest: &str, dialect: Dialect) -> Record {
        let call = match &self.call {
            Ok(call) => RecordedCall::of(call),
            Err(error) => RecordedCall::unreadable(&error.to_string()),
        };
        let (at, policy) = (log::now(), digest.to_owned());
        let (facts, decision) = (self.facts, self.decision);
        Record { format: FORMAT, at, policy, dialect, call, facts, decision }
    }
}
