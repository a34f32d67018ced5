//! What is reserved for whom. What an agent gives to those below it goes off its own budget at once,
//! and comes back, but for what they used, when they have ended.

use bailiwick_control::delegation::budget::Tree;
use bailiwick_control::delegation::estimate::Known;
use bailiwick_control::supervision::Spent;
use bailiwick_control::supervision::budget::{Budget, Limit};
use bailiwick_model::attempt::{Allowance, Used};
use bailiwick_model::{AgentId, Delegate};
use bailiwick_runner::supervisor::{self, Progress, Reply, Request, RunDirectory};

use super::session::{Session, said};
use crate::wire;

/// What the caller has, and what those below it were given of it.
pub(super) struct Purse {
    parent: AgentId,
    /// What it may still spend by itself, and what it has spent.
    live: Progress,
    /// What it has given so far.
    given: Allowance,
    tree: Tree,
}

impl Session {
    /// What an agent at work has to give.
    pub(super) fn purse(&self, parent: &Delegate, all: &[Delegate]) -> Result<Purse, String> {
        let directory = RunDirectory::new(&self.context.state, parent.run.as_str());
        let live = match supervisor::ask(&directory, &Request::Status) {
            Ok(Some(Reply::Standing(standing))) => standing.progress,
            Ok(Some(Reply::Done | Reply::Refused(_)) | None) | Err(_) => {
                return Err(format!("`{}` is not at work, and starts nobody", parent.run));
            }
        };
        let whole = each(|limit| {
            let live = Budget(live.budget).of_limit(limit)?;
            let given = Budget(parent.given).of_limit(limit).unwrap_or_default();
            Some(live.saturating_add(given))
        });
        let mut tree = Tree::new(parent.run.clone(), whole).spend(&parent.run, &spent(&live.used));
        for child in all.iter().filter(|one| one.parent.as_ref() == Some(&parent.run)) {
            tree = tree.granted(&parent.run, &child.run, child.reserved);
            if !self.is_busy(child) {
                tree = tree.settle(&child.run, &self.used_below(child, all)?);
            }
        }
        Ok(Purse { parent: parent.run.clone(), live, given: parent.given, tree })
    }

    /// What an agent used, with what those below it used or may still use.
    fn used_below(&self, one: &Delegate, all: &[Delegate]) -> Result<Spent, String> {
        let attempts = wire::with_store(&self.context, async |store| {
            Ok(store.attempts(Some(&one.run)).await?)
        });
        let mut used = Used::default();
        for attempt in attempts.map_err(said)? {
            add(&mut used, &attempt.used);
        }
        for child in all.iter().filter(|child| child.parent.as_ref() == Some(&one.run)) {
            let below = self.used_below(child, all)?.used;
            let held = child.reserved;
            let most = |used: u64, held: Option<u64>| used.max(held.unwrap_or_default());
            add(
                &mut used,
                &match self.is_busy(child) {
                    false => below,
                    true => Used {
                        tokens: most(below.tokens, held.tokens),
                        micro_usd: most(below.micro_usd, held.micro_usd),
                        turns: most(below.turns, held.turns),
                        tool_calls: most(below.tool_calls, held.tool_calls),
                        denied: below.denied,
                    },
                },
            );
        }
        Ok(spent(&used))
    }

    /// Whether somebody supervises a run.
    pub(super) fn at_work(&self, run: &AgentId) -> bool {
        // What cannot be seen may be at work.
        RunDirectory::new(&self.context.state, run.as_str()).is_held().unwrap_or(true)
    }

    /// Whether what is reserved for an agent is needed: it is at work, or about to be.
    pub(super) fn is_busy(&self, one: &Delegate) -> bool {
        one.pending || self.at_work(&one.run)
    }

    /// What earlier runs of a template took.
    pub(super) fn earlier(&self, agent_type: &str, all: &[Delegate]) -> Result<Vec<Spent>, String> {
        let same = all.iter().filter(|one| one.agent_type == agent_type);
        let ended = same.filter(|one| one.depth > 0 && !self.is_busy(one));
        ended.map(|one| self.used_below(one, all)).collect()
    }

