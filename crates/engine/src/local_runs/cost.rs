//! The usage of an agent and its descendants.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{LocalAgentCost, LocalCostPoint, LocalRunCost, LocalRunError};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::attempt::Used;
use bailiwick_model::event::EventKind;
use bailiwick_model::{AgentId, Delegate, Event, Run};
use bailiwick_resources::Moment;

use super::{LedgerRuns, store_error};

/// Responses of models that are read of one run.
const MAX_RESPONSES: u32 = 10_000;

impl LedgerRuns {
    pub(super) fn read_cost(&self, run: &Run) -> Result<LocalRunCost, LocalRunError> {
        let read = self.open()?.with(async |store| {
            let events = store.events_of_kind(&run.id, "usage", MAX_RESPONSES).await?;
            let delegates = store.delegates().await?;
            let mut sums = Vec::new();
            for id in below(&run.id, &delegates) {
                let used = sum(store.attempts(Some(&id)).await?.iter().map(|one| &one.used));
                sums.push((id, used));
            }
            let own = sum(store.attempts(Some(&run.id)).await?.iter().map(|one| &one.used));
            Ok::<_, StoreError>((events, own, sums))
        });
        let (events, own, started) = read.map_err(store_error)?;
        let points = points(&events);
        let mut agents = vec![of_run(&run.id, own, Some(count(&points)))];
        agents.extend(subagents(&points));
        agents.extend(started.into_iter().map(|(id, used)| of_run(&id, used, None)));
        let is_incomplete = u32::try_from(events.len()).unwrap_or(u32::MAX) >= MAX_RESPONSES;
        Ok(LocalRunCost { points, is_incomplete, agents })
    }
}

fn sum<'a>(all: impl Iterator<Item = &'a Used>) -> Used {
    all.fold(Used::default(), |sum, used| sum.plus(used))
}

fn count(points: &[LocalCostPoint]) -> u64 {
    u64::try_from(points.len()).unwrap_or(u64::MAX)
}

/// The agents that an agent started, and those that they started, each once.
pub(super) fn below(run: &AgentId, delegates: &[Delegate]) -> Vec<AgentId> {
    let mut found: Vec<AgentId> = Vec::new();
    let mut next = 0;
    let mut above = run.clone();
    loop {
        for one in delegates.iter().filter(|one| one.parent.as_ref() == Some(&above)) {
            if one.run != *run && !found.contains(&one.run) {
                found.push(one.run.clone());
            }
        }
        let Some(following) = found.get(next) else { return found };
        above = following.clone();
        next += 1;
    }
}

fn points(events: &[Event]) -> Vec<LocalCostPoint> {
    let point = |event: &Event| {
        let EventKind::Usage(usage) = &event.what else { return None };
        Some(LocalCostPoint {
            at: Moment::from_millis(event.at),
            agent: event.agent.clone(),
            model: usage.model.clone(),
            tokens: usage.tokens(),
        })
    };
    events.iter().filter_map(point).collect()
}

/// The sums of sub-agents inside of the run, whose use is part of that of the run.
fn subagents(points: &[LocalCostPoint]) -> Vec<LocalAgentCost> {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for point in points {
        let Some(agent) = point.agent.as_deref() else { continue };
        let (responses, tokens) = sums.entry(agent).or_default();
        *responses += 1;
        *tokens = tokens.saturating_add(point.tokens);
    }
    let cost = |(agent, (responses, tokens)): (&str, (u64, u64))| LocalAgentCost {
        agent: agent.to_owned(),
        is_run: false,
        responses: Some(responses),
        tokens,
        micro_usd: None,
    };
    sums.into_iter().map(cost).collect()
}

fn of_run(id: &AgentId, used: Used, responses: Option<u64>) -> LocalAgentCost {
    let is_priced = used.micro_usd > 0 || used.tokens == 0;
    LocalAgentCost {
        agent: id.to_string(),
        is_run: true,
        responses,
        tokens: used.tokens,
        micro_usd: is_priced.then_some(used.micro_usd),
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_model::event::{ReportedBy, Usage};

    use super::*;

    fn usage(number: u64, agent: Option<&str>, output: u64) -> Event {
        let what = EventKind::Usage(Usage { output, ..Usage::default() });
        let agent = agent.map(str::to_owned);
        Event { number, at: number, reported_by: ReportedBy::Proxy, agent, what, raw: None }
    }

    #[test]
    fn each_subagent_has_a_sum_and_unknown_price_is_none() {
        let points = points(&[usage(1, None, 5), usage(2, Some("a"), 7), usage(3, Some("a"), 1)]);
        assert_eq!((points.len(), points[1].tokens), (3, 7));
        let sums = subagents(&points);
        assert_eq!(sums.len(), 1);
        assert_eq!((sums[0].responses, sums[0].tokens), (Some(2), 8));
        let id = AgentId::parse("x").unwrap();
        let used = |tokens, micro_usd| Used { tokens, micro_usd, ..Used::default() };
        assert_eq!(of_run(&id, used(5, 0), None).micro_usd, None);
        assert_eq!(of_run(&id, used(5, 3), None).micro_usd, Some(3));
        assert_eq!(of_run(&id, used(0, 0), None).micro_usd, Some(0));
    }
}
