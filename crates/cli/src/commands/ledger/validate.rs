//! Whether everything that a run should have is there.

use std::path::{Path, PathBuf};

use bailiwick_engine::context::Context;
use bailiwick_lifecycle::ports::{RunStore as _, spec_sha};
use bailiwick_model::{AgentId, LedgerNote, Run, RunState};
use bailiwick_source_control::Git;
use bailiwick_store::Store;
use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{self, Format};

/// Which run, and in which checkout.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Validate {
    /// The branch of the run, or its id
    branch: String,
    /// The checkout that contains tasks/
    #[arg(long, value_name = "DIR")]
    repo_root: Option<PathBuf>,
}

impl Validate {
    /// Says what is missing; exit code 2 if anything is.
    pub async fn run(
        self,
        context: &Context,
        store: &Store,
        format: Format,
    ) -> Result<(), Failure> {
        let root = match (&self.repo_root, context.repository()) {
            (Some(root), _) => context.directory.join(root),
            (None, Some(repository)) => repository.root().to_owned(),
            (None, None) => context.directory.clone(),
        };
        let Some(run) = find(store, &self.branch).await? else {
            let row = "a row in the ledger".to_owned();
            let text = format!("MISSING for {}: {row}", self.branch);
            return print_result(format, &self.branch, vec![row], &text);
        };
        let missing = missing(store, &run, &root).await?;
        if missing.is_empty() && were_files_removed(store, &run).await? {
            let id = &run.id;
            let text = format!(
                "OK: {id} is {}; its worktree and task files were removed on purpose",
                run.state
            );
            return print_result(format, id.as_str(), missing, &text);
        }
        if missing.is_empty() {
            let text = format!("OK: all 6 artefacts present for {}", run.id);
            return print_result(format, run.id.as_str(), missing, &text);
        }
        let text = format!("MISSING for {}:\n  - {}", run.id, missing.join("\n  - "));
        print_result(format, run.id.as_str(), missing, &text)
    }
}

/// Prints the result; an error if anything is missing.
fn print_result(
    format: Format,
    run: &str,
    missing: Vec<String>,
    text: &str,
) -> Result<(), Failure> {
    let complete = missing.is_empty();
    match (format, complete) {
        (Format::Json, _) => {
            output::json(&json!({ "run": run, "complete": complete, "missing": missing }))?;
        }
        (Format::Human, true) => output::line(text),
        (Format::Human, false) => output::error(text, None),
    }
    if complete { Ok(()) } else { Err(Failure::AlreadyReported(2)) }
}

async fn find(store: &Store, text: &str) -> Result<Option<Run>, Failure> {
    if let Some(run) = store.runs_on_branch(text).await?.pop() {
        return Ok(Some(run));
    }
    match AgentId::parse(text.strip_prefix("agent/").unwrap_or(text)) {
        Ok(id) => Ok(store.find(&id).await?),
        Err(_) => Ok(None),
    }
}

/// Whether `rm` or `prune` removed the files of a run. If it was finished, they may have done so before
/// the ledger was updated.
async fn were_files_removed(store: &Store, run: &Run) -> Result<bool, Failure> {
    let gone = !run.worktree_path.as_ref().is_some_and(|path| Path::new(path).is_dir());
    let finished =
        matches!(run.state, RunState::Merged | RunState::RolledBack | RunState::Rejected);
    let told = || async {
        let events = store.events(run.id.as_str()).await?;
        Ok::<bool, Failure>(events.iter().any(|event| event.is(LedgerNote::FilesRemoved)))
    };
    Ok(gone && (finished || told().await?))
}

/// The ledger's row is there; these are the other five, or the other two of a run whose files were removed.
async fn missing(store: &Store, run: &Run, root: &Path) -> Result<Vec<String>, Failure> {
    let directory = root.join("tasks").join(run.id.as_str());
    let task = std::fs::read_to_string(directory.join("task.toml"));
    let given = task.is_ok_and(|text| spec_sha(&text).as_str() == run.spec_sha);
    let branch = format!("refs/heads/{}", run.branch);
    let has_branch = Git::at(root).succeeds(["show-ref", "--verify", "--quiet", &branch])?;
    let worktree = run.worktree_path.as_ref().is_some_and(|path| Path::new(path).is_dir());
    let removed = were_files_removed(store, run).await?;
    let parts = [
        (store.spec(&run.spec_sha).await?.is_some(), "the spec in the ledger".to_owned()),
        (has_branch, format!("the branch {}", run.branch)),
    ];
    let files = [
        (given, format!("{} as it was spawned", directory.join("task.toml").display())),
        (directory.join("prompt.md").is_file(), directory.join("prompt.md").display().to_string()),
        (worktree, "its worktree".to_owned()),
    ];
    let files = files.into_iter().filter(|_| !removed);
    Ok(parts.into_iter().chain(files).filter(|(there, _)| !there).map(|(_, what)| what).collect())
}
