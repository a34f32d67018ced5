//! `bailiwick apply`: declares resources.

use std::path::PathBuf;

use bailiwick_engine::context::Context;
use bailiwick_fleet::resources::{self, Outcome};
use bailiwick_resources::Metadata;
use clap::Args;

use super::{actor, documents, now};
use crate::commands::store::with_store;
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
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let documents = documents::read(context, &self.files)?;
        let (actor, dry) = (actor()?, self.dry_run);
        let applied = with_store(context, async |store| {
            Ok(resources::apply(store, &documents, &actor, now(), dry).await?)
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
            let would = if dry { " (dry run)" } else { "" };
            output::line(format_args!("{}/{name} {word}{would}", one.object.kind.short()));
        }
        Ok(())
    }
}
