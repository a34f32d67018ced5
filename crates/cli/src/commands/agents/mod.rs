//! `bailiwick agents`: the templates that agents are started from.

pub mod assemble;
pub mod import;
pub mod list;
pub mod new;
pub mod show;
pub mod tree;

use bailiwick_engine::context::Context;
use bailiwick_engine::counted::counted;
use bailiwick_engine::failure::Failure as ServiceFailure;
use bailiwick_engine::templates;
use bailiwick_kit::templates::TemplateError;
use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::output;

/// Show and write agent templates
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick agents list\n  bailiwick agents show worker\n  \
                        bailiwick agents new auditor\n  bailiwick agents import --dry-run\n  bailiwick agents \
                        assemble critic\n  bailiwick agents tree")]
pub struct Agents {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(list::List),
    Show(show::Show),
    New(new::New),
    Import(import::Import),
    Assemble(assemble::Assemble),
    Tree(tree::Tree),
}

impl Agents {
    /// Whether it works on what a database has.
    pub(crate) fn needs_database(&self) -> bool {
        match self.verb {
            Verb::Tree(_) => true,
            Verb::List(_) | Verb::Show(_) | Verb::New(_) | Verb::Import(_) | Verb::Assemble(_) => {
                false
            }
        }
    }

    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        match self.verb {
            Verb::List(list) => list.run(context),
            Verb::Show(show) => show.run(context),
            Verb::New(new) => new.run(context),
            Verb::Import(import) => import.run(context),
            Verb::Assemble(assemble) => assemble.run(context),
            Verb::Tree(tree) => tree.run(context),
        }
    }
}

/// Gives the user a first set of templates to change. An error of writing is reported, and no reason
/// to stop: the embedded ones are there.
pub fn seed(context: &Context) {
    match templates::seed(context) {
        Ok(written) if written.is_empty() => {}
        Ok(written) => output::note(format_args!(
            "wrote {} to {}, to be changed; delete what you do not change, so that newer \
             ones are used",
            counted(written.len(), "template"),
            templates::user_directory(context).display()
        )),
        Err(ServiceFailure::Problems(_)) => {}
        Err(failure) => {
            output::note(&failure);
            if let Some(help) = failure.advice() {
                output::note(help);
            }
        }
    }
}

/// The places of what is wrong in a file, or the plain words.
fn failure(error: TemplateError) -> Failure {
    match error {
        TemplateError::Broken { problems, .. } => problems.into(),
        error @ (TemplateError::Invalid(_)
        | TemplateError::Missing(_)
        | TemplateError::Ambiguous { .. }) => {
            Failure::usage(error.to_string()).help("bailiwick agents list")
        }
    }
}
