//! `bailiwick cost`: what a run has used, attempt by attempt; or what all runs of a repository have used.

mod total;

use std::collections::BTreeSet;

use bailiwick_engine::context::Context;
use bailiwick_engine::{agent_names, system, verifying};
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_lifecycle::supervision::budget::BudgetLimit;
use bailiwick_lifecycle::supervision::prices::Prices;
use bailiwick_model::event::{EventKind, ExitReason, Usage};
use bailiwick_model::{AgentId, Attempt, Event};
use bailiwick_runner::agents;
use bailiwick_store::Store;
use clap::Args;
use serde_json::{Value, json};

use crate::commands::store::with_store;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// The number of events in one read.
const PAGE: u32 = 1000;

/// Show what an agent, or all agents of this repository, have spent
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick cost\n  bailiwick cost fix-42\n  bailiwick cost fix-42 -o json"
)]
pub struct Cost {
    /// The agent; by default all agents of this repository and their total
    agent: Option<AgentId>,
    /// Show the agents of all repositories
    #[arg(long, conflicts_with = "agent")]
    all_repos: bool,
    #[command(flatten)]
    format: FormatOption,
}

impl Cost {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let Some(name) = &self.agent else {
            return total::show(context, self.all_repos, self.format.format);
        };
        let agent = agent_names::require(context, name)?;
        let (run, attempts, events) = with_store(context, async |store| {
            let attempts = store.attempts(Some(&agent)).await?;
            Ok((store.find(&agent).await?, attempts, usages(store, &agent).await?))
        })?;
        let repository = run.as_ref().and_then(|run| agent_names::repository_of(context, run));
        let base = run.as_ref().and_then(|run| run.base.as_deref());
        let settings = repository.zip(base).map(|(found, base)| verifying::settings(&found, base));
        // If the repository is gone, its prices are not known.
        let prices = settings.and_then(Result::ok).map(|settings| Prices::new(settings.prices));
        let costs: Vec<AttemptCost> = attempts
            .iter()
            .enumerate()
            .map(|(number, attempt)| {
                let next = attempts.get(number + 1).map_or(u64::MAX, |next| next.started_at);
                let within = |(at, _): &&(u64, Usage)| (attempt.started_at..next).contains(at);
                let usages = events.iter().filter(within).map(|(_, usage)| usage);
                AttemptCost::of(attempt, usages.collect(), prices.as_ref())
            })
            .collect();
        if self.format.format == Format::Json {
            return output::json(&costs.iter().map(AttemptCost::json).collect::<Vec<_>>());
        }
        if attempts.is_empty() {
            output::note(format_args!("`{agent}` has not run"));
        }
        costs.iter().for_each(AttemptCost::show);
        Ok(())
    }
}

/// Every answer of a model that was counted, with its time.
async fn usages(store: &Store, run: &AgentId) -> Result<Vec<(u64, Usage)>, Failure> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let page: Vec<Event> = store.run_events(run, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = last.number;
        for event in page {
            if let EventKind::Usage(usage) = event.what {
                found.push((event.at, usage));
            }
        }
    }
}

/// An attempt, and how well it is known what it has used.
struct AttemptCost<'a> {
    attempt: &'a Attempt,
    /// Whether a response was cut off, so that its tokens are an estimate.
    tokens_estimated: bool,
    /// Models that it has used and no settings state a price of.
    unpriced_models: BTreeSet<String>,
}

impl<'a> AttemptCost<'a> {
    fn of(attempt: &'a Attempt, usages: Vec<&Usage>, prices: Option<&Prices>) -> Self {
        let is_priced = |model: &str| match prices {
            Some(prices) => prices.of(model).is_some(),
            None => attempt.used.micro_usd > 0,
        };
        let models = usages.iter().map(|usage| &usage.model).filter(|model| !is_priced(model));
        Self {
            attempt,
            tokens_estimated: may_lack_an_answer(attempt)
                || usages.iter().any(|usage| usage.estimated),
            unpriced_models: models.cloned().collect(),
        }
    }

    /// Whether anything is known of what it cost.
    fn is_priced(&self) -> bool {
        self.unpriced_models.is_empty() || self.attempt.used.micro_usd > 0
    }

