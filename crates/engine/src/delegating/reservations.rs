//! Budget reservations in a tree of agents. A reservation for a child is subtracted from the parent's budget
//! at once; the unused part returns when the child has ended.
//!
//! ```text
//! total budget of an agent (`Delegate::reserved`)
//!   = its own budget, which its supervisor enforces
//!   + the reservations of its running descendants and the usage of the ended ones (`Delegate::given`)
//! ```
//!
//! The rules are in `lifecycle::delegation::budget`. This module reads the tree from the store and sends new
//! own budgets to the supervisors of running agents.

use std::collections::BTreeMap;

use bailiwick_lifecycle::delegation::budget::Tree;
use bailiwick_lifecycle::delegation::estimate::Known;
use bailiwick_lifecycle::supervision::Spent;
use bailiwick_lifecycle::supervision::budget::{Budget, Limit};
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, Delegate};
use bailiwick_runner::supervisor::{self, Progress, Reply, Request, RunDirectory};

use super::service::DelegationService;
use crate::failure::Failure;
use crate::options::raise_option;

/// How many earlier runs of a template an estimate uses, newest first.
const MAX_EARLIER_RUNS: usize = 100;

/// The budget of a running agent, with the reservations of its descendants.
pub(super) struct BudgetReservations {
    /// The agent, with its total budget.
    parent: Delegate,
    /// The usage of the agent itself, without its descendants.
    own: Spent,
    tree: Tree,
}

impl DelegationService {
    /// Adds every delegated run to `tree`, with its usage and its reservation. `idle` counts as ended, even while
    /// it is locked. Existing entries of `tree` are newer than the store and stay.
    fn tree(
        &self,
        mut tree: Tree,
        all: &[Delegate],
        idle: Option<&AgentId>,
    ) -> Result<Tree, Failure> {
        let attempts = self.context.with_store(async |store| Ok(store.attempts(None).await?));
        let mut used: BTreeMap<AgentId, (Used, Attempt)> = BTreeMap::new();
        for attempt in attempts? {
            let sum =
                used.get(&attempt.run).map_or(attempt.used, |(sum, _)| sum.plus(&attempt.used));
            used.insert(attempt.run.clone(), (sum, attempt));
        }
        let session = self.session_reservations()?;
        if let Some(session) = &session {
            tree = tree.with(None, session, self.limits, (Spent::default(), false));
        }
        for one in all {
            let known = used.get(&one.run);
            let whole = whole(one, known.map(|(_, last)| last.budget));
            let own = spent(&known.map(|(sum, _)| *sum).unwrap_or_default());
            let ended = idle == Some(&one.run) || !self.is_busy(one);
            // A run without a parent that this root session started is a child of the session.
            let own_session = session.as_ref().filter(|_| one.session == self.root);
            let parent = one.parent.as_ref().or(own_session);
            tree = tree.with(parent, &one.run, whole, (own, ended));
        }
        Ok(tree)
    }

    /// The id of the root session in the tree; `None` if a person has not limited its agents.
    fn session_reservations(&self) -> Result<Option<AgentId>, Failure> {
        let Some(root) = &self.root else { return Ok(None) };
        if self.limits == Allowance::default() {
            return Ok(None);
        }
        AgentId::parse(&format!("session-{root}")).map(Some).map_err(Failure::refused_by)
    }

    /// Reserves the budget of an agent that a root session starts: the requested budget, within what is left for all
    /// agents of the session.
    pub(super) fn reserve_of_session(
        &self,
        run: &AgentId,
        known: &Known,
        all: &[Delegate],
    ) -> Result<Allowance, Failure> {
        let Some(session) = self.session_reservations()? else { return Ok(known.asked()) };
        let tree = self.tree(Tree::default(), all, None)?;
        tree.reserve(&session, run, known).1.map_err(Failure::refused_by)
    }

