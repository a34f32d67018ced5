//! `bailiwick stop`: ends an agent; its work stays.

use std::time::{Duration, Instant};

use bailiwick_model::AgentId;
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use clap::Args;
use serde::Serialize;

use crate::agent_names;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::running::recover;

/// End agents that are at work; what they have done stays
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick stop fix-42\n  bailiwick stop fix-42 fix-43")]
pub struct Stop {
    /// The agents
    #[arg(required = true)]
    agents: Vec<AgentId>,
    /// Why; kept with the run
    #[arg(long, value_name = "TEXT", default_value = "stopped by hand")]
    reason: String,
    #[command(flatten)]
    format: FormatOption,
}

/// An agent that was stopped, for programs.
#[derive(Debug, Serialize)]
struct Stopped {
    agent_id: String,
    reason: String,
}

/// How long an agent gets to be gone.
const PATIENCE: Duration = Duration::from_secs(60);

impl Stop {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        recover::find(context)?;
        let mut stopped = Vec::new();
        for name in &self.agents {
            let agent = &agent_names::existing(context, name)?;
            let directory = RunDirectory::new(&context.state, agent.as_str());
            let why = self.reason.clone();
            match ask(&directory, agent, &Request::Stop { why })? {
                Reply::Done | Reply::Standing(_) => {}
                Reply::Refused(why) => return Err(Failure::general(why)),
            }
            let late = Instant::now() + PATIENCE;
            while directory.is_held().unwrap_or(false) {
                if Instant::now() > late {
                    return Err(Failure::general(format!("`{agent}` did not end in time")));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let reason = self.reason.clone();
            stopped.push(Stopped { agent_id: agent.to_string(), reason });
            if self.format.format == Format::Human {
                output::line(format_args!("stopped   {agent}"));
                output::next_step(format_args!(
                    "go on with it: bailiwick resume {agent}{}",
                    context.repeated
                ));
            }
        }
        match self.format.format {
            Format::Human => Ok(()),
            Format::Json => output::json(&stopped),
        }
    }
}

/// Asks the supervisor of an agent; an error if it has none.
pub(crate) fn ask(
    directory: &RunDirectory,
    agent: &AgentId,
    request: &Request,
) -> Result<Reply, Failure> {
    let answer = supervisor::ask(directory, request).map_err(|error| {
        Failure::general(format!("the supervisor of `{agent}` did not answer: {error}"))
    })?;
    answer.ok_or_else(|| {
        Failure::usage(format!("`{agent}` is not at work"))
            .help("`bailiwick ps --all` says how it ended")
    })
}
