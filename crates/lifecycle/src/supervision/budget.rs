//! The budget of a run with everything it starts, and its usage.

use bailiwick_model::attempt::{Allowance, Used};
use bailiwick_model::event::{EventKind, Usage};
use bailiwick_model::task;
use serde::{Deserialize, Serialize};

use super::prices::MICRO;

/// Near its end a budget warns: at four fifths.
const NEAR: (u64, u64) = (4, 5);

/// The default limit in tokens, including those read from a cache: a large task needs a few million.
pub const DEFAULT_TOKENS: u64 = 20_000_000;
/// Answers of the model for such a run.
pub const DEFAULT_TURNS: u64 = 500;

/// A limit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetLimit {
    /// Tokens, in and out.
    Tokens,
    /// Money, in millionths of a United States dollar.
    Money,
    /// Answers of the model.
    Turns,
    /// Milliseconds on the clock.
    Time,
    /// Tool calls.
    ToolCalls,
}

impl BudgetLimit {
    /// Every limit.
    pub const ALL: [Self; 5] =
        [Self::Tokens, Self::Money, Self::Turns, Self::Time, Self::ToolCalls];

    /// The key in the task.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Money => "usd",
            Self::Turns => "turns",
            Self::Time => "minutes",
            Self::ToolCalls => "tool-calls",
        }
    }

    /// An amount as people read it.
    pub fn shown(self, amount: u64) -> String {
        match self {
            Self::Money => format!("{}.{:04}", amount / MICRO, amount % MICRO / 100),
            Self::Time => format!("{}:{:02}", amount / 60_000, amount / 1_000 % 60),
            Self::Tokens | Self::Turns | Self::ToolCalls => amount.to_string(),
        }
    }
}

/// The limits of a budget; `None` means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget(pub Allowance);

/// Usage with elapsed time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// The counted usage.
    pub used: Used,
    /// Milliseconds.
    pub time: u64,
}

/// The state of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetState {
    /// Enough is left.
    Fine,
    /// These are nearly spent.
    Near(Vec<BudgetLimit>),
    /// This limit is exhausted: nothing more may start.
    Exhausted(BudgetLimit),
}

impl Budget {
    /// The budget of a task.
    pub fn of(task: &task::Budget) -> Self {
        // A positive number of dollars; larger amounts are clamped.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "the amount is positive, and a float that is too large becomes the largest number"
        )]
        let money = task.usd.map(|usd| (usd * MICRO as f64).ceil() as u64);
        Self(Allowance {
            tokens: task.tokens,
            micro_usd: money,
            turns: task.turns,
            milliseconds: task.minutes.map(|minutes| minutes.saturating_mul(60_000)),
            tool_calls: task.tool_calls,
        })
    }

    /// The budget of a run: that of its task, or the default if the task limits neither tokens nor money nor turns
    /// and does not set `unlimited`.
    pub fn of_run(task: &task::Budget) -> Self {
        let stated = Self::of(task);
        if !Self::is_default(task) {
            return stated;
        }
        let (tokens, turns) = (Some(DEFAULT_TOKENS), Some(DEFAULT_TURNS));
        Self(Allowance { tokens, turns, ..stated.0 })
    }

    /// Whether a task leaves its run to the default.
    pub fn is_default(task: &task::Budget) -> bool {
        !task.unlimited && task.tokens.is_none() && task.usd.is_none() && task.turns.is_none()
    }

    /// The value of a limit.
    pub fn of_limit(&self, limit: BudgetLimit) -> Option<u64> {
        match limit {
            BudgetLimit::Tokens => self.0.tokens,
            BudgetLimit::Money => self.0.micro_usd,
            BudgetLimit::Turns => self.0.turns,
            BudgetLimit::Time => self.0.milliseconds,
            BudgetLimit::ToolCalls => self.0.tool_calls,
        }
    }

    /// The state of the budget with this usage.
    pub fn budget_state(&self, spent: &Spent) -> BudgetState {
        let mut near = Vec::new();
        for limit in BudgetLimit::ALL {
            let Some(most) = self.of_limit(limit) else { continue };
            let used = spent.of_limit(limit);
            if used >= most {
                return BudgetState::Exhausted(limit);
            }
            let (part, whole) = NEAR;
            if used.saturating_mul(whole) >= most.saturating_mul(part) {
                near.push(limit);
            }
        }
        if near.is_empty() { BudgetState::Fine } else { BudgetState::Near(near) }
    }

    /// Whether one more request may be sent while `open` ones have no response, assuming that each uses as much as
    /// the largest so far: together they exceed a limit by the last of them at most. Until the first response,
    /// requests are sent one by one.
    pub fn has_room(&self, spent: &Spent, open: u64, largest: Option<&Used>) -> bool {
        BudgetLimit::ALL.into_iter().all(|limit| {
            let Some(most) = self.of_limit(limit) else { return true };
            let each = match limit {
                BudgetLimit::Turns => Some(1),
                BudgetLimit::Tokens => largest.map(|largest| largest.tokens),
                BudgetLimit::Money => largest.map(|largest| largest.micro_usd),
                BudgetLimit::Time | BudgetLimit::ToolCalls => return true,
            };
            let Some(each) = each.or_else(|| (open == 0).then_some(0)) else { return false };
            spent.of_limit(limit).saturating_add(open.saturating_mul(each)) < most
        })
    }

    /// The event that reports it.
    pub fn event(&self, limit: BudgetLimit, spent: &Spent) -> EventKind {
        let (used, most) = (spent.of_limit(limit), self.of_limit(limit).unwrap_or_default());
        EventKind::Limit {
            limit: limit.as_str().to_owned(),
            used: limit.shown(used),
            of: limit.shown(most),
            spent: used >= most,
        }
    }
}