    /// The current usage and budget of a running agent, from its supervisor.
    fn live(&self, run: &AgentId) -> Result<Progress, Failure> {
        let directory = RunDirectory::new(&self.context.state, run.as_str());
        match supervisor::ask(&directory, &Request::Status) {
            Ok(Some(Reply::Status(standing))) => Ok(standing.progress),
            Ok(Some(Reply::Done | Reply::Refused(_)) | None) | Err(_) => {
                Err(Failure::general(format!("`{run}` is not running, and cannot start an agent")))
            }
        }
    }

    /// The reservations of a running agent. New ones are made from them.
    pub(super) fn reservations(
        &self,
        parent: &Delegate,
        all: &[Delegate],
    ) -> Result<BudgetReservations, Failure> {
        let live = self.live(&parent.run)?;
        let mut parent = parent.clone();
        parent.reserved = whole(&parent, Some(live.budget));
        let own = Spent { used: live.used, time: live.time };
        let first = Tree::default().with(
            parent.parent.as_ref(),
            &parent.run,
            parent.reserved,
            (own, false),
        );
        let tree = self.tree(first, all, None)?;
        Ok(BudgetReservations { parent, own, tree })
    }

    /// Whether the agent has a running supervisor.
    pub(super) fn at_work(&self, run: &AgentId) -> bool {
        // If this is unknown, the agent counts as running, so that its reservation stays.
        RunDirectory::new(&self.context.state, run.as_str()).is_supervised().unwrap_or(true)
    }

    /// Whether its reservation is needed: the agent runs or is about to start.
    pub(super) fn is_busy(&self, one: &Delegate) -> bool {
        one.pending || self.at_work(&one.run)
    }

    /// The usage of earlier runs of a template, each with its descendants.
    pub(super) fn earlier(
        &self,
        agent_type: &str,
        all: &[Delegate],
    ) -> Result<Vec<Spent>, Failure> {
        let same = all.iter().rev().filter(|one| one.agent_type == agent_type);
        let ended = same.filter(|one| one.depth > 0 && !self.is_busy(one)).take(MAX_EARLIER_RUNS);
        let ended: Vec<&Delegate> = ended.collect();
        if ended.is_empty() {
            return Ok(Vec::new());
        }
        let tree = self.tree(Tree::default(), all, None)?;
        let took = |one: &Delegate| {
            let taken = |limit| tree.taken(&one.run, limit);
            spent(&Used {
                tokens: taken(Limit::Tokens),
                micro_usd: taken(Limit::Money),
                turns: taken(Limit::Turns),
                tool_calls: taken(Limit::ToolCalls),
                denied: 0,
            })
        };
        // A run that never started has no usage, and would distort the estimate.
        let counted = ended.into_iter().map(took).filter(|took| *took != Spent::default());
        Ok(counted.collect())
    }

    /// Stores the reservations of a running agent, and sends its reduced own budget to its supervisor.
    pub(super) fn charge(&self, reservations: &BudgetReservations) -> Result<(), Failure> {
        let mut parent = reservations.parent.clone();
        parent.given = reservations.given();
        self.keep(&parent)?;
        let directory = RunDirectory::new(&self.context.state, parent.run.as_str());
        let budget = reservations.left();
        match supervisor::ask(&directory, &Request::SetBudget { budget }) {
            Ok(Some(Reply::Done | Reply::Status(_))) => Ok(()),
            Ok(Some(Reply::Refused(why))) => Err(Failure::refused(why)),
            Ok(None) => Err(Failure::general(format!("`{}` does not run any more", parent.run))),
            Err(error) => {
                Err(Failure::general(format!("the supervisor of `{}`: {error}", parent.run)))
            }
        }
    }

    /// Returns the unused reservations of ended descendants to the caller. Requires the spawn lock.
    pub(super) fn release_unused(&self) -> Result<(), Failure> {
        let Some(caller) = &self.caller else { return Ok(()) };
        self.settle_for(caller, &self.delegates()?)
    }

