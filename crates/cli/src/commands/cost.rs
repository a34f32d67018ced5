//! `bailiwick cost`: what a run has used, attempt by attempt.

use bailiwick_control::supervision::budget::Limit;
use bailiwick_model::{AgentId, Attempt};
use clap::Args;

use crate::agent_names;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::wire;

/// Show what an agent has used, and of how much
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick cost fix-42\n  bailiwick cost fix-42 -o json")]
pub struct Cost {
    /// The agent
    agent: AgentId,
    #[command(flatten)]
    format: FormatOption,
}

impl Cost {
    /// Does what was asked.
    pub fn run(mut self, context: &Context) -> Result<(), Failure> {
        self.agent = agent_names::require(context, &self.agent)?;
        let attempts =
            wire::with_store(context, async |store| Ok(store.attempts(Some(&self.agent)).await?))?;
        if self.format.format == Format::Json {
            return output::json(&attempts);
        }
        if attempts.is_empty() {
            output::note(format_args!("`{}` has not run", self.agent));
        }
        attempts.iter().for_each(show);
        Ok(())
    }
}

fn show(attempt: &Attempt) {
    let ending = attempt.ending.map_or("at work".to_owned(), |ending| ending.to_string());
    output::line(format_args!(
        "attempt {}  {} {}  {ending}",
        attempt.number, attempt.cli, attempt.model
    ));
    let (used, budget) = (&attempt.used, &attempt.budget);
    let until = attempt.ended_at.unwrap_or_else(wire::now_ms);
    let time = until.saturating_sub(attempt.started_at);
    for (limit, used, of) in [
        (Limit::Tokens, used.tokens, budget.tokens),
        (Limit::Money, used.micro_usd, budget.micro_usd),
        (Limit::Turns, used.turns, budget.turns),
        (Limit::Time, time, budget.milliseconds),
        (Limit::ToolCalls, used.tool_calls, budget.tool_calls),
    ] {
        let of = of.map(|of| format!(" of {}", limit.shown(of))).unwrap_or_default();
        output::line(format_args!("  {:10}  {}{of}", limit.as_str(), limit.shown(used)));
    }
}
