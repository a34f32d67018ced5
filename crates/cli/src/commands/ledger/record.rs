//! Writing to the ledger.

use bailiwick_engine::context::Context;
use bailiwick_lifecycle::ports::{NewRun, RunStore as _};
use bailiwick_model::{AgentId, Dna, LedgerNote, RunStatus};
use bailiwick_store::{Cost, Store};
use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{self, Format};

const MAX_CHARACTERS: usize = 256;

/// A run that was started by other means.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Fork {
    /// The agent's id
    id: AgentId,
    /// The branch that it works on
    #[arg(value_parser = short_line)]
    branch: String,
    /// The digest of its task.toml; not checked
    #[arg(long, value_parser = short_line)]
    spec_sha: String,
    /// The agent or branch that it was started from
    #[arg(long, value_parser = short_line)]
    parent: Option<String>,
    /// The path of its worktree
    #[arg(long)]
    worktree: Option<String>,
    /// Its DNA
    #[arg(long)]
    dna: Option<Dna>,
    /// Who asked for it
    #[arg(long, value_parser = short_line)]
    creator: Option<String>,
    /// The DNA that it was forked from
    #[arg(long, value_name = "DNA", value_parser = short_line)]
    fork_parent: Option<String>,
}

/// A text that fits into a row: one line, not empty, not long.
fn short_line(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        Err("it is empty".to_owned())
    } else if text.chars().count() > MAX_CHARACTERS {
        Err(format!("it is longer than {MAX_CHARACTERS} characters"))
    } else if text.chars().any(char::is_control) {
        Err("it has a control character in it".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

impl Fork {
    /// Records the run.
    pub async fn run(self, store: &Store, format: Format) -> Result<(), Failure> {
        let Self { id, branch, spec_sha, parent, worktree, dna, creator, fork_parent } = self;
        let run = NewRun {
            id,
            branch,
            parent,
            spec_sha,
            worktree,
            dna: dna.map(|dna| dna.to_string()),
            creator,
            fork_parent,
            half_spawned: false,
            base: None,
            named: None,
        };
        store.record(&run, None).await?;
        let value = json!({ "agent_id": run.id, "branch": run.branch });
        output::done(format, format_args!("forked {} -> {}", run.id, run.branch), &value)
    }
}

/// Makes the database; opening it did.
pub fn init(context: &Context, format: Format) -> Result<(), Failure> {
    let value = json!({ "database": context.database.to_string() });
    output::done(format, format_args!("initialised {}", context.database), &value)
}

/// Moves a run on.
pub async fn change(
    store: &Store,
    id: &AgentId,
    next: RunStatus,
    summary: Option<&str>,
    format: Format,
) -> Result<(), Failure> {
    store.change_status(id, next, summary).await?;
    let value = json!({ "agent_id": id, "status": next });
    output::done(format, format_args!("{id} is {next}"), &value)
}

/// What a run has cost.
#[derive(Debug, Args)]
#[group(skip)]
pub struct RecordCost {
    /// The run
    pub(super) id: AgentId,
    /// Hundredths of a United States dollar
    #[arg(long)]
    cents: u32,
    /// The provider
    #[arg(long, value_parser = short_line)]
    provider: String,
    /// The model
    #[arg(long, value_parser = short_line)]
    model: String,
    /// Replace the recorded cost instead of adding to it
    #[arg(long)]
    replace: bool,
}

impl RecordCost {
    /// Records the cost.
    pub async fn run(self, store: &Store) -> Result<(), Failure> {
        let Self { id, cents, provider, model, replace } = self;
        let total = store.record_cost(&id, &Cost { cents, provider, model, replace }).await?;
        let answer = json!({
            "ok": true, "agent_id": id, "total_cost_cents": total,
        });
        output::line(answer);
        Ok(())
    }
}

/// Records that the lock on the file formats is revoked.
pub async fn revoke_lock(store: &Store, reason: &str, format: Format) -> Result<(), Failure> {
    let reason = short_line(reason)
        .map_err(|error| Failure::usage(format!("the reason cannot be used: {error}")))?;
    store.append_ledger_note(LedgerNote::LockRevoked.as_str(), &reason).await?;
    let text = format!("recorded: the schema lock is revoked, {reason}");
    output::done(format, text, &json!({ "revoked": true, "reason": reason }))?;
    output::next_step("amend docs/AGENT-SCHEMA-LOCKED.md with the same reason");
    Ok(())
}
