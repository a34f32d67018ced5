//! What the sub-agents of a run that is bound to an issue used, and asked for against a limit: the issue is charged for
//! them with the run.

use bailiwick_memory::CascadeEntry;
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, Delegate};

use crate::context::Context;
use crate::delegating::DelegationService;
use crate::disallowed_agents;
use crate::failure::Failure;

/// The longest text of a task or of a result.
const MAX_CHARACTERS: usize = 200;

/// Every sub-agent below a run that worked since then, in milliseconds since 1970.
pub(super) fn below(
    context: &Context,
    run: &AgentId,
    since: u64,
) -> Result<Vec<CascadeEntry>, Failure> {
    let mut entries = Vec::new();
    for one in agents_below(context, run)? {
        let attempts =
            context.with_store(async |store| Ok(store.attempts(Some(&one.run)).await?))?;
        let attempts: Vec<_> =
            attempts.into_iter().filter(|attempt| attempt.started_at >= since).collect();
        let Some(last) = attempts.last() else { continue };
        let tokens = attempts.iter().map(|attempt| attempt.used.tokens);
        entries.push(CascadeEntry {
            agent: one.agent_type.clone(),
            task: cut(&one.message),
            result: Some(cut(&last.detail)).filter(|text| !text.is_empty()),
            tokens: tokens.fold(0, u64::saturating_add),
            verdict: match last.ending {
                Some(ExitReason::Completed) => "pass",
                Some(ExitReason::Failed) | None => "fail",
                Some(
                    ExitReason::EnforcementLost
                    | ExitReason::Denied
                    | ExitReason::Stopped
                    | ExitReason::TimedOut
                    | ExitReason::BudgetExhausted
                    | ExitReason::CutOff,
                ) => "blocked",
            }
            .to_owned(),
        });
    }
    Ok(entries)
}

/// What a run and the sub-agents below it asked for since then, although they may not start it.
pub(super) fn disallowed(
    context: &Context,
    run: &AgentId,
    since: u64,
) -> Result<Vec<String>, Failure> {
    let below = agents_below(context, run)?.into_iter().map(|one| one.run);
    let mut requests = Vec::new();
    for asking in std::iter::once(run.clone()).chain(below) {
        for agent_type in disallowed_agents::since(context, &asking, since)? {
            requests.push(format!(
                "`{asking}` asked for the sub-agent `{agent_type}`, which it may not start."
            ));
        }
    }
    Ok(requests)
}

/// All sub-agents below a run.
fn agents_below(context: &Context, run: &AgentId) -> Result<Vec<Delegate>, Failure> {
    let all = context.with_store(async |store| Ok(store.delegates().await?))?;
    let service =
        DelegationService { caller: Some(run.clone()), ..DelegationService::at_terminal(context) };
    Ok(all.iter().filter(|one| service.is_above(one, &all)).cloned().collect())
}

fn cut(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(MAX_CHARACTERS).collect()
}
