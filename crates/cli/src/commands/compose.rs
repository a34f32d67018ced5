//! `bailiwick compose`: the prompt of a task, into prompt.md.

use std::io::Write as _;
use std::path::{Path, PathBuf};

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
        write_whole(&context.directory.join(&shown), &prompt)?;
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

/// Writes a file so that it is never seen half written.
fn write_whole(file: &Path, text: &str) -> Result<(), Failure> {
    let write = || -> std::io::Result<()> {
        let directory = file.parent().unwrap_or(Path::new("."));
        let mut fresh = tempfile::Builder::new().prefix(".prompt-").tempfile_in(directory)?;
        fresh.write_all(text.as_bytes())?;
        fresh.as_file().sync_all()?;
        fresh.persist(file).map(drop).map_err(|error| error.error)
    };
    write()
        .map_err(|error| Failure::general(format!("{} cannot be written: {error}", file.display())))
}
