//! `kei-agent-runtime compose | prepare | spawn | verify | run`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::kit_root;
use crate::commands::compose::Compose;
use crate::commands::prepare::{Prepare, Shape};
use crate::commands::spawn::Spawn;
use crate::context::Context;
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
    /// Check an agent's work; this version has no checks yet, so nothing passes
    Verify {
        /// The task, and whatever else was given
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Spawn and check; this version has no checks yet, so nothing passes
    Run {
        /// The task, and whatever else was given
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
}

impl AgentRuntime {
    /// Does what was asked.
    pub fn run(self) -> Result<(), Failure> {
        match self.verb {
            Verb::Compose { task, kit_root: root } => {
                Compose { task, stdout: false }.run(&Context::observe(kit_root(root), None)?)
            }
            Verb::Prepare { task, kit_root: root, format } => {
                let context = Context::observe(kit_root(root), None)?;
                Prepare { task, agent_id: None, format }.run(&context)
            }
            Verb::Spawn { task, kit_root: root } => {
                let context = Context::observe(kit_root(root), None)?;
                let format = FormatOption::default();
                let spawn = Spawn { task, agent_id: None, base: "HEAD".to_owned(), format };
                let spawned = spawn.spawn(&context)?;
                output::line(format_args!("agent_id={}", spawned.agent_id));
                output::line(format_args!("prompt={}", spawned.prompt.display()));
                output::line(format_args!("worktree={}", spawned.worktree.display()));
                Ok(())
            }
            Verb::Verify { .. } | Verb::Run { .. } => Err(Failure::usage(
                "this version has no checks yet, so it cannot say that anything holds",
            )),
        }
    }
}
