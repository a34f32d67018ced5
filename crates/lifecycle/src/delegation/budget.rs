//! One allowance for a tree of runs: reserved before an agent is started, settled when it has ended.
//!
//! A run's allowance is what was reserved for it; its own reservations come out of that. So the tree spends at most
//! the budget of its root, no matter how many runs are active, plus for each agent the one call that was open when
//! it had spent its budget.

use std::collections::BTreeMap;

use bailiwick_model::AgentId;
use bailiwick_model::attempt::Allowance;
use serde::{Deserialize, Serialize};

use super::estimate::{Estimate, Known, Origin, part, set};
use crate::supervision::Spent;
use crate::supervision::budget::{Budget, BudgetLimit};

/// The reservations and usage of a tree of runs. Its supervisor stores it before an agent starts, and reads it again
/// after a kill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    runs: BTreeMap<AgentId, Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    parent: Option<AgentId>,
    allowance: Allowance,
    /// Its own usage, without the runs below it.
    spent: Spent,
    settled: bool,
    /// The limit that it exceeded when it was paused; only a person can continue it.
    paused: Option<BudgetLimit>,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeState {
    /// It may continue, with this budget.
    Open(Allowance),
    /// It has spent all of this, and waits until a person raises it.
    Paused(BudgetLimit),
    /// It has ended.
    Settled,
}

/// Why nothing was reserved, or raised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run that would start another is not in the tree.
    #[error("`{0}` is not in this tree, so it has nothing to give; start it first")]
    Unknown(AgentId),
    /// The id is used already, in another place of the tree.
    #[error("there is a run `{0}` in this tree already; take another id")]
    Taken(AgentId),
    /// It has ended.
    #[error("`{0}` has ended; take another id")]
    Ended(AgentId),
    /// It has exhausted its budget.
    #[error(
        "`{run}` has spent its {}: it starts nothing until a person raises it",
        limit.as_str()
    )]
    Paused {
        /// The run.
        run: AgentId,
        /// The exhausted limit.
        limit: BudgetLimit,
    },
    /// There is no estimate.
    #[error(
        "nobody knows what `{0}` will take; say so with an estimate, or give its template \
         `estimated_tokens`"
    )]
    NoEstimate(AgentId),
    /// The estimate is zero.
    #[error("an estimate of 0 {} is none; say what it will take", limit.as_str())]
    Nothing {
        /// The limit.
        limit: BudgetLimit,
    },
    /// The estimate is more than half of the remaining budget, or all of it.
    #[error(
        "it is thought to take {} {}, and {} are left, of which one agent gets at most half; make \
         its task smaller, or do it yourself",
        limit.shown(*estimate), limit.as_str(), limit.shown(*remaining)
    )]
    TooMuch {
        /// The limit.
        limit: BudgetLimit,
        /// The estimate.
        estimate: u64,
        remaining: u64,
    },
    /// A raise of a run below the root comes from the run above it, which does not have that much.
    #[error(
        "`{parent}` has only {} {} left to give; raise that first",
        limit.shown(*remaining), limit.as_str()
    )]
    ParentHasLess {
        /// The run above.
        parent: AgentId,
        /// The limit.
        limit: BudgetLimit,
        /// The remaining budget of the run above it.
        remaining: u64,
    },
}

impl Tree {
    /// A tree of one run, which may spend this.
    pub fn new(root: AgentId, allowance: Allowance) -> Self {
        let spent = Spent::default();
        let entry = Entry { parent: None, allowance, spent, settled: false, paused: None };
        Self { runs: BTreeMap::from([(root.clone(), entry)]) }.paused(&root)
    }

    /// Reserves the estimate of a run before it starts, and returns its budget. Repeated for the same run, the
    /// answer is the same and nothing more is reserved.
    pub fn reserve(
        mut self,
        parent: &AgentId,
        run: &AgentId,
        known: &Known,
    ) -> (Self, Result<Allowance, Refusal>) {
        match self.plan(parent, run, known) {
            Ok(Planned::Existing(allowance)) => (self, Ok(allowance)),
            Ok(Planned::New(allowance)) => {
                let parent = Some(parent.clone());
                let spent = Spent::default();
                let entry = Entry { parent, allowance, spent, settled: false, paused: None };
                self.runs.insert(run.clone(), entry);
                (self.paused(run), Ok(allowance))
            }
            Err(refusal) => (self, Err(refusal)),
        }
    }

