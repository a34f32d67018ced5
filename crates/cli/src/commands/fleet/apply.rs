//! `bailiwick apply`: declares resources.

use std::path::PathBuf;

use bailiwick_client::ApplyMode;
use bailiwick_fleet::resources::Outcome;
use bailiwick_resources::Metadata;
use clap::Args;

use super::access::FleetAccess;
use super::documents;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Create or update resources from files, all or none
///
/// Each document is validated by the schema of its kind; unknown keys are errors. A document with a
/// resourceVersion is refused if the object has changed since.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick apply -f fleet/\n  bailiwick apply -f stack.yaml --dry-run\n  \
                  bailiwick get stack fixer -o yaml | sed s/haiku/sonnet/ | \\\n      \
                  bailiwick apply -f -"
)]
pub struct Apply {
    /// Files or directories with documents; `-` is standard input
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Only print what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatOption,
}

impl Apply {
    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        let documents = documents::read(&fleet.context, &self.files)?;
        let mode = if self.dry_run { ApplyMode::DryRun } else { ApplyMode::Write };
        let applied = fleet.ask(async |client| {
            let applied = client.apply(&documents.objects, mode).await;
            applied.map_err(|error| documents.locate(error))
        })?;
        if self.format.format == Format::Json {
            return output::json(&applied);
        }
        for one in &applied {
            let word = match one.outcome {
                Outcome::Created => "created",
                Outcome::Configured => "configured",
                Outcome::Unchanged => "unchanged",
            };
            let Metadata { name, .. } = &one.object.metadata;
            let would = if self.dry_run { " (dry run)" } else { "" };
            output::line(format_args!("{}/{name} {word}{would}", one.object.kind.short()));
        }
        Ok(())
    }
}
