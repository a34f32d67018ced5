//! `bailiwick man`: the manual pages.

use std::path::PathBuf;

use clap::Args;

use super::grouped_help;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// The width of manual pages.
const PAGE_WIDTH: usize = 80;

/// Write the manual pages into a directory
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bailiwick man ~/.local/share/man/man1 && man bailiwick-run")]
pub struct Man {
    /// The directory; created if it is missing
    #[arg(value_name = "DIR")]
    pages: PathBuf,
}

impl Man {
    /// Writes one page for each command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let directory = context.directory.join(&self.pages);
        std::fs::create_dir_all(&directory)
            .and_then(|()| {
                clap_mangen::generate_to(grouped_help::command_line(PAGE_WIDTH), &directory)
            })
            .map_err(|error| {
                Failure::general(format!("cannot write to {}: {error}", directory.display()))
            })?;
        output::note(format_args!("manual pages written to {}", directory.display()));
        Ok(())
    }
}