    fn json(&self) -> Value {
        let mut value = json!(self.attempt);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("tokens_estimated".to_owned(), json!(self.tokens_estimated));
            fields.insert("unpriced_models".to_owned(), json!(self.unpriced_models));
        }
        if let Some(money) = value.pointer_mut("/used/micro_usd").filter(|_| !self.is_priced()) {
            *money = Value::Null;
        }
        value
    }

    fn show(&self) {
        let attempt = self.attempt;
        let ending = attempt.ending.map_or("working".to_owned(), |ending| ending.to_string());
        let model = if attempt.model.is_empty() { "" } else { " " };
        output::line(format_args!(
            "attempt {}  {}{model}{}  {ending}",
            attempt.number, attempt.cli, attempt.model
        ));
        let (used, budget) = (&attempt.used, &attempt.budget);
        let until = attempt.ended_at.unwrap_or_else(system::now_ms);
        let time = until.saturating_sub(attempt.started_at);
        for (limit, used, of) in [
            (BudgetLimit::Tokens, used.tokens, budget.tokens),
            (BudgetLimit::Money, used.micro_usd, budget.micro_usd),
            (BudgetLimit::Turns, used.turns, budget.turns),
            (BudgetLimit::Time, time, budget.milliseconds),
            (BudgetLimit::ToolCalls, used.tool_calls, budget.tool_calls),
        ] {
            let of = of.map(|of| format!(" of {}", limit.shown(of))).unwrap_or_default();
            let shown = match limit {
                BudgetLimit::Money if !self.is_priced() => "-".to_owned(),
                BudgetLimit::Tokens
                | BudgetLimit::Money
                | BudgetLimit::Turns
                | BudgetLimit::Time
                | BudgetLimit::ToolCalls => limit.shown(used),
            };
            let text = format!("{shown}{of}{}", self.remark(limit));
            output::wrapped(&format!("  {:10}  ", limit.as_str()), &text);
        }
    }

    /// A note that is needed to read a number.
    fn remark(&self, limit: BudgetLimit) -> String {
        match limit {
            BudgetLimit::Tokens if self.tokens_estimated => {
                " (an estimate: an answer may have been cut short)".to_owned()
            }
            BudgetLimit::Money if !self.unpriced_models.is_empty() => {
                let models: Vec<&str> = self.unpriced_models.iter().map(String::as_str).collect();
                format!(" (no price is known of {}: see [prices])", models.join(", "))
            }
            BudgetLimit::Tokens
            | BudgetLimit::Money
            | BudgetLimit::Turns
            | BudgetLimit::Time
            | BudgetLimit::ToolCalls => String::new(),
        }
    }
}

/// Whether an attempt was ended while a model may have been answering.
fn may_lack_an_answer(attempt: &Attempt) -> bool {
    let has_model =
        agents::adapter(&attempt.cli).is_none_or(|adapter| adapter.model_api().is_some());
    let is_cut_short = match attempt.ending {
        Some(ExitReason::Stopped | ExitReason::TimedOut | ExitReason::CutOff) => true,
        Some(
            ExitReason::Completed
            | ExitReason::Failed
            | ExitReason::BudgetExhausted
            | ExitReason::EnforcementLost
            | ExitReason::Denied,
        )
        | None => false,
    };
    has_model && is_cut_short
}

#[cfg(test)]
mod tests {
    use bailiwick_model::attempt::{Allowance, Used};
    use bailiwick_model::event::Phase;
    use bailiwick_model::settings::Price;

    use super::*;

    fn attempt(ending: ExitReason, micro_usd: u64) -> Attempt {
        Attempt {
            run: AgentId::parse("one").unwrap(),
            number: 1,
            cli: "claude-code".to_owned(),
            version: String::new(),
            model: String::new(),
            login: String::new(),
            sandbox: String::new(),
            session: None,
            phase: Phase::Over,
            ending: Some(ending),
            detail: String::new(),
            exhausted: None,
            started_at: 0,
            ended_at: Some(1),
            used: Used { tokens: 7, micro_usd, ..Used::default() },
            budget: Allowance::default(),
        }
    }

    fn usage(model: &str) -> Usage {
        Usage { model: model.to_owned(), input: 7, ..Usage::default() }
    }

    #[test]
    fn money_is_null_without_prices_and_the_model_is_named() {
        let (attempt, usage) = (attempt(ExitReason::Completed, 0), usage("gpt-x"));
        let cost = AttemptCost::of(&attempt, vec![&usage], Some(&Prices::default()));
        assert_eq!(cost.json()["used"]["micro_usd"], Value::Null);
        assert_eq!(cost.json()["unpriced_models"], json!(["gpt-x"]));
        assert!(cost.remark(BudgetLimit::Money).contains("gpt-x"));
        assert_eq!(cost.remark(BudgetLimit::Tokens), "");
    }

    #[test]
    fn money_covers_priced_models_and_names_the_others() {
        let price = Price { input: 1.0, output: 1.0, cache_read: None, cache_write: None };
        let prices = Prices::new([("claude-*".to_owned(), price)]);
        let attempt = attempt(ExitReason::Completed, 7);
        let (priced, other) = (usage("claude-x"), usage("gpt-x"));
        let cost = AttemptCost::of(&attempt, vec![&priced], Some(&prices));
        assert_eq!(
            (&cost.json()["used"]["micro_usd"], cost.remark(BudgetLimit::Money)),
            (&json!(7), String::new())
        );
        let cost = AttemptCost::of(&attempt, vec![&priced, &other], Some(&prices));
        assert_eq!(cost.json()["used"]["micro_usd"], json!(7));
        assert_eq!(cost.json()["unpriced_models"], json!(["gpt-x"]));
    }

    #[test]
    fn tokens_are_estimated_if_a_response_was_interrupted() {
        let (done, stopped) = (attempt(ExitReason::Completed, 0), attempt(ExitReason::Stopped, 0));
        let complete = usage("m");
        let cut = Usage { estimated: true, ..usage("m") };
        let estimated =
            |attempt, usage| AttemptCost::of(attempt, vec![usage], None).tokens_estimated;
        assert!(!estimated(&done, &complete));
        assert!(estimated(&done, &cut));
        assert!(estimated(&stopped, &complete));
        let script = Attempt { cli: "script".to_owned(), ..stopped.clone() };
        assert!(
            !AttemptCost::of(&script, Vec::new(), None).tokens_estimated,
            "a script has no model"
        );
    }
}
