//! The agents of this machine for the API: what `ps`, `logs`, `diff` and `approvals` show, and the actions on them.

mod actions;
mod agent_context;
mod artifacts;
mod checks;
mod cost;
mod diff;
mod limits;
mod lineage;
mod list;
mod measure;
mod possible;
mod questions;
mod search;

use std::borrow::Cow;

use bailiwick_fleet::ports::{
    LocalAnswerRequest, LocalArtifacts, LocalClaims, LocalEventQuery, LocalExplanation,
    LocalLineage, LocalOutcome, LocalQuestions, LocalRunContext, LocalRunCost, LocalRunCounts,
    LocalRunDetail, LocalRunDiff, LocalRunError, LocalRunEvents, LocalRunList, LocalRunPolicy,
    LocalRunQuery, LocalRuns, LocalVerb, LocalVerifications, MeasuredRun,
};
use bailiwick_lifecycle::ports::{RunStore as _, StoreError};
use bailiwick_model::{AgentId, Run};
use bailiwick_resources::Moment;
use bailiwick_runner::supervisor::RunDirectory;

use crate::context::Context;
use crate::failure::Failure;
use crate::notices::Notices;
use crate::{agent_names, database};

pub use diff::changed_files;

/// The agents in the ledger of this machine.
#[derive(Debug, Clone)]
pub struct LedgerRuns {
    context: Context,
}

impl LedgerRuns {
    /// Progress notices are discarded: the API returns the result.
    pub fn new(context: &Context) -> Self {
        Self { context: Context { notices: Notices::default(), ..context.clone() } }
    }

    fn open(&self) -> Result<std::sync::Arc<database::OpenDatabase>, LocalRunError> {
        self.context.database.open().map_err(error)
    }

    /// The run with this ID.
    fn find(&self, id: &str) -> Result<Run, LocalRunError> {
        let unknown = || LocalRunError::NotFound(format!("there is no agent `{id}`"));
        let agent = AgentId::parse(id).map_err(|_| unknown())?;
        let found = self.open()?.with(async |store| store.find(&agent).await);
        found.map_err(store_error)?.ok_or_else(unknown)
    }

    /// The context for the repository of a run.
    fn beside(&self, run: &Run) -> Result<Context, LocalRunError> {
        let Some(repository) = agent_names::repository_of(&self.context, run) else {
            return Err(LocalRunError::Refused {
                message: format!("the repository of `{}` is not there any more", run.name),
                advice: None,
            });
        };
        Ok(Context { directory: repository.root().to_path_buf(), ..self.context.clone() })
    }

    fn directory(&self, run: &Run) -> RunDirectory {
        RunDirectory::new(&self.context.state, run.id.as_str())
    }
}

/// Refusals are about the agent; everything else is a fault of this machine.
fn error(failure: Failure) -> LocalRunError {
    let advice = failure.advice().map(Cow::into_owned);
    match failure {
        Failure::Refused { text: message, .. } => LocalRunError::Refused { message, advice },
        Failure::Failed { text: message, help: Some(_) } => {
            LocalRunError::Refused { message, advice }
        }
        Failure::Failed { text, help: None } => LocalRunError::Unavailable(text),
        other @ (Failure::Problems(_) | Failure::AtWork { .. }) => {
            LocalRunError::Refused { message: other.to_string(), advice }
        }
    }
}

fn store_error(error: StoreError) -> LocalRunError {
    LocalRunError::Unavailable(error.to_string())
}

impl LocalRuns for LedgerRuns {
    fn list(&self, query: &LocalRunQuery) -> Result<LocalRunList, LocalRunError> {
        self.list_page(query)
    }

    fn count(&self) -> Result<LocalRunCounts, LocalRunError> {
        self.count_by_stage()
    }

    fn read(&self, run: &str) -> Result<LocalRunDetail, LocalRunError> {
        self.read_detail(&self.find(run)?)
    }

    fn events(&self, run: &str, after: u64, limit: u32) -> Result<LocalRunEvents, LocalRunError> {
        let run = self.find(run)?;
        // Read first, so that no event before the end is missed.
        let ended = !self.directory(&run).is_supervised().unwrap_or(false);
        let read = self.open()?.with(async |store| {
            let events = store.run_events(&run.id, after, limit).await?;
            Ok::<_, StoreError>((events, store.last_event(&run.id).await?))
        });
        let (mut events, last) = read.map_err(store_error)?;
        // The line that an event was read from repeats it.
        events.iter_mut().for_each(|event| event.raw = None);
        Ok(LocalRunEvents { events, last, ended, next: None })
    }

    fn search(&self, run: &str, query: &LocalEventQuery) -> Result<LocalRunEvents, LocalRunError> {
        self.find_events(&self.find(run)?, query)
    }

    fn verifications(&self, run: &str) -> Result<LocalVerifications, LocalRunError> {
        self.read_verifications(&self.find(run)?)
    }

    fn diff(&self, run: &str) -> Result<LocalRunDiff, LocalRunError> {
        self.read_diff(&self.find(run)?)
    }

    fn context(&self, run: &str) -> Result<LocalRunContext, LocalRunError> {
        self.read_context(&self.find(run)?)
    }

    fn policy(&self, run: &str) -> Result<LocalRunPolicy, LocalRunError> {
        self.read_policy(&self.find(run)?)
    }

    fn explain(&self, run: &str, command: &str) -> Result<LocalExplanation, LocalRunError> {
        self.explain_command(&self.find(run)?, command)
    }

    fn cost(&self, run: &str) -> Result<LocalRunCost, LocalRunError> {
        self.read_cost(&self.find(run)?)
    }

    fn lineage(&self, run: &str) -> Result<LocalLineage, LocalRunError> {
        self.read_lineage(&self.find(run)?)
    }

    fn artifacts(&self, run: &str) -> Result<LocalArtifacts, LocalRunError> {
        self.list_artifacts(&self.find(run)?)
    }

    fn artifact(&self, run: &str, name: &str) -> Result<Vec<u8>, LocalRunError> {
        self.read_artifact(&self.find(run)?, name)
    }

    fn questions(&self, run: Option<&str>) -> Result<LocalQuestions, LocalRunError> {
        let only = run.map(|run| self.find(run)).transpose()?;
        self.open_questions(only)
    }

    fn claims(&self) -> Result<LocalClaims, LocalRunError> {
        self.open_claims()
    }

    fn measure(&self, since: Moment, limit: usize) -> Result<Vec<MeasuredRun>, LocalRunError> {
        self.measured(since, limit)
    }

    fn answer(
        &self,
        run: &str,
        question: &str,
        request: &LocalAnswerRequest,
    ) -> Result<LocalOutcome, LocalRunError> {
        self.answer_question(&self.find(run)?, question, request)
    }

    fn act(
        &self,
        run: &str,
        verb: LocalVerb,
        text: &str,
        tell: &mut dyn FnMut(String),
    ) -> Result<LocalOutcome, LocalRunError> {
        self.perform(&self.find(run)?, verb, text, tell)
    }
}
