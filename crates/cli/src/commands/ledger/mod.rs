//! `bailiwick ledger`: who was spawned from what, with which spec, at what cost.

pub mod record;
pub mod tree;
pub mod validate;
pub mod view;

use bailiwick_engine::agent_names::{self, Scope};
use bailiwick_engine::context::Context;
use bailiwick_model::{AgentId, RunStatus};
use clap::{Args, Subcommand};

use crate::commands::store::with_store;
use crate::failure::Failure;
use crate::output::FormatOption;

/// Show and edit the ledger of all runs
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick ledger list\n  bailiwick ledger tree\n  bailiwick \
                        ledger spec fix-42")]
pub struct Ledger {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the runs of this repository, oldest first
    #[command(
        after_help = "Examples:\n  bailiwick ledger list --status running -o json\n  bailiwick ledger \
                      list --all-repos"
    )]
    List {
        /// Only runs in this state, for example ready, working, stopped, done, merged, rolled-back;
        /// running: all that have not ended
        #[arg(long)]
        status: Option<view::Filter>,
        /// Show the runs of all repositories; the default outside of a repository
        #[arg(long)]
        all_repos: bool,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Show one run with its history
    #[command(after_help = "Example:\n  bailiwick ledger show fix-42")]
    Show {
        /// The run
        id: AgentId,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Show which run of this repository started which, and which one repeats another
    #[command(
        after_help = "Examples:\n  bailiwick ledger tree\n  bailiwick ledger tree fix-42\n  bailiwick \
                      ledger tree --all-repos"
    )]
    Tree {
        /// Only this run and its descendants
        id: Option<AgentId>,
        /// Show the runs of all repositories; the default outside of a repository
        #[arg(long, conflicts_with = "id")]
        all_repos: bool,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Show the ancestors of a run, nearest first
    #[command(after_help = "Example:\n  bailiwick ledger parents fix-42")]
    Parents {
        /// The run
        id: AgentId,
        #[command(flatten)]
        format: FormatOption,
    },
    /// List the descendants of a run or of a DNA
    #[command(after_help = "Example:\n  bailiwick ledger descendants fix-42")]
    Descendants {
        /// The run, or a DNA
        id: String,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Find runs by a prefix of their DNA
    #[command(after_help = "Example:\n  bailiwick ledger find edit-local::NG-FW")]
    Find {
        /// The prefix
        dna: String,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Print the task.toml that a run was given
    #[command(after_help = "Example:\n  bailiwick ledger spec fix-42 > task.toml")]
    Spec {
        /// The run, or the SHA of a spec or a prefix of it
        id: String,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Check that the files and records of a run exist
    #[command(after_help = "Example:\n  bailiwick ledger validate agent/fix-42")]
    Validate {
        #[command(flatten)]
        validate: validate::Validate,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Create the database if it does not exist
    #[command(after_help = "Example:\n  bailiwick ledger init")]
    Init {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Record a run that was started by other means
    #[command(
        after_help = "Example:\n  bailiwick ledger fork fix-42 agent/fix-42 --spec-sha 9f3c…"
    )]
    Fork {
        #[command(flatten)]
        fork: Box<record::Fork>,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Mark a run as done
    #[command(
        after_help = "Example:\n  bailiwick ledger done fix-42 --summary 'two files changed'"
    )]
    Done {
        /// The run
        id: AgentId,
        /// What it did
        #[arg(long)]
        summary: String,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Mark a run as failed
    #[command(after_help = "Example:\n  bailiwick ledger fail fix-42 --reason 'tests do not pass'")]
    Fail {
        /// The run
        id: AgentId,
        /// Why
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Mark the work of a run as landed
    #[command(after_help = "Example:\n  bailiwick ledger merged fix-42")]
    Merged {
        /// The run
        id: AgentId,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Mark the work of a run as rejected
    #[command(after_help = "Example:\n  bailiwick ledger rejected fix-42 --reason 'out of scope'")]
    Rejected {
        /// The run
        id: AgentId,
        /// Why
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Add to the cost of a run
    #[command(
        override_usage = "bailiwick ledger record-cost [OPTIONS] --cents <CENTS>\n           \
                          --provider <PROVIDER> --model <MODEL> <ID>",
        after_help = "Example:\n  bailiwick ledger record-cost fix-42 --cents 37 \\\n      \
                      --provider anthropic --model sonnet"
    )]
    RecordCost {
        #[command(flatten)]
        cost: record::RecordCost,
        #[command(flatten)]
        format: FormatOption,
    },
    /// List revocations of the lock on the file formats
    #[command(after_help = "Example:\n  bailiwick ledger locks")]
    Locks {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Record a revocation of the lock on the file formats
    #[command(after_help = "Example:\n  bailiwick ledger revoke-lock --reason 'task.toml needs a \
                            breaking change'")]
    RevokeLock {
        /// Why the lock is revoked
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        format: FormatOption,
    },
}

impl Ledger {
    /// A `ledger tree` of this repository.
    pub(crate) fn tree() -> Self {
        let format = FormatOption::default();
        Self { verb: Verb::Tree { id: None, all_repos: false, format } }
    }

    /// Whether it works on what a database has.
    pub(crate) fn needs_database(&self) -> bool {
        !matches!(self.verb, Verb::Init { .. } | Verb::Fork { .. } | Verb::RevokeLock { .. })
    }

    /// Runs the command.
    pub fn run(mut self, context: &Context) -> Result<(), Failure> {
        self.verb.resolve_names(context)?;
        let all_repos = matches!(
            self.verb,
            Verb::List { all_repos: true, .. } | Verb::Tree { all_repos: true, .. }
        );
        let scope = Scope::observe(context, all_repos)?;
        with_store(context, async |store| match self.verb {
            Verb::List { status, format, .. } => {
                view::list(context, store, status, &scope, format.format).await
            }
            Verb::Show { id, format } => view::show(context, store, &id, format.format).await,
            Verb::Tree { id, format, .. } => {
                tree::show(context, store, id.as_ref(), &scope, format.format).await
            }
            Verb::Parents { id, format } => view::parents(context, store, &id, format.format).await,
            Verb::Descendants { id, format } => {
                view::descendants(context, store, &id, format.format).await
            }
            Verb::Find { dna, format } => view::find(context, store, &dna, format.format).await,
            Verb::Spec { id, format } => view::spec(store, &id, format.format).await,
            Verb::Validate { validate, format } => {
                validate.run(context, store, format.format).await
            }
            Verb::Init { format } => record::init(context, format.format),
            Verb::Fork { fork, format } => fork.run(store, format.format).await,
            Verb::Done { id, summary, format } => {
                let summary = Some(summary.as_str());
                record::change(store, &id, RunStatus::Done, summary, format.format).await
            }
            Verb::Fail { id, reason, format } => {
                let reason = Some(reason.as_str());
                record::change(store, &id, RunStatus::Failed, reason, format.format).await
            }
            Verb::Merged { id, format } => {
                record::change(store, &id, RunStatus::Merged, None, format.format).await
            }
            Verb::Rejected { id, reason, format } => {
                let reason = Some(reason.as_str());
                record::change(store, &id, RunStatus::Rejected, reason, format.format).await
            }
            // Its answer is JSON for everybody, as programs of others read it.
            Verb::RecordCost { cost, .. } => cost.run(store).await,
            Verb::Locks { format } => view::locks(store, format.format).await,
            Verb::RevokeLock { reason, format } => {
                record::revoke_lock(store, &reason, format.format).await
            }
        })
    }
}

impl Verb {
    /// Puts the ids of the agents that a person named in the place of their names.
    fn resolve_names(&mut self, context: &Context) -> Result<(), Failure> {
        let id = match self {
            Self::Show { id, .. }
            | Self::Parents { id, .. }
            | Self::Tree { id: Some(id), .. }
            | Self::Done { id, .. }
            | Self::Fail { id, .. }
            | Self::Merged { id, .. }
            | Self::Rejected { id, .. } => id,
            Self::RecordCost { cost, .. } => &mut cost.id,
            Self::Descendants { id, .. } => {
                if let Ok(name) = AgentId::parse(id) {
                    *id = agent_names::require(context, &name)?.to_string();
                }
                return Ok(());
            }
            Self::Spec { id, .. } => {
                if let Ok(name) = AgentId::parse(id) {
                    let digest = id.chars().all(|c| c.is_ascii_hexdigit());
                    let found = match digest {
                        true => agent_names::resolve(context, &name)?,
                        false => agent_names::require(context, &name)?,
                    };
                    *id = found.to_string();
                }
                return Ok(());
            }
            Self::List { .. }
            | Self::Tree { id: None, .. }
            | Self::Find { .. }
            | Self::Validate { .. }
            | Self::Init { .. }
            | Self::Fork { .. }
            | Self::Locks { .. }
            | Self::RevokeLock { .. } => return Ok(()),
        };
        *id = agent_names::require(context, id)?;
        Ok(())
    }
}
