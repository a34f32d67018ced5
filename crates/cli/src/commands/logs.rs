//! `bailiwick logs`: what an agent did, said and was denied, in order.

use std::io::IsTerminal as _;
use std::time::Duration;

use bailiwick_engine::agent_names;
use bailiwick_engine::context::Context;
use bailiwick_model::{AgentId, Event};
use bailiwick_runner::supervisor::RunDirectory;
use clap::Args;

use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::view;

/// Show the tool calls, denials and messages of an agent
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick logs fix-42\n  bailiwick logs -f fix-42\n  bailiwick \
                        logs fix-42 -o json | jq 'select(.kind == \"decision\")'"
)]
pub struct Logs {
    /// The agent
    agent: AgentId,
    /// Follow until the agent has ended
    #[arg(short, long)]
    follow: bool,
    /// Show only the last N lines
    #[arg(short = 'n', long, value_name = "N")]
    last: Option<usize>,
    #[command(flatten)]
    format: FormatOption,
}

/// The number of events in one read.
const PAGE: u32 = 1000;

impl Logs {
    /// Runs the command.
    pub fn run(mut self, context: &Context) -> Result<(), Failure> {
        self.agent = agent_names::require(context, &self.agent)?;
        let kept = context.database.open()?;
        let directory = RunDirectory::new(&context.state, self.agent.as_str());
        let mut after = 0;
        let mut first = true;
        loop {
            // Checks first whether it has ended, so that no earlier event is missed.
            let over = !directory.is_supervised().unwrap_or(false);
            let mut events = Vec::new();
            loop {
                let page =
                    kept.with(async |store| store.run_events(&self.agent, after, PAGE).await)?;
                let Some(last) = page.last() else { break };
                after = last.number;
                events.extend(page);
                if !first {
                    break;
                }
            }
            let skip =
                self.last.filter(|_| first).map_or(0, |last| events.len().saturating_sub(last));
            for event in events.iter().skip(skip) {
                self.print(event)?;
            }
            first = false;
            if events.is_empty() && (!self.follow || over) {
                return Ok(());
            }
            if self.follow && events.is_empty() {
                std::thread::sleep(Duration::from_millis(150));
            }
        }
    }

    fn print(&self, event: &Event) -> Result<(), Failure> {
        match self.format.format {
            Format::Json => {
                let text = serde_json::to_string(event).map_err(|error| {
                    Failure::general(format!("an event cannot be written as JSON: {error}"))
                })?;
                output::plain(&(text + "\n"));
            }
            Format::Human => {
                if let Some(line) = view::line(event) {
                    let clock = format!("{}  ", view::clock(event.at));
                    if std::io::stdout().is_terminal() {
                        let lines = view::folded(event, &line, &clock);
                        lines.iter().for_each(output::line);
                    } else {
                        output::line(format_args!("{clock}{line}"));
                    }
                }
            }
        }
        Ok(())
    }
}
