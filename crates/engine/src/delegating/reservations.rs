//! Budget reservations in a tree of agents. A reservation for a child is subtracted from the parent's budget
//! at once; the unused part returns when the child has ended.
//!
//! ```text
//! total budget of an agent (`Delegate::reserved`)
//!   = its own budget, which its supervisor enforces
//!   + the reservations of its running descendants and the usage of the ended ones (`Delegate::given`)
//! ```
//!
//! Comes in: the stored runs with their attempts, and what running supervisors report. Goes out: stored shares, and
//! new own budgets for the supervisors. The rules are in `lifecycle::delegation::budget`.
//!
//! 1. A spawn returns unused reservations (`release_unused`), reads the tree (`reservations`), reserves the budget
//!    of the child (`BudgetReservations::reserve`), and reduces that of the caller (`charge`).
//! 2. A resumed agent needs a budget (`require_raised`), and its ancestors need the unused part of it
//!    (`require_available`).
//! 3. Each run that starts or continues receives its own budget (`allotted`), and its ancestors are charged.

use std::collections::BTreeMap;

use bailiwick_lifecycle::delegation::budget::Tree;
use bailiwick_lifecycle::delegation::estimate::Known;
use bailiwick_lifecycle::supervision::Spent;
use bailiwick_lifecycle::supervision::budget::{Budget, BudgetLimit};
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::{AgentId, Delegate};
use bailiwick_runner::supervisor::{self, Progress, Reply, Request, RunDirectory};

use super::run_budgets::{each_limit, limits_or, option_to_raise, total_budget};
use super::service::DelegationService;
use crate::failure::Failure;

/// How many earlier runs of a template an estimate uses, newest first.
const MAX_EARLIER_RUNS: usize = 100;

/// The budget of an agent, with the reservations of its descendants.
pub(super) struct BudgetReservations {
    /// The agent, with its total budget.
    agent: Delegate,
    /// The usage of the agent itself, without its descendants.
    own_usage: Spent,
    tree: Tree,
}

/// The steps of a spawn.
impl DelegationService {
    /// Returns the unused reservations of ended descendants to the caller. Requires the spawn lock.
    pub(super) fn release_unused(&self) -> Result<(), Failure> {
        let Some(caller) = &self.caller else { return Ok(()) };
        self.release_unused_to(caller, &self.delegates()?)
    }

    /// The same for any agent. Nothing is to do for an agent that does not run, and for a person, who has no budget.
    fn release_unused_to(&self, run: &AgentId, all: &[Delegate]) -> Result<(), Failure> {
        let agent = all.iter().find(|one| one.run == *run);
        let Some(agent) = agent.filter(|agent| self.at_work(&agent.run)) else { return Ok(()) };
        let reservations = self.reservations(agent, all)?;
        self.charge(&reservations)
    }

    /// The usage of earlier runs of a template, each with its descendants.
    pub(super) fn earlier_usage(
        &self,
        agent_type: &str,
        all: &[Delegate],
    ) -> Result<Vec<Spent>, Failure> {
        let same_type = all.iter().rev().filter(|one| one.agent_type == agent_type);
        let ended = same_type.filter(|one| one.depth > 0 && !self.is_busy(one));
        let ended: Vec<&Delegate> = ended.take(MAX_EARLIER_RUNS).collect();
        if ended.is_empty() {
            return Ok(Vec::new());
        }
        let tree = self.tree(Tree::default(), all, None)?;
        let usage = |one: &Delegate| {
            let used = |limit| tree.taken(&one.run, limit);
            without_time(&Used {
                tokens: used(BudgetLimit::Tokens),
                micro_usd: used(BudgetLimit::Money),
                turns: used(BudgetLimit::Turns),
                tool_calls: used(BudgetLimit::ToolCalls),
                denied: 0,
            })
        };
        // A run that never started has no usage, and would distort the estimate.
        let counted = ended.into_iter().map(usage).filter(|usage| *usage != Spent::default());
        Ok(counted.collect())
    }

    /// The reservations of a running agent. New ones are made from them.
    pub(super) fn reservations(
        &self,
        agent: &Delegate,
        all: &[Delegate],
    ) -> Result<BudgetReservations, Failure> {
        let progress = self.progress_of(&agent.run)?;
        let reserved = total_budget(agent, Some(progress.budget));
        let agent = Delegate { reserved, ..agent.clone() };
        let own_usage = Spent { used: progress.used, time: progress.time };
        let newest =
            Tree::default().with(agent.parent.as_ref(), &agent.run, reserved, (own_usage, false));
        let tree = self.tree(newest, all, None)?;
        Ok(BudgetReservations { agent, own_usage, tree })
    }