    /// Adds a run with the reservations of it and all runs below, its own usage, and whether it has ended. Nothing
    /// is paused by that.
    #[must_use]
    pub fn with(
        mut self,
        parent: Option<&AgentId>,
        run: &AgentId,
        allowance: Allowance,
        (spent, settled): (Spent, bool),
    ) -> Self {
        let entry = Entry { parent: parent.cloned(), allowance, spent, settled, paused: None };
        self.runs.entry(run.clone()).or_insert(entry);
        self
    }

    /// Resumes a run that has ended, with this total budget for it and all runs below; returns that budget. The runs
    /// above must have room for the increase. If one of them is limited and `total` is not, the run gets half of
    /// what remains.
    pub fn take_up(
        mut self,
        run: &AgentId,
        whole: &Allowance,
    ) -> (Self, Result<Allowance, Refusal>) {
        let Some(entry) = self.runs.get(run) else {
            return (self, Err(Refusal::Unknown(run.clone())));
        };
        let before = entry.clone();
        let above = self.above(run);
        let counted = || BudgetLimit::ALL.into_iter().filter(|limit| *limit != BudgetLimit::Time);
        let mut allowance = *whole;
        for limit in counted().filter(|limit| Budget(*whole).of_limit(*limit).is_none()) {
            let available = above.iter().filter_map(|above| self.remaining(above, limit)).min();
            let taken = self.taken(run, limit);
            set(
                &mut allowance,
                limit,
                available.map(|available| taken.saturating_add(available / 2)),
            );
        }
        let mut changed = self.clone();
        let entry = Entry { allowance, settled: false, paused: None, ..before };
        changed.runs.insert(run.clone(), entry);
        for parent in above {
            for limit in counted() {
                let Some(remaining) = self.remaining(&parent, limit) else { continue };
                let [was, is] = [&self, &changed].map(|tree| tree.taken(&parent, limit));
                if is > was && is - was > remaining {
                    return (self, Err(Refusal::ParentHasLess { parent, limit, remaining }));
                }
            }
        }
        self = changed.paused(run);
        (self, Ok(allowance))
    }

    /// Those above a run, nearest first.
    fn above(&self, run: &AgentId) -> Vec<AgentId> {
        let mut line = Vec::new();
        let mut next = self.runs.get(run).and_then(|entry| entry.parent.as_ref());
        while let Some(parent) = next.filter(|parent| !line.contains(*parent)) {
            line.push(parent.clone());
            next = self.runs.get(parent).and_then(|entry| entry.parent.as_ref());
        }
        line
    }

