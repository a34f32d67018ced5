//! Estimates the usage of a run before it starts.

use bailiwick_model::attempt::Allowance;

use crate::supervision::Spent;
use crate::supervision::budget::{Budget, BudgetLimit};

/// The inputs of an estimate for a run that has not begun.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The caller's estimate.
    pub caller: Allowance,
    /// The usage of earlier runs of the same template.
    pub earlier: Vec<Spent>,
    /// The template's estimate.
    pub template: Allowance,
    /// The template's limits, independent of what remains.
    pub most: Allowance,
    /// The price of a million tokens, in millionths of a dollar, if it is known.
    pub price: Option<u64>,
}

/// The source of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From the caller.
    Caller,
    /// The median of earlier runs.
    Earlier,
    /// From the template.
    Template,
    /// The same share as of a limit with an estimate.
    Share,
}

/// An estimate of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    pub amount: u64,
    pub origin: Origin,
}

impl Estimate {
    /// The budget for the estimate: half of all runs exceed the median, so it is doubled, up to half of what
    /// remains.
    pub fn room(&self, remaining: u64) -> u64 {
        match self.origin {
            Origin::Earlier => self.amount.saturating_mul(2).min(remaining / 2).max(self.amount),
            Origin::Caller | Origin::Template | Origin::Share => self.amount,
        }
    }
}

impl Known {
    /// The budget to request if nothing is limited.
    pub fn asked(&self) -> Allowance {
        let mut budget = self.caller;
        BudgetLimit::ALL.into_iter().for_each(|limit| self.bound(&mut budget, limit));
        budget
    }

    /// Reduces a budget to the maximum of the run.
    pub(super) fn bound(&self, budget: &mut Allowance, limit: BudgetLimit) {
        let [amount, most] = [*budget, self.most].map(|one| Budget(one).of_limit(limit));
        set(budget, limit, [amount, most].into_iter().flatten().min());
    }

    /// The estimate for one limit, in its unit: the caller's first, then earlier runs, then the template's. The last
    /// two describe a usual run, so they are scaled by the caller's estimate in any other unit.
    pub fn of(&self, limit: BudgetLimit) -> Option<Estimate> {
        if let Some(amount) = Budget(self.caller).of_limit(limit) {
            return Some(Estimate { amount, origin: Origin::Caller });
        }
        let (amount, origin) = match (self.median(limit), Budget(self.template).of_limit(limit)) {
            (Some(amount), _) => (amount, Origin::Earlier),
            (None, Some(amount)) => (amount, Origin::Template),
            (None, None) => return None,
        };
        let usual = |limit| match origin {
            Origin::Earlier => self.median(limit),
            Origin::Template | Origin::Caller | Origin::Share => {
                Budget(self.template).of_limit(limit)
            }
        };
        let mut counted = BudgetLimit::ALL.into_iter().filter(|limit| *limit != BudgetLimit::Time);
        let from_caller =
            counted.find_map(|limit| Budget(self.caller).of_limit(limit).zip(usual(limit)));
        Some(match from_caller {
            Some((estimate, usual)) => part(amount, estimate, usual),
            None => Estimate { amount, origin },
        })
    }

    /// The price of its estimated tokens.
    pub(super) fn by_price(&self, limit: BudgetLimit) -> Option<Estimate> {
        let price = self.price.filter(|_| limit == BudgetLimit::Money)?;
        Some(part(self.of(BudgetLimit::Tokens)?.amount, price, 1_000_000))
    }

    /// Whether anything is known that is counted.
    pub(super) fn is_anything(&self) -> bool {
        let counted = BudgetLimit::ALL.into_iter().filter(|limit| *limit != BudgetLimit::Time);
        counted.into_iter().any(|limit| self.of(limit).is_some())
    }

    /// The median; of two values the larger. Zero means that it was not counted.
    fn median(&self, limit: BudgetLimit) -> Option<u64> {
        let mut all: Vec<u64> = self.earlier.iter().map(|spent| spent.of_limit(limit)).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().filter(|amount| *amount > 0)
    }
}

/// The amount times `part / whole`, at least 1.
pub(super) fn part(amount: u64, part: u64, whole: u64) -> Estimate {
    let amount = u128::from(amount) * u128::from(part) / u128::from(whole.max(1));
    let amount = u64::try_from(amount).unwrap_or(u64::MAX).max(1);
    Estimate { amount, origin: Origin::Share }
}

/// Puts an amount into an allowance.
pub(super) fn set(allowance: &mut Allowance, limit: BudgetLimit, amount: Option<u64>) {
    *match limit {
        BudgetLimit::Tokens => &mut allowance.tokens,
        BudgetLimit::Money => &mut allowance.micro_usd,
        BudgetLimit::Turns => &mut allowance.turns,
        BudgetLimit::Time => &mut allowance.milliseconds,
        BudgetLimit::ToolCalls => &mut allowance.tool_calls,
    } = amount;
}

#[cfg(test)]
mod tests {
    use bailiwick_model::AgentId;

    use super::super::budget::Tree;
    use super::*;
    use bailiwick_model::attempt::Used;

    fn spent_tokens(tokens: u64) -> Spent {
        Spent { used: Used { tokens, ..Used::default() }, time: 0 }
    }