    /// Reserves the budget of an agent that a root session starts: the requested budget, within what is left for all
    /// agents of the session.
    pub(super) fn reserve_of_session(
        &self,
        run: &AgentId,
        known: &Known,
        all: &[Delegate],
    ) -> Result<Allowance, Failure> {
        let Some(session) = self.limited_session()? else { return Ok(known.asked()) };
        let tree = self.tree(Tree::default(), all, None)?;
        tree.reserve(&session, run, known).1.map_err(Failure::refused_by)
    }

    /// Stores the reservations of a running agent, and sends its reduced own budget to its supervisor.
    pub(super) fn charge(&self, reservations: &BudgetReservations) -> Result<(), Failure> {
        let agent = &reservations.agent;
        self.store_delegate(&Delegate {
            given: reservations.share_of_descendants(),
            ..agent.clone()
        })?;
        let directory = RunDirectory::new(&self.context.state, agent.run.as_str());
        let budget = reservations.own_budget();
        match supervisor::ask(&directory, &Request::SetBudget { budget }) {
            Ok(Some(Reply::Done | Reply::Status(_))) => Ok(()),
            Ok(Some(Reply::Refused(why))) => Err(Failure::refused(why)),
            Ok(None) => Err(Failure::general(format!("`{}` does not run any more", agent.run))),
            Err(error) => {
                Err(Failure::general(format!("the supervisor of `{}`: {error}", agent.run)))
            }
        }
    }
}

/// The steps of a run that starts or continues.
impl DelegationService {
    /// Returns an error if an agent has exhausted its budget and no person has raised it since.
    pub(super) fn require_raised(&self, one: &Delegate) -> Result<(), Failure> {
        let Some(last) = self.attempts(&one.run)?.pop() else { return Ok(()) };
        let Some(option) = option_to_raise(one, &last) else { return Ok(()) };
        Err(Failure::general(format!(
            "`{run}` has spent its budget ({}) and waits until a person raises it: bailiwick resume {run} \
             {option}",
            last.detail.lines().next().unwrap_or_default(),
            run = one.run
        )))
    }

    /// Returns an error if an ended agent cannot continue, because its ancestors do not have the unused part of its
    /// budget any more.
    pub(super) fn require_available(&self, one: &Delegate) -> Result<(), Failure> {
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
        let total = total_budget(one, last.map(|last| last.budget));
        tree.take_up(&one.run, &total).1.map(drop).map_err(Failure::refused_by)
    }

    /// The own budget of a run that starts or continues, without the share of its descendants. It is limited by the
    /// run's total budget and by what its ancestors have left.
    ///
    /// `own` is its own budget until now. `raised` is a person's new total budget, which counts from its first attempt.
    pub fn allotted(
        &self,
        run: &AgentId,
        own: Allowance,
        raised: Option<Allowance>,
    ) -> Result<Allowance, Failure> {
        let raised = raised.unwrap_or_default();
        let _turn = self.turn()?;
        let all = self.delegates()?;
        let Some(one) = all.iter().find(|one| one.run == *run) else {
            return Ok(limits_or(raised, own));
        };
        // The caller of a pending run has reserved its budget already.
        let idle = Some(run).filter(|_| !one.pending);
        let tree = self.tree(Tree::default(), &all, idle)?;
        let total = limits_or(raised, total_budget(one, Some(own)));
        let (tree, reserved) = tree.take_up(run, &total);
        let reserved = reserved.map_err(|refusal| {
            Failure::refused(format!("`{run}` cannot continue: {refusal}"))
                .help("what one below the first has to spend comes from the one above it")
        })?;
        let attempts = self.attempts(run)?;
        let used = attempts.iter().fold(Used::default(), |sum, attempt| sum.plus(&attempt.used));
        let agent = Delegate { reserved, ..one.clone() };
        let reservations = BudgetReservations { agent, own_usage: without_time(&used), tree };
        let given = reservations.share_of_descendants();
        self.store_delegate(&Delegate { given, ..reservations.agent.clone() })?;
        self.charge_ancestors(one)?;
        Ok(reservations.own_budget())
    }

