//! `bailiwick rm`: removes what a run has left on the disk; the ledger and its events stay.

use std::path::Path;

use bailiwick_model::AgentId;
use bailiwick_model::claim::Outcome;
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::Repository;
use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::running::recover;
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
}

impl Rm {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        recover::find(context)?;
        self.agents.iter().try_for_each(|agent| self.remove(context, agent))
    }

    fn remove(&self, context: &Context, agent: &AgentId) -> Result<(), Failure> {
        let run = wire::with_store(context, async |store| Ok(store.get(agent).await?))?;
        let directory = RunDirectory::new(&context.state, agent.as_str());
        let failed = |error: std::io::Error| {
            Failure::general(format!("{} cannot be removed: {error}", directory.path().display()))
        };
        let Some(_lock) = directory.lock().map_err(failed)? else {
            return Err(Failure::usage(format!("`{agent}` is at work"))
                .help(format!("end it first: bailiwick stop {agent}")));
        };
        if !run.status.next().is_empty() && !self.force {
            return Err(Failure::usage(format!(
                "`{agent}` is {}: its work would be lost",
                run.status
            ))
            .help(format!("reject it first: bailiwick reject {agent}; or say --force")));
        }
        if let (Some(worktree), Some(repository)) = (&run.worktree_path, context.repository()) {
            forget_worktree(&repository, Path::new(worktree))?;
        }
        for place in [directory.home(), directory.temp(), directory.gate(), directory.git_layer()] {
            match std::fs::remove_dir_all(&place) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        let now = wire::now_ms();
        wire::with_store(context, async |store| {
            Ok(store.release_run(agent, Outcome::Revoked, now).await?)
        })?;
        output::line(format_args!("removed   {agent}"));
        Ok(())
    }
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