    /// The same for any agent. Nothing is to do for an agent that does not run, and for a person, who has no budget.
    fn settle_for(&self, run: &AgentId, all: &[Delegate]) -> Result<(), Failure> {
        let own = all.iter().find(|one| one.run == *run);
        let Some(own) = own.filter(|own| self.at_work(&own.run)) else { return Ok(()) };
        let reservations = self.reservations(own, all)?;
        self.charge(&reservations)
    }

    /// Returns an error if an ended agent cannot continue, because its ancestors do not have the unused part of its
    /// budget any more.
    pub(super) fn require_rest(&self, one: &Delegate) -> Result<(), Failure> {
        if self.caller.is_some() && one.parent != self.caller {
            let parent = one.parent.as_ref().map(AgentId::as_str).unwrap_or_default();
            let run = &one.run;
            return Err(Failure::general(format!(
                "only `{parent}`, which started it, can take `{run}` up again"
            )));
        }
        let all = self.delegates()?;
        let last = self.attempts(&one.run)?.pop();
        let tree = self.tree(Tree::default(), &all, None)?;
        let taken = tree.take_up(&one.run, &whole(one, last.map(|last| last.budget))).1;
        taken.map(drop).map_err(Failure::refused_by)
    }

    /// Returns an error if an agent has exhausted its budget and no person has raised it since.
    pub(super) fn require_raised(&self, one: &Delegate) -> Result<(), Failure> {
        let Some(last) = self.attempts(&one.run)?.pop() else { return Ok(()) };
        let Some(option) = to_raise(one, &last) else { return Ok(()) };
        Err(Failure::general(format!(
            "`{run}` has spent its budget ({}) and waits until a person raises it: bailiwick resume {run} \
             {option}",
            last.detail.lines().next().unwrap_or_default(),
            run = one.run
        )))
    }

    /// The own budget of a run that starts or continues, without the share of its descendants. It is limited by the
    /// run's total budget and by what its ancestors have left.
    ///
    /// `own` is its own budget until now. `wished` is a person's new total budget, which counts from its first attempt.
    pub fn allotted(
        &self,
        run: &AgentId,
        own: Allowance,
        wished: Option<Allowance>,
    ) -> Result<Allowance, Failure> {
        let wished = wished.unwrap_or_default();
        let _turn = self.turn()?;
        let all = self.delegates()?;
        let Some(one) = all.iter().find(|one| one.run == *run) else {
            return Ok(or(wished, own));
        };
        // The caller of a pending run has reserved its budget already.
        let idle = Some(run).filter(|_| !one.pending);
        let tree = self.tree(Tree::default(), &all, idle)?;
        let (tree, taken) = tree.take_up(run, &or(wished, whole(one, Some(own))));
        let reserved = taken.map_err(|refusal| {
            Failure::refused(format!("`{run}` cannot continue: {refusal}"))
                .help("what one below the first has to spend comes from the one above it")
        })?;
        let used = self.attempts(run)?;
        let used = used.iter().fold(Used::default(), |sum, attempt| sum.plus(&attempt.used));
        let reservations = BudgetReservations {
            parent: Delegate { reserved, ..one.clone() },
            own: spent(&used),
            tree,
        };
        let kept = Delegate { given: reservations.given(), ..reservations.parent.clone() };
        self.keep(&kept)?;
        // The budgets of running ancestors become smaller by the same amount.
        let all = self.delegates()?;
        let mut above = one.parent.as_ref();
        for _ in 0..all.len() {
            let Some(parent) = above else { break };
            // If this fails, the agent has just ended and cannot spend anything.
            let _ = self.settle_for(parent, &all);
            let next = all.iter().find(|one| one.run == *parent);
            above = next.and_then(|next| next.parent.as_ref());
        }
        Ok(reservations.left())
    }
}

impl BudgetReservations {
    /// Reserves the estimated budget of a run, and returns it.
    pub(super) fn reserve(&mut self, run: &AgentId, known: &Known) -> Result<Allowance, Failure> {
        let tree = std::mem::take(&mut self.tree);
        let (tree, reserved) = tree.reserve(&self.parent.run, run, known);
        self.tree = tree;
        reserved.map_err(Failure::refused_by)
    }