    /// Reduces the budgets of running ancestors by what an agent has reserved.
    fn charge_ancestors(&self, one: &Delegate) -> Result<(), Failure> {
        let all = self.delegates()?;
        let mut ancestor = one.parent.as_ref();
        for _ in 0..all.len() {
            let Some(run) = ancestor else { break };
            // If this fails, the agent has just ended and cannot spend anything.
            let _ = self.release_unused_to(run, &all);
            let next = all.iter().find(|one| one.run == *run);
            ancestor = next.and_then(|next| next.parent.as_ref());
        }
        Ok(())
    }
}

/// What both read: the tree, and which agents run.
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
        let mut usage: BTreeMap<AgentId, (Used, Attempt)> = BTreeMap::new();
        for attempt in attempts? {
            let sum =
                usage.get(&attempt.run).map_or(attempt.used, |(sum, _)| sum.plus(&attempt.used));
            usage.insert(attempt.run.clone(), (sum, attempt));
        }
        let session = self.limited_session()?;
        if let Some(session) = &session {
            tree = tree.with(None, session, self.limits, (Spent::default(), false));
        }
        for one in all {
            let recorded = usage.get(&one.run);
            let total = total_budget(one, recorded.map(|(_, last)| last.budget));
            let own_usage = without_time(&recorded.map(|(sum, _)| *sum).unwrap_or_default());
            let has_ended = idle == Some(&one.run) || !self.is_busy(one);
            // A run without a parent that this root session started is a child of the session.
            let own_session = session.as_ref().filter(|_| one.session == self.root);
            let parent = one.parent.as_ref().or(own_session);
            tree = tree.with(parent, &one.run, total, (own_usage, has_ended));
        }
        Ok(tree)
    }

    /// The id of the root session in the tree; `None` if a person has not limited its agents.
    fn limited_session(&self) -> Result<Option<AgentId>, Failure> {
        let Some(root) = &self.root else { return Ok(None) };
        if self.limits == Allowance::default() {
            return Ok(None);
        }
        AgentId::parse(&format!("session-{root}")).map(Some).map_err(Failure::refused_by)
    }

    /// The current usage and budget of a running agent, from its supervisor.
    fn progress_of(&self, run: &AgentId) -> Result<Progress, Failure> {
        let directory = RunDirectory::new(&self.context.state, run.as_str());
        match supervisor::ask(&directory, &Request::Status) {
            Ok(Some(Reply::Status(status))) => Ok(status.progress),
            Ok(Some(Reply::Done | Reply::Refused(_)) | None) | Err(_) => {
                Err(Failure::general(format!("`{run}` is not running, and cannot start an agent")))
            }
        }
    }

    /// Whether its reservation is needed: the agent runs or is about to start.
    pub(super) fn is_busy(&self, one: &Delegate) -> bool {
        one.pending || self.at_work(&one.run)
    }

    /// Whether the agent has a running supervisor.
    pub(super) fn at_work(&self, run: &AgentId) -> bool {
        // If this is unknown, the agent counts as running, so that its reservation stays.
        RunDirectory::new(&self.context.state, run.as_str()).is_supervised().unwrap_or(true)
    }
}

impl BudgetReservations {
    /// Reserves the estimated budget of a run, and returns it.
    pub(super) fn reserve(&mut self, run: &AgentId, known: &Known) -> Result<Allowance, Failure> {
        let tree = std::mem::take(&mut self.tree);
        let (tree, reserved) = tree.reserve(&self.agent.run, run, known);
        self.tree = tree;
        reserved.map_err(Failure::refused_by)
    }

    /// Its own budget, counted from its first attempt: the total without the share of its descendants.
    fn own_budget(&self) -> Allowance {
        let share = self.share_of_descendants();
        each_limit(|limit| {
            let total = Budget(self.agent.reserved).of_limit(limit)?;
            Some(total.saturating_sub(Budget(share).of_limit(limit).unwrap_or_default()))
        })
    }

    /// The share of its descendants: the reservations of running ones, and the usage of ended ones. Time is not shared,
    /// because all agents run at once.
    fn share_of_descendants(&self) -> Allowance {
        each_limit(|limit| {
            Budget(self.agent.reserved).of_limit(limit)?;
            let own = self.own_usage.of_limit(limit);
            Some(self.tree.taken(&self.agent.run, limit).saturating_sub(own))
        })
    }
}

/// Time is not shared in a tree.
fn without_time(used: &Used) -> Spent {
    Spent { used: *used, ..Spent::default() }
}