    /// Takes what was reserved off the budget of an agent at work.
    pub(super) fn charge(&self, mut parent: Delegate, purse: &Purse) -> Result<(), String> {
        parent.given = purse.given();
        self.keep(&parent)?;
        let directory = RunDirectory::new(&self.context.state, parent.run.as_str());
        let budget = purse.left();
        match supervisor::ask(&directory, &Request::Raise { budget }) {
            Ok(Some(Reply::Done | Reply::Standing(_))) => Ok(()),
            Ok(Some(Reply::Refused(why))) => Err(why),
            Ok(None) => Err(format!("`{}` is not at work any more", parent.run)),
            Err(error) => Err(format!("the supervisor of `{}`: {error}", parent.run)),
        }
    }
}

impl Session {
    /// Gives back what those below the caller did not use. Called in its turn.
    pub(super) fn settle(&self) -> Result<(), String> {
        let all = self.delegates()?;
        let own = self.caller.as_ref().and_then(|id| all.iter().find(|one| one.run == *id));
        // A person has no budget, and one that is not at work nothing to spend.
        let Some(own) = own.filter(|own| self.at_work(&own.run)) else { return Ok(()) };
        let purse = self.purse(own, &all)?;
        self.charge(own.clone(), &purse)
    }

    /// An error if the one above has not left what an agent may still spend of what it was given.
    pub(super) fn require_rest(&self, one: &Delegate) -> Result<(), String> {
        let all = self.delegates()?;
        let parent = one.parent.as_ref().and_then(|id| all.iter().find(|one| one.run == *id));
        // A person may give what the one above has not.
        let (Some(caller), Some(parent)) = (&self.caller, parent) else { return Ok(()) };
        if parent.run != *caller {
            return Err(format!(
                "only `{}`, which started it, can take `{}` up again",
                parent.run, one.run
            ));
        }
        let purse = self.purse(parent, &all)?;
        let used = self.used_below(one, &all)?;
        for limit in Limit::ALL.into_iter().filter(|limit| *limit != Limit::Time) {
            let reserved = Budget(one.reserved).of_limit(limit);
            let left = purse.tree.remaining(&parent.run, limit);
            let (Some(reserved), Some(left)) = (reserved, left) else { continue };
            let rest = reserved.saturating_sub(used.of_limit(limit));
            if rest > left {
                return Err(format!(
                    "`{}` could still spend {rest} {}, and only {left} are left",
                    one.run,
                    limit.as_str()
                ));
            }
        }
        Ok(())
    }
}

impl Purse {
    /// Reserves what a run is thought to take; gives what it may spend.
    pub(super) fn reserve(&mut self, run: &AgentId, known: &Known) -> Result<Allowance, String> {
        let tree = std::mem::replace(&mut self.tree, Tree::new(run.clone(), Allowance::default()));
        let (tree, reserved) = tree.reserve(&self.parent, run, known);
        self.tree = tree;
        reserved.map_err(|refusal| refusal.to_string())
    }

    /// What those below have of it now: what is reserved for them, or what they used.
    fn given(&self) -> Allowance {
        each(|limit| {
            Budget(self.live.budget).of_limit(limit)?;
            let own = spent(&self.live.used).of_limit(limit);
            Some(self.tree.taken(&self.parent, limit).saturating_sub(own))
        })
    }

    /// What it may spend by itself, from its beginning.
    fn left(&self) -> Allowance {
        let given = self.given();
        each(|limit| {
            let live = Budget(self.live.budget).of_limit(limit)?;
            let before = Budget(self.given).of_limit(limit).unwrap_or_default();
            let now = Budget(given).of_limit(limit).unwrap_or_default();
            Some(live.saturating_add(before).saturating_sub(now))
        })
    }
}

/// An allowance, one limit after the other. Time is nobody's to give: all clocks run at once.
fn each(amount: impl Fn(Limit) -> Option<u64>) -> Allowance {
    Allowance {
        tokens: amount(Limit::Tokens),
        micro_usd: amount(Limit::Money),
        turns: amount(Limit::Turns),
        milliseconds: amount(Limit::Time),
        tool_calls: amount(Limit::ToolCalls),
    }
}

fn add(sum: &mut Used, more: &Used) {
    sum.tokens = sum.tokens.saturating_add(more.tokens);
    sum.micro_usd = sum.micro_usd.saturating_add(more.micro_usd);
    sum.turns = sum.turns.saturating_add(more.turns);
    sum.tool_calls = sum.tool_calls.saturating_add(more.tool_calls);
    sum.denied = sum.denied.saturating_add(more.denied);
}

fn spent(used: &Used) -> Spent {
    Spent { used: *used, ..Spent::default() }
}
