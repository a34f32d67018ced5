//! `bailiwick diff`: what an agent changed, committed or not; with `-f`, what `apply` would change.

use std::path::PathBuf;

use bailiwick_control::ports::{Work as _, WorkError};
use bailiwick_model::AgentId;
use clap::Args;

use crate::agent_names;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::verifying::{Places, Subject};

/// Show what an agent changed, committed or not; or what `apply` would change
///
/// With -f the documents of the files are compared with what is kept: exit code 0 if nothing would change,
/// 1 if something would, 2 if that cannot be said. Values of secrets are never shown.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick diff fix-42\n  bailiwick diff fix-42 --stat\n  bailiwick diff \
                  -f fleet/"
)]
pub struct Diff {
    /// The agent
    #[arg(required_unless_present = "files", conflicts_with = "files")]
    agent: Option<AgentId>,
    /// Only how much of which file
    #[arg(long, conflicts_with = "files")]
    stat: bool,
    /// Files or directories with documents of the control plane; `-` is standard input
    #[arg(short, long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Diff {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let Some(agent) = &self.agent else {
            return super::fleet::difference::run(context, &self.files);
        };
        let agent = agent_names::require(context, agent)?;
        let subject = Subject::of_agent(context, &agent, &Places::default())?;
        let said = |error: WorkError| Failure::general(error.to_string());
        let work = subject.found()?;
        let base = work.base().map_err(said)?;
        let snapshot = work.snapshot(&base).map_err(said)?;
        let shape = if self.stat { "--stat" } else { "--patch" };
        let arguments = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--find-renames",
            shape,
            &snapshot.merge_base_tree,
            &snapshot.tree,
        ];
        let text = subject.repository.git().run(arguments)?;
        output::plain(&String::from_utf8_lossy(&text));
        Ok(())
    }
}
