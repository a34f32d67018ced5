//! `bailiwick contexts`: the servers that the person logged in to, and the one in use.

use bailiwick_client::{Contexts, LOCAL};
use bailiwick_engine::context::Context;
use clap::{Args, Subcommand};
use serde_json::json;

use super::access::contexts_file;
use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};
use crate::view::plain;

/// List and choose the servers that you logged in to
///
/// The context `local` is this machine's database.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick contexts list\n  bailiwick contexts use team\n  bailiwick \
                  contexts use local\n\nAdd one: bailiwick login https://HOST --context NAME"
)]
pub struct ContextsCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List contexts
    #[command(after_help = "Example:\n  bailiwick contexts list -o json")]
    List {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Use a context for all fleet commands
    #[command(
        after_help = "Examples:\n  bailiwick contexts use team\n  bailiwick contexts use local"
    )]
    Use {
        /// The context
        name: String,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Show the context in use
    #[command(after_help = "Example:\n  bailiwick contexts current")]
    Current {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Delete a context with its token
    #[command(after_help = "Example:\n  bailiwick contexts delete team")]
    Delete {
        /// The context
        name: String,
        #[command(flatten)]
        format: FormatOption,
    },
}

impl ContextsCommand {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let file = contexts_file(context)?;
        match self.verb {
            Verb::List { format } => list(&file.load()?, format.format),
            Verb::Use { name, format } => {
                file.change(|all| all.select(&name))?;
                let text = format!("context {name} is in use");
                output::done(format.format, text, &json!({ "context": name }))
            }
            Verb::Current { format } => {
                let all = file.load()?;
                let name = all.current().unwrap_or(LOCAL);
                output::done(format.format, name, &json!({ "context": name }))
            }
            Verb::Delete { name, format } => {
                file.change(|all| all.remove(&name))?;
                let text = format!("context {name} deleted");
                output::done(format.format, text, &json!({ "context": name, "deleted": true }))
            }
        }
    }
}

fn list(contexts: &Contexts, format: Format) -> Result<(), Failure> {
    let current = contexts.current();
    if format == Format::Json {
        let shown: Vec<_> = contexts
            .all()
            .map(|(name, context)| {
                json!({
                    "name": name, "server": context.server, "namespace": context.namespace,
                    "current": Some(name) == current,
                })
            })
            .collect();
        return output::json(&shown);
    }
    let mark = |is_current: bool| if is_current { "*" } else { "" }.to_owned();
    let local = [
        mark(current.is_none()),
        LOCAL.to_owned(),
        "(this machine)".to_owned(),
        "default".to_owned(),
    ];
    let others = contexts.all().map(|(name, context)| {
        vec![
            mark(Some(name) == current),
            plain(name),
            plain(&context.server),
            plain(&context.namespace),
        ]
    });
    let rows: Vec<Vec<String>> = std::iter::once(local.to_vec()).chain(others).collect();
    let columns = [
        Column::fixed("CURRENT"),
        Column::fixed("NAME"),
        Column::text("SERVER"),
        Column::fixed("NAMESPACE"),
    ];
    output::table(&columns, &rows);
    Ok(())
}
