//! The budget of an attempt: usage, reservations and warnings.

use bailiwick_lifecycle::supervision::budget::BudgetLimit;
use bailiwick_lifecycle::supervision::{Budget, BudgetState};
use bailiwick_model::attempt::{Allowance, Exhausted};
use bailiwick_model::event::{EventKind, ReportedBy, Usage};
use tokio::sync::watch;

use super::AttemptState;

impl AttemptState {
    /// Whether the price of a model is known; true if the budget is not in money.
    pub(in crate::supervisor) fn has_known_price(&self, model: &str) -> bool {
        let state = self.state();
        state.budget.0.micro_usd.is_none() || self.prices.of(model).is_some()
    }

    /// A model response is complete.
    pub(in crate::supervisor) fn on_response(&self, agent: Option<&str>, usage: &Usage) {
        let mut state = self.state();
        let money = self.prices.cost(usage);
        state.spent.answered(usage, money.unwrap_or_default());
        state.open_requests = state.open_requests.saturating_sub(1);
        let largest = state.largest.get_or_insert_default();
        largest.tokens = largest.tokens.max(usage.tokens());
        largest.micro_usd = largest.micro_usd.max(money.unwrap_or_default());
        let is_unpriced = money.is_none() && state.budget.0.micro_usd.is_some();
        if state.model.is_empty() {
            state.model.clone_from(&usage.model);
        }
        let turn = state.turns.entry(agent.map(str::to_owned)).or_default();
        *turn += 1;
        let turn = *turn;
        drop(state);
        self.budget_changed.send_replace(());
        // A model may respond under another name than the requested one.
        if is_unpriced {
            let why =
                format!("the price of {} is not known, and the budget is in dollars", usage.model);
            self.exhaust(Exhausted::Price, &why);
        }
        self.record_event(ReportedBy::Proxy, agent, EventKind::Turn { turn });
        self.record_event(ReportedBy::Proxy, agent, EventKind::Usage(usage.clone()));
        self.publish_progress();
    }

    /// Reserves budget for one more model request; false if the open requests may exhaust it. The
    /// reservation ends with `on_response` or `release_request`.
    pub(in crate::supervisor) fn reserve_request(&self) -> bool {
        let mut state = self.state();
        let room = state.budget.has_room(&state.spent, state.open_requests, state.largest.as_ref());
        state.open_requests = state.open_requests.saturating_add(u64::from(room));
        room
    }

    /// Releases the reservation of a request that got no response.
    pub(in crate::supervisor) fn release_request(&self) {
        let mut state = self.state();
        state.open_requests = state.open_requests.saturating_sub(1);
        drop(state);
        self.budget_changed.send_replace(());
    }

    /// Notifies when the budget changed: a response, a new budget, or the end.
    pub(in crate::supervisor) fn watch_budget(&self) -> watch::Receiver<()> {
        self.budget_changed.subscribe()
    }

    /// The state of the budget; warns once for each limit that is nearly spent.
    pub(in crate::supervisor) fn budget_state(&self) -> BudgetState {
        let mut state = self.state();
        state.spent.time = self.time();
        let budget_state = state.budget.budget_state(&state.spent);
        let news: Vec<BudgetLimit> = match &budget_state {
            BudgetState::Fine => Vec::new(),
            BudgetState::Near(limits) => limits.clone(),
            BudgetState::Exhausted(limit) => vec![*limit],
        };
        let exhausted = matches!(budget_state, BudgetState::Exhausted(_));
        let news: Vec<EventKind> = news
            .into_iter()
            .filter(|limit| match exhausted {
                true => !state.reported_exhausted.contains(limit),
                false => !state.warned.contains(limit),
            })
            .map(|limit| (limit, state.budget.event(limit, &state.spent)))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(limit, what)| {
                match exhausted {
                    true => state.reported_exhausted.push(limit),
                    false => state.warned.push(limit),
                }
                what
            })
            .collect();
        drop(state);
        for what in news {
            self.record_event(ReportedBy::Supervisor, None, what);
        }
        budget_state
    }

    /// The notice for the agent that its tokens are nearly used: once, unless it was not delivered.
    pub(in crate::supervisor) fn near_limit_notice(&self) -> Option<String> {
        let is_near = match self.budget_state() {
            BudgetState::Near(limits) => limits.contains(&BudgetLimit::Tokens),
            BudgetState::Fine | BudgetState::Exhausted(_) => false,
        };
        let mut state = self.state();
        if !is_near || std::mem::replace(&mut state.limit_is_known, true) {
            return None;
        }
        let limit = state.budget.of_limit(BudgetLimit::Tokens).unwrap_or_default();
        let used = state.spent.of_limit(BudgetLimit::Tokens);
        Some(format!("{used} of {limit} tokens are used"))
    }

    /// The notice was not delivered.
    pub(in crate::supervisor) fn forget_limit(&self) {
        self.state().limit_is_known = false;
    }

    pub(super) fn time(&self) -> u64 {
        let since = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.earlier_ms.saturating_add(since)
    }

    /// Replaces the budget.
    pub(in crate::supervisor) fn set_budget(&self, budget: Allowance) {
        let mut state = self.state();
        state.budget = Budget(budget);
        state.warned.clear();
        state.reported_exhausted.clear();
        drop(state);
        self.budget_changed.send_replace(());
        self.publish_progress();
    }
}

/// The exhausted budget behind a limit.
pub(in crate::supervisor) fn exhausted_by(limit: BudgetLimit) -> Exhausted {
    match limit {
        BudgetLimit::Tokens => Exhausted::Tokens,
        BudgetLimit::Money => Exhausted::Usd,
        BudgetLimit::Turns => Exhausted::Turns,
        BudgetLimit::Time => Exhausted::Minutes,
        BudgetLimit::ToolCalls => Exhausted::ToolCalls,
    }
}
