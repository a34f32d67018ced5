//! `bailiwick compose`: the prompt of a task, into prompt.md.

use std::path::PathBuf;

use bailiwick_engine::context::Context;
use bailiwick_engine::{sources, system};
use bailiwick_kit::bind;
use bailiwick_lifecycle::brief;
use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Write the prompt of a task to prompt.md beside it
///
/// Reads the working copy and says where it differs from the commit that would bind an agent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick compose task.toml\n  bailiwick compose task.toml \
                        --stdout | wc -w")]
pub struct Compose {
    /// The task
    pub(crate) task: PathBuf,
    /// Print the prompt instead of writing a file
    #[arg(long)]
    pub(crate) stdout: bool,
    #[command(flatten)]
    pub(crate) format: FormatOption,
}

impl Compose {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let (kit, watch) = sources::watched_kit(context)?;
        let bound = bind(&kit, &sources::read_task(context, &self.task)?)?;
        let prompt = brief::compose(&bound)?;
        output::problems(&bound.warnings);
        let format = self.format.format;
        if self.stdout {
            match format {
                Format::Human => output::plain(&prompt),
                Format::Json => output::json(&json!({ "prompt": prompt }))?,
            }
            sources::note(context, watch)?;
            return Ok(());
        }
        let shown = self.task.with_file_name("prompt.md");
        system::write_whole(&context.directory.join(&shown), &prompt)?;
        let written = json!({ "written": shown.display().to_string(), "prompt": prompt });
        output::done(format, format_args!("wrote {}", shown.display()), &written)?;
        sources::note(context, watch)?;
        output::next_step(format_args!(
            "bailiwick spawn {}{}",
            self.task.display(),
            context.global_options
        ));
        Ok(())
    }
}