impl Spent {
    /// The usage for a limit.
    pub fn of_limit(&self, limit: BudgetLimit) -> u64 {
        match limit {
            BudgetLimit::Tokens => self.used.tokens,
            BudgetLimit::Money => self.used.micro_usd,
            BudgetLimit::Turns => self.used.turns,
            BudgetLimit::Time => self.time,
            BudgetLimit::ToolCalls => self.used.tool_calls,
        }
    }

    /// With one more answer of a model, which cost so much.
    pub fn answered(&mut self, usage: &Usage, money: u64) {
        let used = &mut self.used;
        used.tokens = used.tokens.saturating_add(usage.tokens());
        used.micro_usd = used.micro_usd.saturating_add(money);
        used.turns = used.turns.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_without_a_budget_gets_the_default_unless_unlimited() {
        let none = task::Budget::default();
        let default_budget = Budget::of_run(&none).0;
        assert_eq!(
            (default_budget.tokens, default_budget.turns),
            (Some(DEFAULT_TOKENS), Some(DEFAULT_TURNS))
        );
        let timed = Budget::of_run(&task::Budget { minutes: Some(1), ..none }).0;
        assert_eq!((timed.tokens, timed.milliseconds), (Some(DEFAULT_TOKENS), Some(60_000)));
        for stated in [
            task::Budget { tokens: Some(1), ..none },
            task::Budget { usd: Some(1.0), ..none },
            task::Budget { turns: Some(1), ..none },
            task::Budget { unlimited: true, ..none },
        ] {
            assert_eq!(Budget::of_run(&stated), Budget::of(&stated));
        }
    }

    #[test]
    fn budget_warns_at_80_percent_and_ends_at_100_percent() {
        let budget =
            Budget(Allowance { tokens: Some(100), turns: Some(5), ..Allowance::default() });
        let with =
            |tokens, turns| Spent { used: Used { tokens, turns, ..Used::default() }, time: 0 };
        assert_eq!(budget.budget_state(&with(79, 3)), BudgetState::Fine);
        assert_eq!(budget.budget_state(&with(80, 3)), BudgetState::Near(vec![BudgetLimit::Tokens]));
        assert_eq!(
            budget.budget_state(&with(80, 4)),
            BudgetState::Near(vec![BudgetLimit::Tokens, BudgetLimit::Turns])
        );
        assert_eq!(budget.budget_state(&with(80, 5)), BudgetState::Exhausted(BudgetLimit::Turns));
        assert_eq!(
            budget.budget_state(&with(1_000, 0)),
            BudgetState::Exhausted(BudgetLimit::Tokens)
        );
        assert_eq!(Budget::default().budget_state(&with(u64::MAX, u64::MAX)), BudgetState::Fine);
    }

    #[test]
    fn responses_in_flight_count_as_the_largest_so_far() {
        let spent =
            |tokens, turns| Spent { used: Used { tokens, turns, ..Used::default() }, time: 0 };
        let largest = Used { tokens: 30, ..Used::default() };
        let turns = Budget(Allowance { turns: Some(5), ..Allowance::default() });
        let tokens = Budget(Allowance { tokens: Some(100), ..Allowance::default() });
        for (budget, spent, open, known, room) in [
            (turns, spent(0, 4), 0, None, true),
            (turns, spent(0, 4), 1, None, false),
            (turns, spent(0, 5), 0, None, false),
            (turns, spent(0, 1), 3, None, true),
            // Before the first response.
            (tokens, spent(0, 0), 0, None, true),
            (tokens, spent(0, 0), 1, None, false),
            (tokens, spent(30, 1), 2, Some(&largest), true),
            (tokens, spent(40, 1), 2, Some(&largest), false),
            (tokens, spent(99, 1), 0, Some(&largest), true),
            (tokens, spent(100, 1), 0, Some(&largest), false),
            (Budget::default(), spent(u64::MAX, u64::MAX), u64::MAX, None, true),
        ] {
            assert_eq!(budget.has_room(&spent, open, known), room, "{budget:?} {spent:?} {open}");
        }
    }

    #[test]
    fn money_is_counted_in_micro_dollars() {
        let task = task::Budget { usd: Some(0.5), minutes: Some(2), ..task::Budget::default() };
        let budget = Budget::of(&task);
        assert_eq!(budget.0.micro_usd, Some(500_000));
        assert_eq!(budget.0.milliseconds, Some(120_000));
        let used = Used { micro_usd: 1_234_567, ..Used::default() };
        let spent = Spent { used, time: 61_000 };
        let shown = |limit: BudgetLimit| limit.shown(spent.of_limit(limit));
        assert_eq!(shown(BudgetLimit::Money), "1.2345");
        assert_eq!(shown(BudgetLimit::Time), "1:01");
    }
}
