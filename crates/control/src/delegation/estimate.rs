//! What a run is thought to take before it has begun.

use bailiwick_model::attempt::Allowance;

use crate::supervision::Spent;
use crate::supervision::budget::{Budget, Limit};

/// What is known of a run that has not begun.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// What whoever asks for it thinks.
    pub caller: Allowance,
    /// What earlier runs of the same template took.
    pub earlier: Vec<Spent>,
    /// What the template says, in tokens.
    pub template_tokens: Option<u64>,
}

/// Where an estimate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From whoever asks.
    Caller,
    /// The middle of what earlier runs took.
    Earlier,
    /// From the template.
    Template,
    /// The same share as of something that is known: what is spent is spent together.
    Share,
}

/// What a run is thought to take of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// How much.
    pub amount: u64,
    /// Where it comes from.
    pub origin: Origin,
}

impl Estimate {
    /// What is given for it, of what is left: half of all runs take more than the middle of earlier ones,
    /// so that is doubled as far as half of what is left.
    pub fn room(&self, remaining: u64) -> u64 {
        match self.origin {
            Origin::Earlier => self.amount.saturating_mul(2).min(remaining / 2).max(self.amount),
            Origin::Caller | Origin::Template | Origin::Share => self.amount,
        }
    }
}

impl Known {
    /// Whether whoever asks said anything.
    pub fn is_said(&self) -> bool {
        self.caller != Allowance::default()
    }

    /// What is known about one thing: the caller comes before earlier runs, those before the template.
    pub fn of(&self, limit: Limit) -> Option<Estimate> {
        let found = |amount, origin| Estimate { amount, origin };
        let template = self.template_tokens.filter(|_| limit == Limit::Tokens);
        Budget(self.caller)
            .of_limit(limit)
            .map(|amount| found(amount, Origin::Caller))
            .or_else(|| self.median(limit).map(|amount| found(amount, Origin::Earlier)))
            .or_else(|| template.map(|amount| found(amount, Origin::Template)))
    }

    /// The one in the middle; of two the larger. What was never counted says nothing.
    fn median(&self, limit: Limit) -> Option<u64> {
        let mut all: Vec<u64> = self.earlier.iter().map(|spent| spent.of_limit(limit)).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().filter(|amount| *amount > 0)
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_model::AgentId;

    use super::super::budget::Tree;
    use super::*;
    use bailiwick_model::attempt::Used;

    fn took(tokens: u64) -> Spent {
        Spent { used: Used { tokens, ..Used::default() }, time: 0 }
    }

    #[test]
    fn the_caller_comes_before_earlier_runs_and_those_before_the_template() {
        let mut known = Known { template_tokens: Some(7), ..Known::default() };
        let of = |known: &Known| known.of(Limit::Tokens).map(|found| (found.amount, found.origin));
        assert_eq!(of(&known), Some((7, Origin::Template)));
        assert_eq!(known.of(Limit::Turns), None);
        known.earlier = [90, 10, 20].map(took).to_vec();
        assert_eq!(of(&known), Some((20, Origin::Earlier)));
        known.earlier.push(took(30));
        assert_eq!(of(&known), Some((30, Origin::Earlier)));
        known.caller.tokens = Some(5);
        assert_eq!(of(&known), Some((5, Origin::Caller)));
        assert_eq!(known.of(Limit::Money), None, "nothing was ever counted of it");
    }

    fn id(name: &str) -> AgentId {
        AgentId::parse(name).unwrap()
    }

    fn given(root: Allowance, known: &Known) -> Allowance {
        Tree::new(id("root"), root).reserve(&id("root"), &id("child"), known).1.unwrap()
    }

    #[test]
    fn what_was_before_limits_nobody_whose_parent_has_no_limit() {
        let known = Known { earlier: vec![took(110)], ..Known::default() };
        assert_eq!(given(Allowance::default(), &known), Allowance::default());
        let asked = Allowance { tokens: Some(500), ..Allowance::default() };
        let known = Known { caller: asked, ..known };
        assert_eq!(given(Allowance::default(), &known), asked);
    }

    #[test]
    fn what_was_before_is_doubled_as_far_as_half_of_what_is_left() {
        let known = Known { earlier: vec![took(100)], ..Known::default() };
        let root = |tokens| Allowance { tokens: Some(tokens), ..Allowance::default() };
        assert_eq!(given(root(1000), &known).tokens, Some(200));
        assert_eq!(given(root(300), &known).tokens, Some(150));
    }

    #[test]
    fn what_the_caller_says_goes_before_what_was_of_other_things_too() {
        let caller = Allowance { tokens: Some(250), ..Allowance::default() };
        let known = Known { caller, earlier: vec![took(100)], ..Known::default() };
        let root = Allowance { tokens: Some(1000), turns: Some(40), ..Allowance::default() };
        let given = given(root, &known);
        assert_eq!((given.tokens, given.turns), (Some(250), Some(10)));
    }

    #[test]
    fn who_has_only_turns_gives_a_quarter_of_them_to_whom_tokens_are_asked_for() {
        let caller = Allowance { tokens: Some(250), ..Allowance::default() };
        let known = Known { caller, ..Known::default() };
        let root = Allowance { turns: Some(40), ..Allowance::default() };
        let given = given(root, &known);
        assert_eq!((given.tokens, given.turns), (Some(250), Some(10)));
    }
}
