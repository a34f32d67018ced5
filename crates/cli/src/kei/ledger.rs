//! `kei-ledger`: the verbs and the output lines of the kei tools.

use bailiwick_model::{AgentId, RunStatus};
use bailiwick_store::Store;
use clap::{Parser, Subcommand};

use crate::commands::ledger::{record, tree, validate};
use crate::commands::options;
use crate::commands::store::with_store;
use crate::failure::Failure;
use crate::output::{self, Format};

/// The ledger of agents
#[derive(Debug, Parser)]
#[command(
    name = "kei-ledger",
    version,
    after_help = "Example:\n  kei-ledger fork ag-1 agent/ag-1 --spec-sha 9f3c…"
)]
pub struct LedgerTool {
    /// The database [env: KEI_LEDGER_DB]
    #[arg(long, global = true)]
    db: Option<String>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make the database, if there is none
    Init,
    /// Record a running agent
    Fork(Box<record::Fork>),
    /// Note that an agent is done
    Done {
        /// The agent
        id: AgentId,
        /// What it did
        #[arg(long)]
        summary: String,
    },
    /// Note that an agent failed
    Fail {
        /// The agent
        id: AgentId,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Note that an agent's work has landed
    Merged {
        /// The agent
        id: AgentId,
    },
    /// List agents, oldest first
    List {
        /// Only those that stand like this
        #[arg(long)]
        status: Option<RunStatus>,
    },
    /// Show an agent and all that were started from it
    Tree {
        /// The agent
        id: AgentId,
    },
    /// Check that everything an agent should have is there
    Validate(validate::Validate),
    /// List agents that a DNA forked or asked for
    Descendants {
        /// The DNA
        dna: String,
    },
    /// Add to what an agent has cost
    RecordCost(record::RecordCost),
}

impl LedgerTool {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        let context = options::observe(None, self.db.as_deref())?;
        with_store(&context, async |store| match self.verb {
            Verb::Init => record::init(&context, Format::Human),
            Verb::Fork(command) => command.run(store, Format::Human).await,
            Verb::Done { id, summary } => {
                let summary = Some(summary.as_str());
                record::change(store, &id, RunStatus::Done, summary, Format::Human).await
            }
            Verb::Fail { id, reason } => {
                let reason = Some(reason.as_str());
                record::change(store, &id, RunStatus::Failed, reason, Format::Human).await
            }
            Verb::Merged { id } => {
                record::change(store, &id, RunStatus::Merged, None, Format::Human).await
            }
            Verb::List { status } => list(store, status).await,
            Verb::Tree { id } => {
                for branching in tree::kei_forest(store, &id).await? {
                    tree::kei_tree(&branching, 0);
                }
                Ok(())
            }
            Verb::Validate(command) => command.run(&context, store, Format::Human).await,
            Verb::Descendants { dna } => descendants(store, &dna).await,
            Verb::RecordCost(command) => command.run(store).await,
        })
    }
}

async fn list(store: &Store, status: Option<RunStatus>) -> Result<(), Failure> {
    let runs = store.list(status).await?;
    if runs.is_empty() {
        output::line("(no agents)");
    }
    for run in runs {
        let spec: String = run.spec_sha.chars().take(12).collect();
        let parent = run.parent_branch.as_deref().unwrap_or("-");
        output::line(format_args!(
            "{}\t{}\t{}\t{}\tparent={parent}\tspec={spec}",
            run.id, run.status, run.branch, run.started_ts
        ));
    }
    Ok(())
}

async fn descendants(store: &Store, dna: &str) -> Result<(), Failure> {
    let runs = store.forked_or_created_by(dna).await?;
    if runs.is_empty() {
        output::line(format_args!("(no descendants for {dna})"));
    }
    for run in runs {
        let forked = run.fork_parent_id.as_deref() == Some(dna);
        let relation = if forked { "fork" } else { "spawn" };
        output::line(format_args!("{}\t{relation}\t{}\t{}", run.id, run.status, run.branch));
    }
    Ok(())
}