    fn plan(&self, parent: &AgentId, run: &AgentId, known: &Known) -> Result<Planned, Refusal> {
        if let Some(entry) = self.runs.get(run) {
            return match (entry.parent.as_ref() == Some(parent), entry.settled) {
                (false, _) => Err(Refusal::Taken(run.clone())),
                (true, true) => Err(Refusal::Ended(run.clone())),
                (true, false) => Ok(Planned::Existing(entry.allowance)),
            };
        }
        let Some(above) = self.runs.get(parent) else {
            return Err(Refusal::Unknown(parent.clone()));
        };
        match (above.settled, above.paused) {
            (true, _) => return Err(Refusal::Ended(parent.clone())),
            (false, Some(limit)) => return Err(Refusal::Paused { run: parent.clone(), limit }),
            (false, None) => {}
        }
        let share = self.share(parent, known);
        let mut allowance = Allowance::default();
        for limit in BudgetLimit::ALL {
            let remaining = self.remaining(parent, limit);
            let estimate = known
                .of(limit)
                .or_else(|| known.by_price(limit))
                .or_else(|| Some(share?.of(remaining?)))
                .or_else(|| quarter(remaining).filter(|_| known.is_anything()));
            let most = Budget(known.most).of_limit(limit).unwrap_or(u64::MAX);
            let estimate = estimate.map(|one| Estimate { amount: one.amount.min(most), ..one });
            match (limit, estimate, remaining) {
                // All clocks run in parallel: time that one run does not use is not available to another.
                (BudgetLimit::Time, estimate, remaining) => {
                    let estimated = estimate.filter(|estimated| estimated.origin != Origin::Share);
                    let most = [estimated.map(|estimated| estimated.amount), remaining];
                    set(&mut allowance, limit, most.into_iter().flatten().min());
                }
                (_, Some(Estimate { amount: 0, .. }), _) => return Err(Refusal::Nothing { limit }),
                (_, Some(Estimate { amount, .. }), Some(remaining)) => {
                    if amount > remaining / 2 || amount >= remaining {
                        return Err(Refusal::TooMuch { limit, estimate: amount, remaining });
                    }
                    set(
                        &mut allowance,
                        limit,
                        Some(estimate.map_or(amount, |one| one.room(remaining))),
                    );
                }
                // A run without a limit passes on only limits that were requested.
                (_, Some(Estimate { amount, origin: Origin::Caller }), None) => {
                    set(&mut allowance, limit, Some(amount))
                }
                (_, Some(_), None) => {}
                // It cannot use more than that, so it may have all of it.
                (_, None, Some(remaining)) if most <= remaining / 2 => {
                    set(&mut allowance, limit, Some(most));
                }
                (_, None, Some(_)) => return Err(Refusal::NoEstimate(run.clone())),
                (_, None, None) => {}
            }
            known.bound(&mut allowance, limit);
        }
        Ok(Planned::New(allowance))
    }

    /// The largest share of the remaining budget that a known estimate takes. Limits without an estimate get the
    /// same share.
    fn share(&self, parent: &AgentId, known: &Known) -> Option<Share> {
        let counted = BudgetLimit::ALL.into_iter().filter(|limit| *limit != BudgetLimit::Time);
        let shares = counted.filter_map(|limit| {
            let amount = known.of(limit)?.amount;
            Some(Share { amount, whole: self.remaining(parent, limit)?.max(1) })
        });
        shares.max_by(|one, other| {
            let [left, right] = [(one, other), (other, one)]
                .map(|(one, other)| u128::from(one.amount) * u128::from(other.whole));
            left.cmp(&right)
        })
    }

    /// Records the total usage of a run so far, without the runs below it. It never decreases.
    #[must_use]
    pub fn spend(mut self, run: &AgentId, spent: &Spent) -> Self {
        if let Some(entry) = self.runs.get_mut(run).filter(|entry| !entry.settled) {
            entry.spent = larger(&entry.spent, spent);
        }
        self.paused(run)
    }

    /// Records that a run has ended with this usage; the rest of its reservation is released. Only the first time
    /// counts.
    #[must_use]
    pub fn settle(mut self, run: &AgentId, actual: &Spent) -> Self {
        if let Some(entry) = self.runs.get_mut(run).filter(|entry| !entry.settled) {
            entry.spent = larger(&entry.spent, actual);
            entry.settled = true;
        }
        self.paused(run)
    }

    /// Raises the budget of a run for a person. For a run below the root, the increase comes from the run above it.
    pub fn raise(mut self, run: &AgentId, by: &Allowance) -> (Self, Result<TreeState, Refusal>) {
        let Some(entry) = self.runs.get(run) else {
            return (self, Err(Refusal::Unknown(run.clone())));
        };
        if entry.settled {
            return (self, Err(Refusal::Ended(run.clone())));
        }
        if let Some(parent) = entry.parent.clone() {
            for limit in BudgetLimit::ALL.into_iter().filter(|limit| *limit != BudgetLimit::Time) {
                let extra = Budget(*by).of_limit(limit).unwrap_or_default();
                let remaining = self.remaining(&parent, limit).unwrap_or(u64::MAX);
                if extra > 0 && extra >= remaining {
                    return (self, Err(Refusal::ParentHasLess { parent, limit, remaining }));
                }
            }
        }
        if let Some(entry) = self.runs.get_mut(run) {
            for limit in BudgetLimit::ALL {
                let most = Budget(entry.allowance).of_limit(limit);
                let extra = Budget(*by).of_limit(limit).unwrap_or_default();
                set(&mut entry.allowance, limit, most.map(|most| most.saturating_add(extra)));
            }
            entry.paused = None;
        }
        self = self.paused(run);
        let standing = self.standing(run).ok_or_else(|| Refusal::Unknown(run.clone()));
        (self, standing)
    }