    #[test]
    fn estimate_prefers_caller_then_earlier_runs_then_template() {
        let template = Allowance { tokens: Some(7), ..Allowance::default() };
        let mut known = Known { template, ..Known::default() };
        let estimate =
            |known: &Known| known.of(BudgetLimit::Tokens).map(|found| (found.amount, found.origin));
        assert_eq!(estimate(&known), Some((7, Origin::Template)));
        assert_eq!(known.of(BudgetLimit::Turns), None);
        known.earlier = [90, 10, 20].map(spent_tokens).to_vec();
        assert_eq!(estimate(&known), Some((20, Origin::Earlier)));
        known.earlier.push(spent_tokens(30));
        assert_eq!(estimate(&known), Some((30, Origin::Earlier)));
        known.caller.tokens = Some(5);
        assert_eq!(estimate(&known), Some((5, Origin::Caller)));
        assert_eq!(known.of(BudgetLimit::Money), None, "no money was ever counted");
    }

    fn id(name: &str) -> AgentId {
        AgentId::parse(name).unwrap()
    }

    fn reserved(root: Allowance, known: &Known) -> Allowance {
        Tree::new(id("root"), root).reserve(&id("root"), &id("child"), known).1.unwrap()
    }

    #[test]
    fn earlier_runs_set_no_limit_if_the_parent_has_none() {
        let known = Known { earlier: vec![spent_tokens(110)], ..Known::default() };
        assert_eq!(reserved(Allowance::default(), &known), Allowance::default());
        let requested = Allowance { tokens: Some(500), ..Allowance::default() };
        let known = Known { caller: requested, ..known };
        assert_eq!(reserved(Allowance::default(), &known), requested);
    }

    #[test]
    fn estimate_is_twice_the_earlier_runs_up_to_half_of_the_rest() {
        let known = Known { earlier: vec![spent_tokens(100)], ..Known::default() };
        let root = |tokens| Allowance { tokens: Some(tokens), ..Allowance::default() };
        assert_eq!(reserved(root(1000), &known).tokens, Some(200));
        assert_eq!(reserved(root(300), &known).tokens, Some(150));
    }

    #[test]
    fn caller_estimate_wins_over_earlier_runs_in_other_units() {
        let caller = Allowance { tokens: Some(250), ..Allowance::default() };
        let known = Known { caller, earlier: vec![spent_tokens(100)], ..Known::default() };
        let root = Allowance { tokens: Some(1000), turns: Some(40), ..Allowance::default() };
        let reserved = reserved(root, &known);
        assert_eq!((reserved.tokens, reserved.turns), (Some(250), Some(10)));
    }

    #[test]
    fn budget_in_turns_reserves_a_quarter_for_a_request_in_tokens() {
        let caller = Allowance { tokens: Some(250), ..Allowance::default() };
        let known = Known { caller, ..Known::default() };
        let root = Allowance { turns: Some(40), ..Allowance::default() };
        let reserved = reserved(root, &known);
        assert_eq!((reserved.tokens, reserved.turns), (Some(250), Some(10)));
    }

    fn spent_in_all_units(tokens: u64, micro_usd: u64, turns: u64) -> Spent {
        Spent { used: Used { tokens, micro_usd, turns, ..Used::default() }, time: 0 }
    }

    #[test]
    fn budget_in_turns_or_money_is_estimated_in_the_same_unit() {
        let earlier = vec![
            spent_in_all_units(100, 7, 3),
            spent_in_all_units(900, 70, 4),
            spent_in_all_units(200, 20, 30),
        ];
        let known = Known { earlier, ..Known::default() };
        let turns = Allowance { turns: Some(40), ..Allowance::default() };
        assert_eq!(reserved(turns, &known).turns, Some(8), "twice the median of 3, 4 and 30");
        let money = Allowance { micro_usd: Some(1_000), ..Allowance::default() };
        assert_eq!(reserved(money, &known).micro_usd, Some(40), "twice the median of 7, 20 and 70");
        // Without earlier runs, the template's estimate in the same unit.
        let template = Allowance { tokens: Some(500), turns: Some(5), ..Allowance::default() };
        let known = Known { template, ..Known::default() };
        assert_eq!(reserved(turns, &known).turns, Some(5));
        // Without an estimate in money: the price of the tokens, else a quarter of what remains.
        let priced = Known { price: Some(3_000), ..known.clone() };
        assert_eq!(reserved(Allowance { micro_usd: Some(9), ..money }, &priced).micro_usd, Some(1));
        let priced = Known { price: Some(400_000), ..known.clone() };
        assert_eq!(reserved(money, &priced).micro_usd, Some(200));
        assert_eq!(reserved(money, &known).micro_usd, Some(250));
        let refused = Tree::new(id("root"), money);
        let refused = refused.reserve(&id("root"), &id("child"), &Known::default()).1;
        assert!(refused.is_err(), "without any number there is no estimate");
    }

    #[test]
    fn caller_estimate_above_the_usual_scales_all_units() {
        let caller = Allowance { tokens: Some(300), ..Allowance::default() };
        let known =
            Known { caller, earlier: vec![spent_in_all_units(100, 7, 3)], ..Known::default() };
        let root = Allowance { turns: Some(40), ..Allowance::default() };
        assert_eq!(reserved(root, &known).turns, Some(9), "three times the usual 3");
    }

    #[test]
    fn template_limits_the_turns_of_its_agents() {
        let max = Allowance { turns: Some(6), ..Allowance::default() };
        let known = Known { most: max, ..Known::default() };
        assert_eq!(reserved(Allowance::default(), &known), max, "even if the root has no limit");
        assert_eq!(known.asked(), max);
        let caller = Allowance { turns: Some(9), ..Allowance::default() };
        assert_eq!(Known { caller, ..known.clone() }.asked(), max);
        let root = Allowance { turns: Some(40), ..Allowance::default() };
        let known = Known { caller, ..known };
        assert_eq!(reserved(root, &known).turns, Some(6));
        // A smaller request is unchanged.
        let few = Allowance { turns: Some(2), ..Allowance::default() };
        assert_eq!(reserved(root, &Known { caller: few, ..known }).turns, Some(2));
    }
}
