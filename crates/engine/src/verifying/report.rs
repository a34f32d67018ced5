//! The agent's report: a file that it left, or else its final message.

use std::path::{Path, PathBuf};

use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, well_known};
use bailiwick_verify::facts::{Report, ReportError};

use super::AgentWork;
use crate::context::{Context, variable};
use crate::failure::Failure;
use crate::messages::final_message;

/// The longest report that is read.
const MAX_REPORT_BYTES: u64 = 1024 * 1024;

/// Where the report is searched.
pub(super) struct ReportSource {
    file: PathBuf,
    /// The run whose final message counts where there is no file; none if the file was named by a person, or
    /// the ledger does not know the run.
    run: Option<AgentId>,
}

impl ReportSource {
    /// The file that `AGENT_REPORT_PATH` names, or that of the agent and its final message.
    pub(super) fn of(subject: &AgentWork) -> Result<Self, Failure> {
        if let Some(path) = variable("AGENT_REPORT_PATH")? {
            return Ok(Self { file: subject.context.directory.join(path), run: None });
        }
        let agent = subject.agent.as_ref().map_or("unknown", |agent| agent.as_str());
        let file = subject.worktree.join(well_known::report_path(agent));
        Ok(Self { file, run: subject.run.as_ref().map(|run| run.id.clone()) })
    }

    /// Reads the report.
    pub(super) fn read(&self, context: &Context) -> Report {
        let place = self.file.display().to_string();
        match (read_file(&self.file), &self.run) {
            (Err(ReportError::Missing), Some(run)) => match last_message(context, run) {
                Ok(Some(text)) => Report { place: "the final message".to_owned(), text: Ok(text) },
                Ok(None) => Report { place, text: Err(ReportError::Missing) },
                Err(failure) => {
                    let why = ReportError::Unreadable(failure.to_string());
                    Report { place: "the final message".to_owned(), text: Err(why) }
                }
            },
            (text, _) => Report { place, text },
        }
    }
}

/// The final message of a run's last attempt, if that attempt completed.
fn last_message(context: &Context, run: &AgentId) -> Result<Option<String>, Failure> {
    let attempts = context.with_store(async |store| Ok(store.attempts(Some(run)).await?))?;
    match attempts.last() {
        Some(last) if last.ending == Some(ExitReason::Completed) => {
            final_message(context, run, last).map(Some)
        }
        Some(_) | None => Ok(None),
    }
}

/// Reads a report file. A link is refused: it could lead to a file that is not the agent's.
fn read_file(file: &Path) -> Result<String, ReportError> {
    let unreadable = |why: String| ReportError::Unreadable(why);
    let found = std::fs::symlink_metadata(file).map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            ReportError::Missing
        } else {
            unreadable(error.to_string())
        }
    })?;
    if !found.is_file() {
        return Err(unreadable("it is not a plain file".to_owned()));
    }
    if found.len() > MAX_REPORT_BYTES {
        return Err(unreadable(format!("it is longer than {MAX_REPORT_BYTES} bytes")));
    }
    std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))
}
