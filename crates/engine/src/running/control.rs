//! Talking to the supervisor of a run: asking it, stopping its agent, and what else can be done with the run.

use std::time::{Duration, Instant};

use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::{AgentId, RunStatus};
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};

use crate::agent_state::{AgentState, SupervisorState};
use crate::context::Context;
use crate::failure::Failure;

/// How long an agent may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a supervisor that makes its agent ready is waited for.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Asks the supervisor of an agent; an error if it has none.
pub fn ask(context: &Context, agent: &AgentId, request: &Request) -> Result<Reply, Failure> {
    let directory = RunDirectory::new(&context.state, agent.as_str());
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let answer = supervisor::ask(&directory, request).map_err(|error| {
            Failure::general(format!("the supervisor of `{agent}` did not answer: {error}"))
        })?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
        if !is_supervised(&directory, agent)? {
            return Err(not_at_work(context, agent)?);
        }
        // It answers from the moment that its agent is started.
        if Instant::now() > deadline {
            return Err(Failure::general(format!("`{agent}` is still being made ready"))
                .help(format!("try again in a moment; see it: bailiwick logs -f {agent}")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether the agent has a supervisor. A lock that cannot be read is an error, never an agent that has ended.
fn is_supervised(directory: &RunDirectory, agent: &AgentId) -> Result<bool, Failure> {
    directory.is_supervised().map_err(|error| {
        Failure::general(format!("cannot tell whether `{agent}` is running: {error}"))
    })
}

/// Stops an agent, and waits until it is gone. Its work stays.
pub fn stop(context: &Context, agent: &AgentId, why: &str) -> Result<(), Failure> {
    let directory = RunDirectory::new(&context.state, agent.as_str());
    match ask(context, agent, &Request::Stop { why: why.to_owned() })? {
        Reply::Done | Reply::Status(_) => {}
        Reply::Refused(why) => return Err(Failure::general(why)),
    }
    let deadline = Instant::now() + STOP_TIMEOUT;
    while is_supervised(&directory, agent)? {
        if Instant::now() > deadline {
            return Err(Failure::general(format!("`{agent}` did not end in time")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The error for an agent that is not running, with its state and the next step.
pub fn not_at_work(context: &Context, agent: &AgentId) -> Result<Failure, Failure> {
    let (run, attempts) = context.with_store(async |store| {
        Ok((store.find(agent).await?, store.attempts(Some(agent)).await?))
    })?;
    let Some(run) = run else {
        return Ok(Failure::refused(format!("`{agent}` is not running"))
            .help(format!("see what it did: bailiwick logs {agent}")));
    };
    let state = AgentState::of(&run, attempts.last(), SupervisorState::Absent);
    let failure = Failure::refused(format!("`{agent}` is not running: it is {state}"));
    Ok(failure.help(match state {
        AgentState::Ready => format!("start it: bailiwick run {agent}"),
        AgentState::Ended(_) | AgentState::Failed if run.status != RunStatus::Failed => {
            format!("resume it: bailiwick resume {agent}")
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

/// The state of an agent without a supervisor.
pub fn state(context: &Context, agent: &AgentId) -> Result<AgentState, Failure> {
    let (run, attempts) = context.with_store(async |store| {
        Ok((store.get(agent).await?, store.attempts(Some(agent)).await?))
    })?;
    Ok(AgentState::of(&run, attempts.last(), SupervisorState::Absent))
}

/// Returns an error if an agent has ended, and got no message since.
pub fn require_unfinished(context: &Context, agent: &AgentId) -> Result<(), Failure> {
    let directory = RunDirectory::new(&context.state, agent.as_str());
    let has_messages = directory.pending_messages().is_ok_and(|words| !words.is_empty());
    if has_messages || state(context, agent)? != AgentState::Done {
        return Ok(());
    }
    let state = AgentState::Done;
    Err(Failure::refused(format!("`{agent}` is {state}: it cannot be continued")).help(format!(
        "tell it more: bailiwick attach {agent} 'TEXT'; check its work: bailiwick verify {agent}; begin \
         its task again: bailiwick respawn {agent}"
    )))
}
