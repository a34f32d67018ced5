//! `bailiwick diff`: what an agent changed, committed or not; with `-f`, what `apply` would change.

use std::path::PathBuf;

use bailiwick_engine::agent_names;
use bailiwick_engine::context::Context;
use bailiwick_engine::local_runs::changed_files;
use bailiwick_engine::running::forbidden_files::{left_out, left_out_note};
use bailiwick_engine::verifying::{AgentWork, WorkOptions};
use bailiwick_fleet::ports::LocalFileChange;
use bailiwick_model::AgentId;
use bailiwick_runner::supervisor::RunDirectory;
use clap::Args;
use serde::Serialize;

use super::fleet::access::Destination;
use super::fleet::difference;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Show what an agent changed, or what `apply` would change
///
/// With -f, compares the documents of the files with the stored resources: exit code 0 if nothing
/// would change, 1 if something would, 2 on errors. Secret values are never shown.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick diff fix-42\n  bailiwick diff fix-42 --stat\n  bailiwick diff \
                  -f fleet/ -o json"
)]
pub struct Diff {
    /// The agent
    #[arg(required_unless_present = "files", conflicts_with = "files")]
    agent: Option<AgentId>,
    /// Show only the changed lines per file
    #[arg(long, conflicts_with = "files")]
    stat: bool,
    /// Files or directories with documents of the control plane; `-` is standard input
    #[arg(short, long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    format: FormatOption,
}

impl Diff {
    /// Runs the command.
    pub fn run(self, context: Context, destination: &Destination) -> Result<(), Failure> {
        let Some(agent) = &self.agent else {
            let fleet = destination.find(context)?;
            return difference::run(&fleet, &self.files, self.format.format);
        };
        destination.require_local()?;
        let context = &context;
        let agent = agent_names::require(context, agent)?;
        let subject = AgentWork::of_agent(context, &agent, &WorkOptions::default())?;
        let directory = RunDirectory::new(&context.state, agent.as_str());
        let left_out = left_out(&subject.worktree, &directory)
            .map_err(|error| Failure::general(error.to_string()))?;
        if self.format.format == Format::Human {
            output::plain(&subject.diff(&[if self.stat { "--stat" } else { "--patch" }])?);
            if !left_out.is_empty() {
                output::note(left_out_note(&left_out));
            }
            return Ok(());
        }
        let changes = changed_files(&subject.diff(&["--numstat", "-z"])?);
        let changes = changes.into_iter().map(FileDiff::from).collect();
        let patch = if self.stat { None } else { Some(subject.diff(&["--patch"])?) };
        output::json(&AgentDiff { agent_id: agent.to_string(), changes, left_out, patch })
    }
}

/// The changes of an agent, for programs.
#[derive(Debug, Serialize)]
struct AgentDiff {
    agent_id: String,
    changes: Vec<FileDiff>,
    /// New files outside of its scope, which do not land.
    left_out: Vec<String>,
    /// Nothing with `--stat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
}

#[derive(Debug, Serialize)]
struct FileDiff {
    path: String,
    /// Its old name; none if it was not renamed.
    renamed_from: Option<String>,
    /// Lines; nothing for a file that is not text.
    added: Option<u64>,
    removed: Option<u64>,
}

impl From<LocalFileChange> for FileDiff {
    fn from(change: LocalFileChange) -> Self {
        let LocalFileChange { path, renamed_from, added, removed } = change;
        Self { path, renamed_from, added, removed }
    }
}
