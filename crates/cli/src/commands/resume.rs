//! `bailiwick resume` and `bailiwick attach`: going on with a conversation.

use std::time::Duration;

use bailiwick_engine::background::{self, ResumeOptions};
use bailiwick_engine::context::Context;
use bailiwick_engine::options::{IfClosed, RunOptions};
use bailiwick_engine::running::control::{ask, not_at_work, require_unfinished, state};
use bailiwick_engine::running::observer::RunView as _;
use bailiwick_engine::running::service::{self, RunRequest};
use bailiwick_engine::running::{Start, bound_issue, recover, run_list};
use bailiwick_engine::{agent_names, system};
use bailiwick_fleet::controllers::QuestionOwner;
use bailiwick_model::AgentId;
use bailiwick_model::attempt::Allowance;
use bailiwick_runner::supervisor::{Reply, Request, RunDirectory};
use clap::Args;

use super::approvals::whose;
use super::options::RunArguments;
use super::run::{print_started, run_and_print};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Format, FormatOption};
use crate::view::{View, live_status::LiveStatus};

/// Continue an agent that was stopped, interrupted, timed out or has spent its budget
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick resume fix-42\n  bailiwick resume fix-42 --tokens \
                        500000\n  bailiwick resume fix-42 -m 'leave the parser alone'\n  bailiwick resume -d fix-42")]
pub struct Resume {
    /// The agent
    agent: AgentId,
    /// A message to the agent
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Run in the background
    #[arg(short, long)]
    detach: bool,
    #[command(flatten)]
    budget: Raised,
    #[command(flatten)]
    arguments: RunArguments,
    #[command(flatten)]
    format: FormatOption,
}

/// A budget in the place of what the task says; what is not named stays.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Raised {
    /// New total of tokens, input and output, since the start of the run
    #[arg(long, value_name = "N", help_heading = "Budget")]
    tokens: Option<u64>,
    /// New total of United States dollars
    #[arg(long, value_name = "AMOUNT", help_heading = "Budget")]
    usd: Option<f64>,
    /// New total of turns (answers of the model)
    #[arg(long, value_name = "N", help_heading = "Budget")]
    turns: Option<u64>,
    /// New total of minutes
    #[arg(long, value_name = "N", help_heading = "Budget")]
    minutes: Option<u64>,
    /// New total of tool calls
    #[arg(long, value_name = "N", help_heading = "Budget")]
    tool_calls: Option<u64>,
}

impl Raised {
    /// The same as arguments for another process.
    fn arguments(self) -> Vec<String> {
        let named = [
            ("--tokens", self.tokens.map(|value| value.to_string())),
            ("--usd", self.usd.map(|value| value.to_string())),
            ("--turns", self.turns.map(|value| value.to_string())),
            ("--minutes", self.minutes.map(|value| value.to_string())),
            ("--tool-calls", self.tool_calls.map(|value| value.to_string())),
        ];
        let given = named.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        given.flatten().collect()
    }

    /// The budget from now on; nothing if no option sets one.
    pub(super) fn allowance(self) -> Option<Allowance> {
        let task = bailiwick_model::task::Budget {
            tokens: self.tokens,
            usd: self.usd,
            turns: self.turns,
            minutes: self.minutes,
            tool_calls: self.tool_calls,
            unlimited: false,
        };
        let allowance = bailiwick_lifecycle::supervision::Budget::of(&task).0;
        (allowance != Allowance::default()).then_some(allowance)
    }
}

impl Resume {
    /// Runs the command.
    pub fn run(mut self, context: &Context) -> Result<(), Failure> {
        interrupt::begin();
        recover::record_interrupted_runs(context)?;
        bound_issue::complete_pending(context);
        self.agent = agent_names::require(context, &self.agent)?;
        if self.message.is_none() {
            require_unfinished(context, &self.agent)?;
        }
        if self.detach {
            service::require_startable(context, &self.agent, &Start::Resume(None))?;
            let again =
                ResumeOptions { words: self.message.as_deref(), budget: self.budget.arguments() };
            let log = background::resume(context, &self.agent, &self.arguments.into(), &again)?;
            return print_started(context, &self.agent, &log, self.format.format);
        }
        let start = Start::Resume(self.message);
        let (options, budget) = (self.arguments.into(), self.budget.allowance());
        resume(context, &self.agent, start, options, budget, self.format.format)
    }
}

