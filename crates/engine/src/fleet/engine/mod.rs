//! Runs attempts of the control plane as Bailiwick runs: with the same spawn, supervisor, sandbox, gate and
//! checks as `bailiwick run -d`.
//!
//! Each attempt has its own supervisor process. It survives a kill of the control plane, which finds it by
//! name after a restart.
//!
//! ```text
//! launch        spawns the agent of an attempt and starts its supervisor
//! environment   the variables and the model key that an attempt gets
//! state         the state of a run, its result and its work
//! ```

mod environment;
mod launch;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bailiwick_fleet::ports::{
    AttemptLaunch, Engine, EngineError, EngineEvent, Launched, LaunchedChild, Rebased,
};
use bailiwick_model::AgentId;
use bailiwick_model::event::Answer;
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use bailiwick_store::Store;
use tokio::runtime::Handle;

use super::children;
use super::rebasing::Rebases;
use crate::context::Context;
use crate::failure::Failure;
use crate::running::bound_issue;

pub(super) use environment::{granted, program_of};
pub(super) use launch::prepare;

/// Runs of this machine.
pub struct LocalEngine {
    context: Context,
    store: Arc<Store>,
    rebases: Arc<Rebases>,
    verification: Verification,
}

/// Who checks the work of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// Its supervisor, on this machine.
    Here,
    /// The server that the work is sent to.
    ByServer,
}

impl LocalEngine {
    /// The state directory and the database.
    pub fn new(context: Context, store: Arc<Store>, verification: Verification) -> Self {
        Self { context, store, rebases: Arc::default(), verification }
    }

    /// Runs blocking work on a separate thread.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Context) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, EngineError> {
        let (context, span) = (self.context.clone(), tracing::Span::current());
        let joined = tokio::task::spawn_blocking(move || span.in_scope(|| work(&context))).await;
        joined
            .map_err(|error| EngineError(format!("a background task failed: {error}")))?
            .map_err(|failure| EngineError(failure.in_one_line()))
    }
}

impl Engine for LocalEngine {
    async fn launch(&self, launch: AttemptLaunch) -> Result<(), EngineError> {
        let verification = self.verification;
        self.run_blocking(move |context| launch::start(context, &launch, verification)).await
    }

    async fn state(&self, agent: &str) -> Result<Option<Launched>, EngineError> {
        let (agent, store) = (agent.to_owned(), Arc::clone(&self.store));
        self.run_blocking(move |context| state::read_state(context, &store, &id(&agent)?)).await
    }

    async fn is_running(&self, agent: &str) -> Result<bool, EngineError> {
        let agent = agent.to_owned();
        self.run_blocking(move |context| {
            let id = id(&agent)?;
            is_supervised(&RunDirectory::new(&context.state, id.as_str()), &id)
        })
        .await
    }

    async fn children(&self, agent: &str) -> Result<Vec<LaunchedChild>, EngineError> {
        let agent = agent.to_owned();
        self.run_blocking(move |context| children::of(context, &id(&agent)?)).await
    }

    async fn answer(&self, agent: &str, question: &str, yes: bool) -> Result<bool, EngineError> {
        let (agent, question) = (agent.to_owned(), question.to_owned());
        self.run_blocking(move |context| {
            let directory = RunDirectory::new(&context.state, &agent);
            let answer = if yes { Answer::Allow } else { Answer::Deny };
            let reply = supervisor::ask(&directory, &Request::Answer { id: question, answer });
            match reply.map_err(|error| Failure::general(error.to_string()))? {
                Some(Reply::Done | Reply::Status(_)) => Ok(true),
                Some(Reply::Refused(_)) | None => Ok(false),
            }
        })
        .await
    }

    async fn events(
        &self,
        agent: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EngineEvent>, EngineError> {
        // Only the store blocks here: no thread per follower is needed.
        let engine_error = |failure: Failure| EngineError(failure.in_one_line());
        let (id, most) =
            (id(agent).map_err(engine_error)?, u32::try_from(limit).unwrap_or(u32::MAX));
        let events = self.store.run_events(&id, after, most).await;
        let engine_event = |event: bailiwick_model::Event| -> Result<EngineEvent, EngineError> {
            let body =
                serde_json::to_value(&event).map_err(|error| EngineError(error.to_string()))?;
            let kind = body.get("kind").and_then(|kind| kind.as_str()).unwrap_or("event");
            let kind = kind.to_owned();
            Ok(EngineEvent { number: event.number, at: event.at, kind, body })
        };
        let events = events.map_err(|error| EngineError(error.to_string()))?;
        events.into_iter().map(engine_event).collect()
    }

    async fn forget(&self, agent: &str) -> Result<(), EngineError> {
        let (agent, store) = (agent.to_owned(), Arc::clone(&self.store));
        self.run_blocking(move |context| {
            let id = id(&agent)?;
            let supervised = RunDirectory::new(&context.state, id.as_str()).is_supervised();
            if !supervised.map_err(|error| Failure::general(error.to_string()))? {
                Handle::current().block_on(store.delete_events(&id))?;
            }
            Ok(())
        })
        .await
    }

    async fn rebase(&self, agent: &str, onto: &str) -> Result<Rebased, EngineError> {
        let (agent, onto) = (agent.to_owned(), onto.to_owned());
        let rebases = Arc::clone(&self.rebases);
        self.run_blocking(move |context| rebases.rebase(context, id(&agent)?, &onto)).await
    }

    async fn give_back_claims(&self, agent: &str) -> Result<(), EngineError> {
        let agent = agent.to_owned();
        self.run_blocking(move |context| bound_issue::give_back_claims(context, &id(&agent)?)).await
    }

    async fn cancel(&self, agent: &str) -> Result<(), EngineError> {
        let agent = agent.to_owned();
        self.run_blocking(move |context| {
            let directory = RunDirectory::new(&context.state, &agent);
            let stop = Request::Stop { why: "cancelled".to_owned() };
            supervisor::ask(&directory, &stop)
                .map(drop)
                .map_err(|error| Failure::general(error.to_string()))
        })
        .await
    }
}

fn id(agent: &str) -> Result<AgentId, Failure> {
    AgentId::parse(agent).map_err(|error| Failure::general(error.to_string()))
}

/// Whether the run has a supervisor.
fn is_supervised(directory: &RunDirectory, id: &AgentId) -> Result<bool, Failure> {
    directory
        .is_supervised()
        .map_err(|error| Failure::general(format!("{id} cannot be looked at: {error}")))
}
