//! `bailiwick db`: the database itself: what it is, its schema, and its way into another one.

use bailiwick_engine::context::Context;
use bailiwick_engine::database;
use bailiwick_store::{Location, Store, TableRows};
use clap::{Args, Subcommand};
use serde_json::json;

use super::fleet::acting;
use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};

/// Show the database, update its schema, copy it into another one
///
/// Runs and the fleet are kept in one database: a file of SQLite, or a database of a PostgreSQL server.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick db status\n  bailiwick db copy --from bailiwick.db --to \
                        postgres://db.example/fleet"
)]
pub struct DbCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show which database is used, the version of its schema, and how much is in it
    #[command(after_help = "Examples:\n  bailiwick db status\n  bailiwick db status -o json")]
    Status {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Update the schema, as every other command does when it opens the database
    #[command(after_help = "Example:\n  bailiwick db migrate")]
    Migrate {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Copy everything into an empty database, and compare both; after an interruption, go on
    ///
    /// The target can be used once all of it was copied and compared. If the copy is interrupted, run the command
    /// again.
    #[command(after_help = "Example:\n  bailiwick db copy --from bailiwick.db --to \
                            postgres://db.example/fleet")]
    Copy {
        /// The database that is read; nobody can write to it meanwhile
        #[arg(long, value_name = "DATABASE")]
        from: String,
        /// The database that is written
        #[arg(long, value_name = "DATABASE")]
        to: String,
        #[command(flatten)]
        format: FormatOption,
    },
}

impl DbCommand {
    /// Whether it works on what a database has.
    pub(crate) fn needs_database(&self) -> bool {
        match self.verb {
            Verb::Status { .. } | Verb::Migrate { .. } => true,
            Verb::Copy { .. } => false,
        }
    }

    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        match self.verb {
            Verb::Status { format } | Verb::Migrate { format } => status(context, format.format),
            Verb::Copy { from, to, format } => copy(context, &from, &to, format.format),
        }
    }
}

fn status(context: &Context, format: Format) -> Result<(), Failure> {
    let location = context.database.location();
    let (schema, tables) = database::wait(&acting::runtime()?, async {
        let store = Store::open(location.clone()).await?;
        Ok::<_, Failure>((store.schema().await?, store.count_rows().await?))
    })?;
    if format == Format::Json {
        let rows: serde_json::Map<_, _> =
            tables.into_iter().map(|table| (table.name, table.rows.into())).collect();
        return output::json(&json!({
            "database": location.to_string(), "schema": schema, "rows": rows,
        }));
    }
    output::line(format_args!("database  {location}"));
    output::line(format_args!("schema    {schema}"));
    let row = |table: TableRows| vec![table.name, table.rows.to_string()];
    let rows: Vec<Vec<String>> = tables.into_iter().map(row).collect();
    output::table(&[Column::fixed("TABLE"), Column::number("ROWS")], &rows);
    Ok(())
}

fn copy(context: &Context, from: &str, to: &str, format: Format) -> Result<(), Failure> {
    let parse = |text: &str| {
        Location::parse(text, &context.state).map_err(|error| Failure::usage(error.to_string()))
    };
    let (from, to) = (parse(from)?, parse(to)?);
    if from == to {
        return Err(Failure::usage("a database cannot be copied into itself"));
    }
    if from.sqlite_file().is_some_and(|file| !file.exists()) {
        return Err(Failure::usage(format!("there is no database {from}")));
    }
    let copied = database::wait(&acting::runtime()?, async {
        let from = Store::open(from.clone()).await?;
        let to = Store::open_for_copy(to.clone()).await?;
        Ok::<_, Failure>(from.copy_to(&to).await?)
    })?;
    let rows: u64 = copied.iter().map(|table| table.rows).sum();
    if format == Format::Json {
        return output::json(&json!({
            "from": from.to_string(), "to": to.to_string(), "tables": copied.len(), "rows": rows,
        }));
    }
    output::line(format_args!("copied {rows} rows of {} tables into {to}", copied.len()));
    output::next_step(format_args!("export KEI_LEDGER_DB={to}"));
    Ok(())
}