/// Resumes an agent for a person.
fn resume(
    context: &Context,
    agent: &AgentId,
    start: Start,
    options: RunOptions,
    budget: Option<Allowance>,
    format: Format,
) -> Result<(), Failure> {
    let (if_closed, quiet) = (IfClosed::default(), format == Format::Json);
    let request = RunRequest { start, options, budget, if_closed, quiet };
    run_and_print(context, agent, &request, format)
}

/// Watch an agent, or send it a message
///
/// Without a message, shows what the agent does until it has ended and lets you answer its
/// requests; Ctrl-C leaves it running. A message reaches the agent at the end of its turn; an agent
/// that has ended is resumed.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick attach fix-42\n  bailiwick attach fix-42 'also add a \
                        test'"
)]
pub struct Attach {
    /// The agent
    agent: AgentId,
    /// A message to the agent
    message: Option<String>,
    #[command(flatten)]
    arguments: RunArguments,
    #[command(flatten)]
    format: FormatOption,
}

impl Attach {
    /// Runs the command.
    pub fn run(mut self, context: &Context) -> Result<(), Failure> {
        interrupt::begin();
        recover::record_interrupted_runs(context)?;
        self.agent = agent_names::require(context, &self.agent)?;
        let directory = RunDirectory::new(&context.state, self.agent.as_str());
        let held = directory.is_supervised().unwrap_or(false);
        match (self.message, held) {
            (Some(text), true) => match ask(context, &self.agent, &Request::Message { text })? {
                Reply::Refused(why) => Err(Failure::usage(why)),
                Reply::Done | Reply::Status(_) => {
                    output::note("it gets this message when its turn has ended");
                    Ok(())
                }
            },
            (message @ Some(_), false) => {
                service::require_startable(context, &self.agent, &Start::Resume(None))?;
                let (agent, state) = (&self.agent, state(context, &self.agent)?);
                output::note(format_args!("`{agent}` is {state}: it is resumed with this message"));
                let start = Start::Resume(message);
                let options = self.arguments.into();
                resume(context, &self.agent, start, options, None, self.format.format)
            }
            (None, true) => watch(context, &self.agent, self.format),
            (None, false) => Err(not_at_work(context, &self.agent)?.into()),
        }
    }
}

/// Prints new events of an agent, and lets the person answer its questions.
fn watch(context: &Context, agent: &AgentId, format: FormatOption) -> Result<(), Failure> {
    let directory = RunDirectory::new(&context.state, agent.as_str());
    let kept = context.database.open()?;
    let attempts = kept.with(async |store| store.attempts(Some(agent)).await)?;
    let so_far = Duration::from_millis(run_list::elapsed(&attempts, system::now_ms()));
    let (mut standing, mut after) = (LiveStatus::after(so_far), 0);
    // `logs` prints earlier events; open questions are asked again.
    loop {
        let events = kept.with(async |store| store.run_events(agent, after, 1000).await)?;
        let Some(last) = events.last() else { break };
        after = last.number;
        events.iter().for_each(|event| standing.count(event));
    }
    let mut view = View::of(format.format == Format::Json, directory.clone(), standing);
    interrupt::set_notice(format!(
        "`{agent}` goes on; watch it again: bailiwick attach {agent}{global_options}; end it: bailiwick stop \
         {agent}{global_options}",
        global_options = context.global_options
    ));
    if !matches!(whose(context, agent, "")?, QuestionOwner::Elsewhere) {
        view = view.only_looking();
    }
    if let Reply::Status(standing) = ask(context, agent, &Request::Status)? {
        standing.questions.iter().for_each(|(id, about)| view.ask(id, about));
    }
    loop {
        let over = !directory.is_supervised().unwrap_or(false);
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
