//! `bailiwick agents`: the templates that agents are started from.

pub mod assemble;
pub mod import;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

/// Make templates and agent files
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick agents import --dry-run\n  bailiwick agents assemble \
                        critic"
)]
pub struct Agents {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Import(import::Import),
    Assemble(assemble::Assemble),
}

impl Agents {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        match self.verb {
            Verb::Import(import) => import.run(context),
            Verb::Assemble(assemble) => assemble.run(context),
        }
    }
}
