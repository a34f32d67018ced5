//! `kei-agent-runtime compose | prepare | spawn | verify | run`.

use std::path::PathBuf;

use bailiwick_engine::options::CheckOptions;
use bailiwick_engine::preconditions;
use bailiwick_engine::verifying::{AgentWork, WorkOptions};
use clap::{Parser, Subcommand};

use super::{kit_root, kit_root_in};
use crate::commands::compose::Compose;
use crate::commands::options;
use crate::commands::prepare::{Prepare, Shape};
use crate::commands::run::Run;
use crate::commands::spawn::Spawn;
use crate::commands::verify::Mode;
use crate::failure::Failure;
use crate::output::{self, FormatOption};

/// Compose, prepare and spawn agents whose limits are enforced
#[derive(Debug, Parser)]
#[command(
    name = "kei-agent-runtime",
    version,
    after_help = "Example:\n  kei-agent-runtime prepare task.toml --format json"
)]
pub struct AgentRuntime {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write the prompt of a task to prompt.md beside it
    Compose {
        /// The task
        task: PathBuf,
        /// The directory with _capabilities/ and _roles/
        #[arg(long)]
        kit_root: Option<PathBuf>,
    },
    /// Show everything that the Agent tool needs; writes nothing
    Prepare {
        /// The task
        task: PathBuf,
        /// The directory with _capabilities/ and _roles/
        #[arg(long)]
        kit_root: Option<PathBuf>,
        /// How the result is shown
        #[arg(long, default_value = "human")]
        format: Shape,
    },
    /// Write tasks/<id>/, make the worktree and record the run
    Spawn {
        /// The task
        task: PathBuf,
        /// The directory with _capabilities/ and _roles/
        #[arg(long)]
        kit_root: Option<PathBuf>,
    },
    /// Check an agent's work on its own tree and merged onto the target branch; prints JSON
    Verify {
        /// The task
        task: PathBuf,
        /// Where the agent worked
        #[arg(conflicts_with = "worktree")]
        place: Option<PathBuf>,
        /// The same
        #[arg(long)]
        worktree: Option<PathBuf>,
        /// The repository that the work is to land in
        #[arg(long)]
        main_repo: Option<PathBuf>,
        /// On which trees
        #[arg(long, default_value = "both")]
        mode: Mode,
        /// The directory with _capabilities/ and _roles/
        #[arg(long)]
        kit_root: Option<PathBuf>,
    },
    /// Spawn the agent, run it and check its work; prints JSON
    Run {
        /// The task
        task: PathBuf,
        /// The directory with _capabilities/ and _roles/
        #[arg(long)]
        kit_root: Option<PathBuf>,
    },
}

impl AgentRuntime {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        preconditions::require_git()?;
        match self.verb {
            Verb::Compose { task, kit_root: root } => {
                let format = FormatOption::default();
                Compose { task, stdout: false, format }
                    .run(&options::observe(kit_root(root), None)?)
            }
            Verb::Prepare { task, kit_root: root, format } => {
                let context = options::observe(kit_root(root), None)?;
                Prepare { task, agent_id: None, format }.run_as_kei(&context)
            }
            Verb::Spawn { task, kit_root: root } => {
                let context = options::observe(kit_root(root), None)?;
                let format = FormatOption::default();
                let base = "HEAD".to_owned();
                let (start, allow_setup) = (false, false);
                let spawn = Spawn { task, agent_id: None, base, start, allow_setup, format };
                let spawned = spawn.spawn(&context)?;
                output::line(format_args!("agent_id={}", spawned.agent_id));
                output::line(format_args!("prompt={}", spawned.prompt.display()));
                output::line(format_args!("worktree={}", spawned.worktree.display()));
                Ok(())
            }
            Verb::Verify { task, place, worktree, main_repo, mode, kit_root: root } => {
                let root = root.or_else(|| main_repo.as_deref().and_then(kit_root_in));
                let context = options::observe(kit_root(root), None)?;
                let worktree = place.or(worktree);
                let work_options =
                    WorkOptions { worktree, main_repository: main_repo, ..WorkOptions::default() };
                let subject = AgentWork::of_task(&context, &task, None, &work_options)?;
                let checks = CheckOptions::default();
                let shown = subject.verify_and_record(mode.into(), checks, &[], &mut |_| {})?;
                output::json(&shown)?;
                output::verification_outcome(&shown)
            }
            Verb::Run { task, kit_root: root } => {
                let context = options::observe(kit_root(root), None)?;
                Run::json_without_landing(task).run(&context)
            }
        }
    }
}