    /// The state of a run; `None` if it is not in the tree.
    pub fn standing(&self, run: &AgentId) -> Option<TreeState> {
        let entry = self.runs.get(run)?;
        if entry.settled {
            return Some(TreeState::Settled);
        }
        if let Some(limit) = entry.paused {
            return Some(TreeState::Paused(limit));
        }
        let mut remaining = Allowance::default();
        for limit in BudgetLimit::ALL {
            set(&mut remaining, limit, self.remaining(run, limit));
        }
        Some(TreeState::Open(remaining))
    }

    /// The remaining budget of a run for a limit: without its usage, its reservations for others, and the usage
    /// below it.
    pub fn remaining(&self, run: &AgentId, limit: BudgetLimit) -> Option<u64> {
        let most = Budget(self.runs.get(run)?.allowance).of_limit(limit)?;
        Some(most.saturating_sub(self.taken(run, limit)))
    }

    /// The usage of a run, with all runs below it and their reservations.
    pub fn taken(&self, run: &AgentId, limit: BudgetLimit) -> u64 {
        let mut below: BTreeMap<&AgentId, Vec<&AgentId>> = BTreeMap::new();
        for (child, entry) in &self.runs {
            if let Some(parent) = &entry.parent {
                below.entry(parent).or_default().push(child);
            }
        }
        self.taken_among(&below, run, limit)
    }

    fn taken_among(
        &self,
        below: &BTreeMap<&AgentId, Vec<&AgentId>>,
        run: &AgentId,
        limit: BudgetLimit,
    ) -> u64 {
        let own = self.runs.get(run).map_or(0, |entry| entry.spent.of_limit(limit));
        if limit == BudgetLimit::Time {
            return own;
        }
        let started = below.get(run).into_iter().flatten();
        let taken = started.filter_map(|child| {
            let entry = self.runs.get(*child)?;
            let taken = self.taken_among(below, child, limit);
            Some(match entry.settled {
                true => taken,
                // A run that exceeds its reservation counts with its usage.
                false => taken.max(Budget(entry.allowance).of_limit(limit).unwrap_or_default()),
            })
        });
        taken.fold(own, u64::saturating_add)
    }

    /// Pauses a run and those above it that have nothing left; no others have changed. Budget that is released later
    /// does not continue them: a person does.
    fn paused(mut self, run: &AgentId) -> Self {
        let mut next = Some(run.clone());
        while let Some(run) = next {
            let empty =
                BudgetLimit::ALL.into_iter().find(|limit| self.remaining(&run, *limit) == Some(0));
            let Some(entry) = self.runs.get_mut(&run) else { break };
            if !entry.settled && entry.paused.is_none() {
                entry.paused = empty;
            }
            next = entry.parent.clone();
        }
        self
    }
}

enum Planned {
    New(Allowance),
    Existing(Allowance),
}

#[derive(Debug, Clone, Copy)]
struct Share {
    amount: u64,
    whole: u64,
}

impl Share {
    /// The same share of another total, and at least 1.
    fn of(self, remaining: u64) -> Estimate {
        part(remaining, self.amount, self.whole)
    }
}

fn larger(one: &Spent, other: &Spent) -> Spent {
    let (mut most, new) = (*one, other);
    let used = &mut most.used;
    used.tokens = used.tokens.max(new.used.tokens);
    used.micro_usd = used.micro_usd.max(new.used.micro_usd);
    used.turns = used.turns.max(new.used.turns);
    used.tool_calls = used.tool_calls.max(new.used.tool_calls);
    used.denied = used.denied.max(new.used.denied);
    most.time = most.time.max(new.time);
    most
}
/// A quarter of what remains, for a limit without any estimate.
fn quarter(remaining: Option<u64>) -> Option<Estimate> {
    remaining.map(|available| Estimate { amount: available / 4, origin: Origin::Share })
}
