//! How many tokens the next agent of an issue is thought to take.

use std::collections::BTreeMap;

use bailiwick_lifecycle::delegation::estimate::Known;
use bailiwick_lifecycle::supervision::Spent;
use bailiwick_lifecycle::supervision::budget::BudgetLimit;
use bailiwick_memory::{EventKind, State};
use bailiwick_model::AgentId;
use bailiwick_model::attempt::{Allowance, Used};

use crate::context::Context;
use crate::failure::Failure;
use crate::templates;
use crate::verifying::{AgentWork, WorkOptions};

/// How many earlier results of an agent count, newest first.
const MAX_EARLIER: usize = 100;

/// The tokens that each agent has used for a result on an issue, newest first.
pub(super) fn used_by_agents(state: &State) -> BTreeMap<String, Vec<u64>> {
    let mut used: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for recorded in state.events.iter().rev() {
        let event = &recorded.event;
        let (EventKind::SubagentResult, Some(budget)) = (event.kind, event.budget) else {
            continue;
        };
        let of_agent = used.entry(event.agent.clone()).or_default();
        if of_agent.len() < MAX_EARLIER {
            of_agent.push(budget.consumed);
        }
    }
    used
}

/// The estimate for an agent: what it has used before, else what its template says.
pub(super) fn estimate(
    context: &Context,
    run: &AgentId,
    agent: &str,
    used: &BTreeMap<String, Vec<u64>>,
) -> Option<u64> {
    let earlier = used.get(agent).into_iter().flatten();
    let spent = |tokens: &u64| Spent { used: Used { tokens: *tokens, ..Used::default() }, time: 0 };
    let known = Known {
        earlier: earlier.map(spent).collect(),
        template: Allowance {
            // Without a template, or with one that cannot be read, the estimate has one source less.
            tokens: template_tokens(context, run, agent).ok().flatten(),
            ..Allowance::default()
        },
        ..Known::default()
    };
    known.of(BudgetLimit::Tokens).map(|estimate| estimate.amount)
}

fn template_tokens(context: &Context, run: &AgentId, agent: &str) -> Result<Option<u64>, Failure> {
    let subject = AgentWork::of_agent(context, run, &WorkOptions::default())?;
    let (repository, commit) = (&subject.repository, &subject.kit_commit);
    let templates = templates::committed(&subject.context, repository, commit, "")?;
    let found = templates.find(agent).map_err(Failure::refused_by)?;
    Ok(found.template().estimated_tokens)
}

#[cfg(test)]
mod tests {
    use bailiwick_memory::{Event, EventBudget, Issue, Recorded, Trust, read_state};
    use bailiwick_resources::Moment;

    use super::*;

    #[test]
    fn usage_is_counted_for_each_agent_newest_first() {
        let mut state = read_state(&Issue::default(), &[], &Trust::default());
        for (comment, agent, consumed) in
            [(1, "builder", 10), (2, "reviewer", 5), (3, "builder", 30)]
        {
            let mut event = Event::new(EventKind::SubagentResult, agent);
            event.budget = Some(EventBudget { before: 0, consumed, remaining: 0, total: None });
            let (author, action) = (String::new(), String::new());
            let at = Moment::from_millis(0);
            state.events.push(Recorded { comment, author, at, event, action });
        }
        let used = used_by_agents(&state);
        assert_eq!(used["builder"], [30, 10]);
        assert_eq!(used["reviewer"], [5]);
        assert_eq!(used.len(), 2);
    }
}
