//! `bailiwick compose`: the prompt of a task, into prompt.md.

use std::path::PathBuf;

use bailiwick_control::brief;
use bailiwick_kit::bind;
use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::{output, wire};

/// Write the prompt of a task to prompt.md beside it
///
/// Reads the working copy, and says where it differs from the commit that would bind an agent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick compose task.toml\n  bailiwick compose task.toml \
                        --stdout | wc -w")]
pub struct Compose {
    /// The task
    pub(crate) task: PathBuf,
    /// Print the prompt instead of writing a file
    #[arg(long)]
    pub(crate) stdout: bool,
}

impl Compose {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let (kit, watch) = wire::watched_kit(context)?;
        let bound = bind(&kit, &wire::read_task(context, &self.task)?)?;
        let prompt = brief::compose(&bound)?;
        wire::warn(&bound.warnings);
        if self.stdout {
            output::plain(&prompt);
            wire::note(watch)?;
            return Ok(());
        }
        let shown = self.task.with_file_name("prompt.md");
        wire::write_whole(&context.directory.join(&shown), &prompt)?;
        output::line(format_args!("wrote {}", shown.display()));
        wire::note(watch)?;
        output::next_step(format_args!(
            "bailiwick spawn {}{}",
            self.task.display(),
            context.repeated
        ));
        Ok(())
    }
}
