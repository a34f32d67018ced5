//! `bailiwick secrets`: values that nobody sees again.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use bailiwick_engine::context::Context;
use bailiwick_fleet::ports::{Selection, Target};
use bailiwick_resources::{Kind, Secret, is_object_name};
use clap::{Args, Subcommand};
use serde_json::json;

use super::access::FleetAccess;
use super::{Namespace, ago, now};
use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};

/// The longest value.
const MAX_SECRET_BYTES: usize = 1024 * 1024;

/// Store encrypted values for agents, webhooks and forges; they are never shown again
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick secrets set forge token < token.txt\n  bailiwick secrets list"
)]
pub struct Secrets {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Set the value of a key, from standard input or a file
    #[command(
        after_help = "Examples:\n  bailiwick secrets set forge token < token.txt\n  bailiwick secrets \
                      set webhook key --from-file hook.key"
    )]
    Set {
        /// The secret
        name: String,
        /// The key in it
        key: String,
        /// Read the value from this file; default: standard input
        #[arg(long, value_name = "FILE")]
        from_file: Option<PathBuf>,
        #[command(flatten)]
        namespace: Namespace,
        #[command(flatten)]
        format: FormatOption,
    },
    /// List secrets with the names of their keys
    #[command(after_help = "Example:\n  bailiwick secrets list -o json")]
    List {
        #[command(flatten)]
        namespace: Namespace,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Delete a secret with all its values
    #[command(after_help = "Example:\n  bailiwick secrets rm forge")]
    Rm {
        /// The secret
        name: String,
        #[command(flatten)]
        namespace: Namespace,
        #[command(flatten)]
        format: FormatOption,
    },
}

impl Secrets {
    /// Whether it works on what a database has.
    pub(crate) fn needs_database(&self) -> bool {
        match self.verb {
            Verb::List { .. } | Verb::Rm { .. } => true,
            Verb::Set { .. } => false,
        }
    }

    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        match self.verb {
            Verb::Set { name, key, from_file, namespace, format } => {
                let value = value(&fleet.context, from_file)?;
                set(fleet, &fleet.target(&namespace, &name), &key, value)?;
                let shown = json!({ "name": name, "key": key });
                output::done(format.format, format_args!("secret/{name} {key} set"), &shown)
            }
            Verb::List { namespace, format } => list(fleet, &namespace, format.format),
            Verb::Rm { name, namespace, format } => {
                let secret = fleet.target(&namespace, &name);
                fleet.ask(async |client| Ok(client.delete(Kind::Secret, &secret, 0).await?))?;
                let shown = json!({ "name": name, "deleted": true });
                output::done(format.format, format_args!("secret/{name} deleted"), &shown)
            }
        }
    }
}

fn value(context: &Context, from: Option<PathBuf>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    match from {
        Some(file) => {
            let path = context.directory.join(&file);
            bytes = std::fs::read(&path).map_err(|error| {
                Failure::general(format!("{} cannot be read: {error}", file.display()))
            })?;
        }
        None => {
            let input = std::io::stdin();
            if input.is_terminal() {
                return Err(Failure::usage("the value is read from standard input")
                    .help("bailiwick secrets set NAME KEY < FILE"));
            }
            let most = u64::try_from(MAX_SECRET_BYTES).unwrap_or(u64::MAX).saturating_add(1);
            let read = input.lock().take(most).read_to_end(&mut bytes);
            read.map_err(|error| Failure::general(format!("no value came: {error}")))?;
        }
    }
    // The newline of `echo` is not part of the value.
    if bytes.ends_with(b"\n") {
        bytes.pop();
    }
    if bytes.is_empty() || bytes.len() > MAX_SECRET_BYTES {
        return Err(Failure::usage(format!("a value has 1 to {MAX_SECRET_BYTES} bytes")));
    }
    Ok(bytes)
}

fn set(fleet: &FleetAccess, secret: &Target, key: &str, value: Vec<u8>) -> Result<(), Failure> {
    let name = &secret.name;
    if !is_object_name(name) || key.is_empty() || key.len() > 253 {
        return Err(Failure::usage(format!("`{name}` `{key}` cannot name a secret and its key")));
    }
    let values = BTreeMap::from([(key.to_owned(), value)]);
    fleet.ask(async |client| Ok(client.set_secret(secret, values).await?))
}

fn list(fleet: &FleetAccess, namespace: &Namespace, format: Format) -> Result<(), Failure> {
    let selection =
        Selection { namespace: Some(fleet.namespace(namespace)), ..Selection::of(Kind::Secret) };
    let found = fleet.ask(async |client| Ok(client.list(&selection).await?.objects))?;
    if format == Format::Json {
        return output::json(&found);
    }
    if found.is_empty() {
        output::note("no secrets");
        return Ok(());
    }
    let mut rows = Vec::new();
    for object in &found {
        let secret =
            object.typed::<Secret>().map_err(|error| Failure::general(error.to_string()))?;
        for (key, about) in &secret.spec.keys {
            let age = ago(about.set_at, now());
            rows.push(vec![
                object.metadata.name.clone(),
                key.clone(),
                about.version.to_string(),
                age,
            ]);
        }
    }
    let columns = [
        Column::fixed("NAME"),
        Column::fixed("KEY"),
        Column::number("VERSION"),
        Column::fixed("AGE"),
    ];
    output::table(&columns, &rows);
    Ok(())
}
