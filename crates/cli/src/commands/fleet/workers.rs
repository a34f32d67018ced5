//! `bailiwick workers`: who may join, who has joined, and whether they take attempts.

use bailiwick_engine::context::Context;
use bailiwick_engine::{database, system};
use bailiwick_fleet::workers::{NewWorkerToken, WorkerCapabilities, WorkerRecord, WorkerState};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::Span;
use bailiwick_store::Store;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{acting, actor, ago, now};
use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};

/// The prefix of tokens to join, so that secret scanners recognise them.
const JOIN_PREFIX: &str = "bwj_";

/// Let workers join, show them, and stop giving them attempts
///
/// These commands use the database of the server, on its machine.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick workers token --pool builds > token\n  bailiwick workers \
                  list\n  bailiwick workers drain NAME"
)]
pub struct Workers {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a token with which one worker can join a pool; it is shown only once
    #[command(after_help = "Example:\n  bailiwick workers token --pool builds > token")]
    Token {
        /// The pool
        #[arg(long, value_name = "POOL")]
        pool: String,
        /// Lifetime
        #[arg(long, value_name = "TIME", default_value = "1h")]
        expires_after: Span,
        #[command(flatten)]
        format: FormatOption,
    },
    /// List workers, with what their machines offer
    #[command(after_help = "Example:\n  bailiwick workers list -o json")]
    List {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Give a worker no new attempts
    #[command(after_help = "Example:\n  bailiwick workers cordon NAME")]
    Cordon(Named),
    /// Give a worker attempts again
    #[command(after_help = "Example:\n  bailiwick workers uncordon NAME")]
    Uncordon(Named),
    /// Give a worker no new attempts, and end it once its attempts have ended
    #[command(after_help = "Example:\n  bailiwick workers drain NAME")]
    Drain(Named),
    /// Refuse a worker from now on; its attempts are taken by another one
    #[command(after_help = "Example:\n  bailiwick workers remove NAME")]
    Remove(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// Name of the worker
    name: String,
    #[command(flatten)]
    format: FormatOption,
}

impl Workers {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        match self.verb {
            Verb::Token { pool, expires_after, format } => {
                token(context, pool, expires_after, format.format)
            }
            Verb::List { format } => list(context, format.format),
            Verb::Cordon(named) => set(context, &named, WorkerState::Cordoned),
            Verb::Uncordon(named) => set(context, &named, WorkerState::Active),
            Verb::Drain(named) => set(context, &named, WorkerState::Draining),
            Verb::Remove(named) => remove(context, &named),
        }
    }
}

/// Queries the database of the server.
fn ask<T>(
    context: &Context,
    work: impl AsyncFnOnce(Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let location = context.database.location().clone();
    database::wait(&acting::runtime()?, async { work(Store::open(location).await?).await })
}

fn token(context: &Context, pool: String, lifetime: Span, format: Format) -> Result<(), Failure> {
    let text = format!("{JOIN_PREFIX}{}", system::random_secret()?);
    let token = NewWorkerToken {
        digest: Sha256Hex::of(&text).to_string(),
        pool: pool.clone(),
        created_by: actor()?,
        valid_millis: lifetime.millis(),
        agent: None,
    };
    ask(context, async |store| Ok(store.add_worker_token(&token).await?))?;
    if format == Format::Json {
        return output::json(&json!({ "pool": pool, "token": text }));
    }
    output::line(&text);
    output::note(format_args!("for one worker of the pool {pool}; it is not shown again"));
    Ok(())
}

fn list(context: &Context, format: Format) -> Result<(), Failure> {
    let lease = bailiwick_engine::fleet::WORKER_LEASE;
    let workers = ask(context, async |store| Ok(store.workers(lease).await?))?;
    if format == Format::Json {
        return output::json(&workers.iter().map(shown).collect::<Vec<_>>());
    }
    if workers.is_empty() {
        output::note("no workers");
        return Ok(());
    }
    let row = |worker: &WorkerRecord| {
        let offered = &worker.capabilities;
        let programs: Vec<String> =
            offered.programs.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let labels: Vec<String> =
            worker.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        vec![
            worker.name.clone(),
            worker.pool.clone(),
            state(worker).to_owned(),
            format!("{}/{}", worker.running, offered.slots),
            sandbox(offered),
            offered.cores.to_string(),
            labels.join(","),
            programs.join(", "),
            ago(worker.seen_at, now()),
        ]
    };
    let columns = [
        Column::fixed("NAME"),
        Column::text("POOL"),
        Column::fixed("STATE"),
        Column::fixed("RUNNING"),
        Column::fixed("SANDBOX"),
        Column::number("CORES"),
        Column::text("LABELS"),
        Column::text("PROGRAMS"),
        Column::fixed("SEEN"),
    ];
    output::table(&columns, &workers.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

/// The level of a sandbox, and what it stands in unless that is a machine.
fn sandbox(offered: &WorkerCapabilities) -> String {
    match offered.confinement.as_str() {
        "" | "machine" => offered.sandbox.clone(),
        confinement => format!("{} ({confinement})", offered.sandbox),
    }
}

fn state(worker: &WorkerRecord) -> &'static str {
    if worker.is_present { worker.state.as_str() } else { "absent" }
}

fn shown(worker: &WorkerRecord) -> Value {
    json!({
        "name": worker.name, "pool": worker.pool, "state": worker.state, "present": worker.is_present,
        "running": worker.running, "labels": worker.labels, "capabilities": worker.capabilities,
        "conditions": worker.conditions(), "version": worker.version, "joinedAt": worker.joined_at, "seenAt": worker.seen_at,
    })
}

fn unknown(name: &str) -> Failure {
    Failure::usage(format!("there is no worker `{name}`")).help("see them: bailiwick workers list")
}

fn set(context: &Context, named: &Named, state: WorkerState) -> Result<(), Failure> {
    let name = &named.name;
    let is_known = ask(context, async |store| Ok(store.set_worker_state(name, state).await?))?;
    if !is_known {
        return Err(unknown(name));
    }
    let done = json!({ "name": name, "state": state });
    output::done(named.format.format, format_args!("{name} is {}", state.as_str()), &done)
}

fn remove(context: &Context, named: &Named) -> Result<(), Failure> {
    let name = &named.name;
    match ask(context, async |store| Ok(store.delete_worker(name).await?))? {
        false => Err(unknown(name)),
        true => {
            let done = json!({ "name": name, "removed": true });
            output::done(named.format.format, format_args!("{name} is removed"), &done)
        }
    }
}
