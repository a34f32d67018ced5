//! `bailiwick diff`: what an agent changed, committed or not; with `-f`, what `apply` would change.

use std::path::PathBuf;

use bailiwick_engine::agent_names;
use bailiwick_engine::context::Context;
use bailiwick_engine::running::forbidden_files::{left_out, left_out_note};
use bailiwick_engine::verifying::{Places, Subject};
use bailiwick_model::AgentId;
use bailiwick_runner::supervisor::RunDirectory;
use clap::Args;
use serde::Serialize;

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
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let Some(agent) = &self.agent else {
            return super::fleet::difference::run(context, &self.files, self.format.format);
        };
        let agent = agent_names::require(context, agent)?;
        let subject = Subject::of_agent(context, &agent, &Places::default())?;
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
        let changes = changes(&subject.diff(&["--numstat", "-z"])?);
        let patch = if self.stat { None } else { Some(subject.diff(&["--patch"])?) };
        output::json(&AgentDiff { agent_id: agent.to_string(), changes, left_out, patch })
    }
}

/// What an agent changed, for programs.
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

#[derive(Debug, PartialEq, Eq, Serialize)]
struct FileDiff {
    path: String,
    /// What it was called before; nothing if it has the same name.
    renamed_from: Option<String>,
    /// Lines; nothing for a file that is not text.
    added: Option<u64>,
    removed: Option<u64>,
}

/// Reads `git diff --numstat -z`: a renamed file has no name beside its numbers, and two after them.
fn changes(text: &str) -> Vec<FileDiff> {
    let mut parts = text.split_terminator('\0');
    let mut all = Vec::new();
    while let Some(part) = parts.next() {
        let mut columns = part.splitn(3, '\t');
        let mut number = || columns.next().and_then(|text| text.parse().ok());
        let (added, removed) = (number(), number());
        let (renamed_from, path) = match columns.next() {
            Some("") | None => (parts.next().map(str::to_owned), parts.next().unwrap_or_default()),
            Some(path) => (None, path),
        };
        all.push(FileDiff { path: path.to_owned(), renamed_from, added, removed });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_and_binary_files_are_read_from_the_numbers_of_git() {
        let file = |path: &str, from: Option<&str>, added, removed| FileDiff {
            path: path.to_owned(),
            renamed_from: from.map(str::to_owned),
            added,
            removed,
        };
        assert_eq!(
            changes("1\t2\ta\tb\0-\t-\timage.png\x003\t0\t\0old\0new\0"),
            [
                file("a\tb", None, Some(1), Some(2)),
                file("image.png", None, None, None),
                file("new", Some("old"), Some(3), Some(0)),
            ]
        );
        assert_eq!(changes(""), []);
    }
}