    /// The share of its descendants: the reservations of running ones, and the usage of ended ones. Time is not shared,
    /// because all agents run at once.
    fn given(&self) -> Allowance {
        each(|limit| {
            Budget(self.parent.reserved).of_limit(limit)?;
            let own = self.own.of_limit(limit);
            Some(self.tree.taken(&self.parent.run, limit).saturating_sub(own))
        })
    }

    /// Its own budget, counted from its first attempt: the total without the share of its descendants.
    fn left(&self) -> Allowance {
        let given = self.given();
        each(|limit| {
            let whole = Budget(self.parent.reserved).of_limit(limit)?;
            Some(whole.saturating_sub(Budget(given).of_limit(limit).unwrap_or_default()))
        })
    }
}

/// The total budget of a run with its descendants. For the root of a tree it may not be recorded yet: then it is the
/// sum of its own budget and the share of its descendants.
fn whole(one: &Delegate, own: Option<Allowance>) -> Allowance {
    if one.depth > 0 || one.reserved != Allowance::default() {
        return one.reserved;
    }
    each(|limit| {
        let own = Budget(own.unwrap_or_default()).of_limit(limit)?;
        Some(own.saturating_add(Budget(one.given).of_limit(limit).unwrap_or_default()))
    })
}

/// The option with which a person must raise the exhausted limit of an agent. A run that ended because of a full disk
/// or an unknown price has no such limit: it can be tried again.
fn to_raise(one: &Delegate, last: &Attempt) -> Option<&'static str> {
    if last.ending != Some(ExitReason::BudgetExhausted) || is_raised(one, &last.budget) {
        return None;
    }
    last.exhausted.and_then(raise_option)
}

/// Whether the total budget of a run is larger than at its last attempt, when its own budget was `own`. The share of
/// its descendants has not changed since: that happens only when the run is resumed.
fn is_raised(one: &Delegate, own: &Allowance) -> bool {
    Limit::ALL.into_iter().any(|limit| {
        let given = Budget(one.given).of_limit(limit).unwrap_or_default();
        let had = Budget(*own).of_limit(limit).map(|own| own.saturating_add(given));
        let has = Budget(one.reserved).of_limit(limit);
        had.zip(has).is_some_and(|(had, has)| has > had)
    })
}

/// The first allowance; where it sets no limit, that of the second.
pub fn or(one: Allowance, other: Allowance) -> Allowance {
    each(|limit| Budget(one).of_limit(limit).or_else(|| Budget(other).of_limit(limit)))
}

/// An allowance with the result of `amount` for each limit.
fn each(amount: impl Fn(Limit) -> Option<u64>) -> Allowance {
    Allowance {
        tokens: amount(Limit::Tokens),
        micro_usd: amount(Limit::Money),
        turns: amount(Limit::Turns),
        milliseconds: amount(Limit::Time),
        tool_calls: amount(Limit::ToolCalls),
    }
}

fn spent(used: &Used) -> Spent {
    Spent { used: *used, ..Spent::default() }
}

#[cfg(test)]
mod tests {
    use bailiwick_model::attempt::Exhausted;
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
    fn only_an_exhausted_limit_waits_until_it_is_raised() {
        let turns = |turns| Allowance { turns: Some(turns), ..Allowance::default() };
        let (spent, failed) = (ExitReason::BudgetExhausted, ExitReason::Failed);
        for (ending, exhausted, has, option) in [
            (spent, Some(Exhausted::Turns), 5, Some("--turns N")),
            (spent, Some(Exhausted::Tokens), 5, Some("--tokens N")),
            (spent, Some(Exhausted::Turns), 6, None),
            (spent, Some(Exhausted::Disk), 5, None),
            (spent, Some(Exhausted::Price), 5, None),
            (spent, None, 5, None),
            (failed, Some(Exhausted::Turns), 5, None),
        ] {
            let last = attempt(ending, exhausted, turns(5));
            assert_eq!(to_raise(&delegate(turns(has)), &last), option, "{exhausted:?} {has}");
        }
    }
}
