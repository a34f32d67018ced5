//! `kei-capability check | verify | fork`.

use std::path::PathBuf;
use std::process::ExitCode;

use bailiwick_engine::sources;
use bailiwick_kit::Layout;
use clap::{Parser, Subcommand};

use crate::commands::capabilities::Fork;
use crate::commands::options;
use crate::failure::Failure;
use crate::output::Format;

/// Judge tool calls and work by one capability, and copy capabilities
#[derive(Debug, Parser)]
#[command(
    name = "kei-capability",
    version,
    after_help = "Example:\n  kei-capability fork policy::no-git-ops --as policy::no-git-ops-lax"
)]
pub struct CapabilityTool {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Judge the tool call on standard input by this capability: exit 0 or 2
    ///
    /// TASK_TOML names the task. Any error is a denial.
    Check {
        /// The capability
        name: String,
    },
    /// Check an agent's work by this capability: exit 0, or 2 with the reason
    ///
    /// AGENT_ID, TASK_TOML, WORKTREE_PATH, MAIN_REPO and RUN_MODE (worktree, simulated-merge or
    /// both) say whose and where.
    Verify {
        /// The capability
        name: String,
    },
    /// Copy a capability under a new name
    Fork {
        #[command(flatten)]
        fork: Fork,
        /// The directory with _capabilities/
        #[arg(long, default_value = ".")]
        kit_root: PathBuf,
    },
}

impl CapabilityTool {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match self.verb {
            Verb::Check { name } => match super::check::run(&name) {
                code if code == ExitCode::SUCCESS => Ok(()),
                _ => Err(Failure::AlreadyReported(2)),
            },
            Verb::Verify { name } => super::verify::run(&name),
            Verb::Fork { fork, kit_root } => {
                let holds_kit =
                    ["_capabilities", "_roles"].iter().any(|name| kit_root.join(name).is_dir());
                let context = options::observe(holds_kit.then(|| kit_root.clone()), None)?;
                fork.run(
                    &sources::working_kit(&context)?,
                    &kit_root,
                    Layout::Underscore,
                    Format::Human,
                )
            }
        }
    }
}
