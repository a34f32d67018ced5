//! `bailiwick rm`: removes what a run has left on the disk; the ledger and its events stay.

use std::path::{Path, PathBuf};

use bailiwick_control::ports::{RunStore as _, Work as _, WorkError};
use bailiwick_model::claim::Outcome;
use bailiwick_model::{AgentId, Run, RunState, RunStatus};
use bailiwick_runner::supervisor::{RunDirectory, RunLock};
use bailiwick_source_control::Repository;
use clap::Args;
use serde::Serialize;

use crate::agent_names;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::running::recover;
use crate::verifying::{Places, Subject};
use crate::wire;

/// Remove an agent's worktree and private files; its branch, ledger row and events stay
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick rm fix-42\n  bailiwick rm fix-42 --force")]
pub struct Rm {
    /// The agents
    #[arg(required = true)]
    agents: Vec<AgentId>,
    /// Also work that has neither landed nor been rejected
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    format: FormatOption,
}

/// An agent whose files were removed, for programs.
#[derive(Debug, Serialize)]
struct Removed {
    agent_id: AgentId,
    name: AgentId,
}

impl Rm {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        recover::find(context)?;
        let mut removed = Vec::new();
        for name in &self.agents {
            removed.push(self.remove(context, name)?);
            if self.format.format == Format::Human {
                output::line(format_args!("removed   {name}"));
            }
        }
        match self.format.format {
            Format::Human => Ok(()),
            Format::Json => output::json(&removed),
        }
    }

    fn remove(&self, context: &Context, name: &AgentId) -> Result<Removed, Failure> {
        let agent = agent_names::existing(context, name)?;
        let run = wire::with_store(context, async |store| Ok(store.get(&agent).await?))?;
        let Some(_lock) = hold(context, &run)? else {
            return Err(Failure::usage(format!("`{name}` is at work"))
                .help(format!("end it first: bailiwick stop {name}")));
        };
        let unused = run.state == RunState::Ready && !has_work(context, &run)?;
        if !run.status.next().is_empty() && !self.force && !unused {
            return Err(Failure::usage(format!(
                "`{name}` is {}: its work would be lost",
                run.state
            ))
            .help(format!("reject it first: bailiwick reject {name}; or say --force")));
        }
        remove_files(context, &run)?;
        if unused {
            wire::with_store(context, async |store| {
                let why = Some("removed before it was started");
                Ok(store.change_status(&run.id, RunStatus::Rejected, why).await?)
            })?;
        }
        Ok(Removed { agent_id: run.id, name: run.name })
    }
}

/// Holds a run, so that nobody starts it; nothing if somebody is at work on it.
pub(super) fn hold(context: &Context, run: &Run) -> Result<Option<RunLock>, Failure> {
    let directory = RunDirectory::new(&context.state, run.id.as_str());
    directory.lock().map_err(|error| {
        Failure::general(format!("{} cannot be locked: {error}", directory.path().display()))
    })
}

/// Whether the worktree has anything that its base has not. A worktree that is gone has nothing.
fn has_work(context: &Context, run: &Run) -> Result<bool, Failure> {
    if !run.worktree_path.as_ref().is_some_and(|path| Path::new(path).exists()) {
        return Ok(false);
    }
    let subject = Subject::of_agent(context, &run.id, &Places::default())?;
    let failed = |error: WorkError| Failure::general(error.to_string());
    let work = subject.found()?;
    let snapshot = work.snapshot(&work.base().map_err(failed)?).map_err(failed)?;
    Ok(snapshot.commit != subject.base || snapshot.head != subject.base)
}

/// Removes the worktree and the private files of a run that the caller holds.
pub(super) fn remove_files(context: &Context, run: &Run) -> Result<(), Failure> {
    if let (Some(worktree), Some(repository)) =
        (&run.worktree_path, agent_names::repository_of(context, run))
    {
        forget_worktree(&repository, Path::new(worktree))?;
    }
    for place in private_places(context, run) {
        match std::fs::remove_dir_all(&place) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::general(format!(
                    "{} cannot be removed: {error}",
                    place.display()
                )));
            }
            Ok(()) | Err(_) => {}
        }
    }
    let now = wire::now_ms();
    wire::with_store(context, async |store| {
        Ok(store.release_run(&run.id, Outcome::Revoked, now).await?)
    })?;
    Ok(())
}

/// Where a run has files that only its agent needed.
pub(super) fn private_places(context: &Context, run: &Run) -> [PathBuf; 4] {
    let directory = RunDirectory::new(&context.state, run.id.as_str());
    [directory.home(), directory.temp(), directory.gate(), directory.git_layer()]
}

/// Takes a worktree away, and git's knowledge of it.
fn forget_worktree(repository: &Repository, worktree: &Path) -> Result<(), Failure> {
    let git = repository.git();
    if worktree.exists() {
        let path = worktree.display().to_string();
        git.run(["worktree", "remove", "--force", &path])?;
    }
    git.run(["worktree", "prune"])?;
    Ok(())
}
