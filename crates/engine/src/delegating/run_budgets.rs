//! Budgets of delegated runs, limit by limit.

use bailiwick_lifecycle::supervision::budget::{Budget, BudgetLimit};
use bailiwick_model::Delegate;
use bailiwick_model::attempt::{Allowance, Attempt};
use bailiwick_model::event::ExitReason;

use crate::options::raise_option;

/// The total budget of a run with its descendants. For the root of a tree it may not be recorded yet: then it is the
/// sum of its own budget and the share of its descendants.
pub(super) fn total_budget(one: &Delegate, own: Option<Allowance>) -> Allowance {
    if one.depth > 0 || one.reserved != Allowance::default() {
        return one.reserved;
    }
    each_limit(|limit| {
        let own = Budget(own.unwrap_or_default()).of_limit(limit)?;
        Some(own.saturating_add(Budget(one.given).of_limit(limit).unwrap_or_default()))
    })
}

/// The option with which a person must raise the exhausted limit of an agent. A run that ended because of a full disk
/// or an unknown price has no such limit: it can be tried again.
pub(super) fn option_to_raise(one: &Delegate, last: &Attempt) -> Option<&'static str> {
    if last.ending != Some(ExitReason::BudgetExhausted) || is_raised(one, &last.budget) {
        return None;
    }
    last.exhausted.and_then(raise_option)
}

/// Whether the total budget of a run is larger than at its last attempt, when its own budget was `own`. The share of
/// its descendants has not changed since: that happens only when the run is resumed.
fn is_raised(one: &Delegate, own: &Allowance) -> bool {
    BudgetLimit::ALL.into_iter().any(|limit| {
        let share = Budget(one.given).of_limit(limit).unwrap_or_default();
        let before = Budget(*own).of_limit(limit).map(|own| own.saturating_add(share));
        let now = Budget(one.reserved).of_limit(limit);
        before.zip(now).is_some_and(|(before, now)| now > before)
    })
}

/// The first allowance; where it sets no limit, that of the second.
pub(crate) fn limits_or(first: Allowance, second: Allowance) -> Allowance {
    each_limit(|limit| Budget(first).of_limit(limit).or_else(|| Budget(second).of_limit(limit)))
}

/// An allowance with the result of `amount` for each limit.
pub(super) fn each_limit(amount: impl Fn(BudgetLimit) -> Option<u64>) -> Allowance {
    Allowance {
        tokens: amount(BudgetLimit::Tokens),
        micro_usd: amount(BudgetLimit::Money),
        turns: amount(BudgetLimit::Turns),
        milliseconds: amount(BudgetLimit::Time),
        tool_calls: amount(BudgetLimit::ToolCalls),
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_model::AgentId;
    use bailiwick_model::attempt::{Exhausted, Used};
    use bailiwick_model::event::Phase;

    use super::*;

    fn delegate(reserved: Allowance) -> Delegate {
        Delegate {
            run: AgentId::parse("one").unwrap(),
            parent: None,
            session: None,
            repository: None,
            depth: 1,
            deepest: None,
            agent_type: String::new(),
            agent_name: None,
            note: None,
            message: String::new(),
            model: None,
            reasoning_effort: None,
            may_start: Vec::new(),
            reserved,
            given: Allowance::default(),
            pending: false,
            closed: false,
            created_at: 1,
        }
    }

    fn attempt(ending: ExitReason, exhausted: Option<Exhausted>, budget: Allowance) -> Attempt {
        Attempt {
            run: AgentId::parse("one").unwrap(),
            number: 1,
            cli: String::new(),
            version: String::new(),
            model: String::new(),
            login: String::new(),
            sandbox: String::new(),
            session: None,
            phase: Phase::Over,
            ending: Some(ending),
            detail: String::new(),
            exhausted,
            started_at: 1,
            ended_at: Some(2),
            used: Used::default(),
            budget,
        }
    }

    #[test]
    fn option_is_suggested_only_for_a_limit_not_yet_raised() {
        let turns = |turns| Allowance { turns: Some(turns), ..Allowance::default() };
        let (exhausted_budget, failed) = (ExitReason::BudgetExhausted, ExitReason::Failed);
        for (ending, exhausted, has, option) in [
            (exhausted_budget, Some(Exhausted::Turns), 5, Some("--turns N")),
            (exhausted_budget, Some(Exhausted::Tokens), 5, Some("--tokens N")),
            (exhausted_budget, Some(Exhausted::Turns), 6, None),
            (exhausted_budget, Some(Exhausted::Disk), 5, None),
            (exhausted_budget, Some(Exhausted::Price), 5, None),
            (exhausted_budget, None, 5, None),
            (failed, Some(Exhausted::Turns), 5, None),
        ] {
            let last = attempt(ending, exhausted, turns(5));
            assert_eq!(
                option_to_raise(&delegate(turns(has)), &last),
                option,
                "{exhausted:?} {has}"
            );
        }
    }
}
