//! `bailiwick resume` and `bailiwick attach`: going on with a conversation.

use std::time::Duration;

use bailiwick_control::dispatch::Asked;
use bailiwick_model::AgentId;
use bailiwick_model::attempt::Allowance;
use bailiwick_runner::supervisor::{Reply, Request, RunDirectory};
use clap::Args;

use super::approvals::whose;
use super::run::{How, Wanted, hold};
use super::stop::ask;
use crate::agent_names;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::running::view::View;
use crate::running::{Start, interrupt, recover};

/// Go on with an agent that was stopped, cut off, timed out or has spent its budget
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick resume fix-42\n  bailiwick resume fix-42 --tokens \
                        500000\n  bailiwick resume fix-42 -m 'leave the parser alone'")]
pub struct Resume {
    /// The agent
    agent: AgentId,
    /// What it is told
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    budget: Raised,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    format: FormatOption,
}

/// A budget in the place of what the task says; what is not named stays.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Raised {
    /// Tokens, in and out, from the run's beginning
    #[arg(long, value_name = "N", help_heading = "Budget")]
    tokens: Option<u64>,
    /// United States dollars
    #[arg(long, value_name = "AMOUNT", help_heading = "Budget")]
    usd: Option<f64>,
    /// Answers of the model
    #[arg(long, value_name = "N", help_heading = "Budget")]
    turns: Option<u64>,
    /// Minutes
    #[arg(long, value_name = "N", help_heading = "Budget")]
    minutes: Option<u64>,
    /// Tool calls
    #[arg(long, value_name = "N", help_heading = "Budget")]
    tool_calls: Option<u64>,
}

impl Raised {
    fn allowance(self) -> Option<Allowance> {
        let task = bailiwick_model::task::Budget {
            tokens: self.tokens,
            usd: self.usd,
            turns: self.turns,
            minutes: self.minutes,
            tool_calls: self.tool_calls,
        };
        let allowance = bailiwick_control::supervision::Budget::of(&task).0;
        (allowance != Allowance::default()).then_some(allowance)
    }
}

impl Resume {
    /// Does what was asked.
    pub fn run(mut self, context: &Context) -> Result<(), Failure> {
        interrupt::begin();
        recover::find(context)?;
        self.agent = agent_names::resolve(context, &self.agent)?;
        let start = Start::Resume(self.message);
        let wanted = Wanted { budget: self.budget.allowance(), ..Wanted::default() };
        hold(context, &self.agent, &start, &self.how, wanted, self.format.format)
    }
}

/// Watch an agent, or say something to it
///
/// Without a message, shows what the agent does until it has ended, and lets you answer what it asks.
/// With one, the agent hears it when it has ended its turn; one that has ended is taken up again.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick attach fix-42\n  bailiwick attach fix-42 'also add a \
                        test'"
)]
pub struct Attach {
    /// The agent
    agent: AgentId,
    /// What it is told
    message: Option<String>,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    format: FormatOption,
}

impl Attach {
    /// Does what was asked.
    pub fn run(mut self, context: &Context) -> Result<(), Failure> {
        interrupt::begin();
        recover::find(context)?;
        self.agent = agent_names::existing(context, &self.agent)?;
        let directory = RunDirectory::new(&context.state, self.agent.as_str());
        let held = directory.is_held().unwrap_or(false);
        match (self.message, held) {
            (Some(text), true) => match ask(&directory, &self.agent, &Request::Message { text })? {
                Reply::Refused(why) => Err(Failure::general(why)),
                Reply::Done | Reply::Standing(_) => {
                    output::note("it hears this when its turn has ended");
                    Ok(())
                }
            },
            (message @ Some(_), false) => {
                let start = Start::Resume(message);
                let wanted = Wanted::default();
                hold(context, &self.agent, &start, &self.how, wanted, self.format.format)
            }
            (None, true) => watch(context, &self.agent, self.format),
            (None, false) => Err(Failure::usage(format!("`{}` is not at work", self.agent))
                .help(format!("say something to it: bailiwick attach {} 'TEXT'", self.agent))),
        }
    }
}

/// Shows what an agent does from now on, and lets the person answer what it asks.
fn watch(context: &Context, agent: &AgentId, format: FormatOption) -> Result<(), Failure> {
    let directory = RunDirectory::new(&context.state, agent.as_str());
    let mut view = View::start(format.format == Format::Json, directory.clone());
    if !matches!(whose(context, agent, "")?, Asked::Elsewhere) {
        view = view.only_looking();
    }
    let kept = context.database.open()?;
    let mut after = 0;
    // What was before is told by `logs`; what is asked and not answered is asked again.
    while let Some(last) =
        kept.with(async |store| store.run_events(agent, after, 1000).await)?.last()
    {
        after = last.number;
    }
    if let Reply::Standing(standing) = ask(&directory, agent, &Request::Status)? {
        standing.questions.iter().for_each(|(id, about)| view.ask(id, about));
    }
    loop {
        let over = !directory.is_held().unwrap_or(false);
        let events = kept.with(async |store| store.run_events(agent, after, 1000).await)?;
        for event in &events {
            view.show(event);
            after = event.number;
        }
        if events.is_empty() && over {
            return Ok(());
        }
        if events.is_empty() {
            std::thread::sleep(Duration::from_millis(150));
        }
    }
}
