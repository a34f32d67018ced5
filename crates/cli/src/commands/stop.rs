//! `bailiwick stop`: ends an agent; its work stays.

use std::time::{Duration, Instant};

use bailiwick_engine::agent_names;
use bailiwick_engine::agent_state::{AgentState, Seen};
use bailiwick_engine::context::Context;
use bailiwick_engine::running::recover;
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::{AgentId, RunStatus};
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Stop running agents; their work is kept
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick stop fix-42\n  bailiwick stop fix-42 fix-43")]
pub struct Stop {
    /// The agents
    #[arg(required = true)]
    agents: Vec<AgentId>,
    /// The reason, recorded with the run
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
            let agent = &agent_names::require(context, name)?;
            let directory = RunDirectory::new(&context.state, agent.as_str());
            let why = self.reason.clone();
            match ask(context, agent, &Request::Stop { why })? {
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

/// How long a supervisor that makes its agent ready is waited for.
const STARTING: Duration = Duration::from_secs(20);

/// Asks the supervisor of an agent; an error if it has none.
pub(crate) fn ask(context: &Context, agent: &AgentId, request: &Request) -> Result<Reply, Failure> {
    let directory = RunDirectory::new(&context.state, agent.as_str());
    let late = Instant::now() + STARTING;
    loop {
        let answer = supervisor::ask(&directory, request).map_err(|error| {
            Failure::general(format!("the supervisor of `{agent}` did not answer: {error}"))
        })?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
        if !directory.is_held().unwrap_or(false) {
            return Err(not_at_work(context, agent)?);
        }
        // It answers from the moment that its agent is started.
        if Instant::now() > late {
            return Err(Failure::general(format!("`{agent}` is still being made ready"))
                .help(format!("try again in a moment; see it: bailiwick logs -f {agent}")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// That an agent is not at work, how it stands instead, and what can be done with it.
pub(crate) fn not_at_work(context: &Context, agent: &AgentId) -> Result<Failure, Failure> {
    let (run, attempts) = context.with_store(async |store| {
        Ok((store.find(agent).await?, store.attempts(Some(agent)).await?))
    })?;
    let Some(run) = run else {
        return Ok(Failure::usage(format!("`{agent}` is not at work"))
            .help(format!("see what it did: bailiwick logs {agent}")));
    };
    let state = AgentState::of(&run, attempts.last(), Seen::Free);
    let failure = Failure::usage(format!("`{agent}` is not at work: it is {state}"));
    Ok(failure.help(match state {
        AgentState::Ready => format!("start it: bailiwick run {agent}"),
        AgentState::Ended(_) | AgentState::Failed if run.status != RunStatus::Failed => {
            format!("go on with it: bailiwick resume {agent}")
        }
        AgentState::Done => format!("tell it more: bailiwick attach {agent} 'TEXT'"),
        AgentState::HalfSpawned
        | AgentState::Running
        | AgentState::AtWork
        | AgentState::Asks
        | AgentState::Ended(_)
        | AgentState::Failed
        | AgentState::Merged
        | AgentState::RolledBack
        | AgentState::Rejected => format!("see what it did: bailiwick logs {agent}"),
    }))
}
