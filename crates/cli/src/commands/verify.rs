//! `bailiwick verify`: what an agent made, measured on its own tree and on the tree that would land.

use std::path::PathBuf;

use bailiwick_model::capability::RunMode;
use bailiwick_model::{AgentId, CapabilityName};
use clap::{Args, ValueEnum};

use crate::agent_names;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::verifying::{Live, Look, Manner, Places, Shown, Subject};

/// Check an agent's work, on its own tree and merged onto today's base
///
/// Every check of the agent's role runs on a copy of its work: first as it is, then merged onto the
/// base branch as it is today. Nothing of the agent's worktree is touched. Exits 0 if all hold and 2
/// if one does not.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick verify fix-42\n  bailiwick verify fix-42 --mode \
                        worktree\n  bailiwick verify task.toml ../worktree -o json\n  bailiwick \
                        verify fix-42 --only quality::tests-green --fresh")]
pub struct Verify {
    /// An agent of the ledger, or a task file
    #[arg(value_name = "AGENT|TASK")]
    pub(crate) what: String,
    /// Where the agent worked, if not where the ledger says
    #[arg(value_name = "WORKTREE", conflicts_with = "worktree")]
    pub(crate) place: Option<PathBuf>,
    /// The same
    #[arg(long, value_name = "DIR")]
    pub(crate) worktree: Option<PathBuf>,
    /// The repository that the work is to land in
    #[arg(long, value_name = "DIR")]
    pub(crate) main_repo: Option<PathBuf>,
    /// The branch that the work is to land on; found if not given
    #[arg(long, value_name = "BRANCH")]
    pub(crate) base: Option<String>,
    /// On which trees
    #[arg(long, default_value = "both")]
    pub(crate) mode: Mode,
    /// Only the checks of these capabilities
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) only: Vec<CapabilityName>,
    #[command(flatten)]
    pub(crate) manner: Manner,
    #[command(flatten)]
    pub(crate) format: FormatOption,
}

/// The trees that are checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// What the agent made, on the base that it started from.
    Worktree,
    /// The same merged onto today's base.
    SimulatedMerge,
    /// The one, then the other.
    #[default]
    Both,
}

impl From<Mode> for RunMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Worktree => Self::Worktree,
            Mode::SimulatedMerge => Self::SimulatedMerge,
            Mode::Both => Self::Both,
        }
    }
}

impl Verify {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let format = self.format.format;
        let repeated = &context.repeated;
        let what = self.what.clone();
        let (subject, shown) = self.verify(context)?;
        match format {
            Format::Json => output::json(&shown)?,
            Format::Human => {
                shown.print();
                match (&subject.run, shown.failed.is_empty()) {
                    (Some(run), _) if run.status.next().is_empty() => {}
                    (Some(run), true) => {
                        output::next_step(format_args!("bailiwick land {}{repeated}", run.id));
                    }
                    (Some(_), false) => output::next_step(format_args!(
                        "bailiwick respawn {what}{repeated}, or bailiwick reject {what}{repeated}"
                    )),
                    (None, _) => {}
                }
            }
        }
        shown.outcome()
    }

    /// Verifies, and writes down what came of it.
    pub(crate) fn verify(self, context: &Context) -> Result<(Subject, Shown), Failure> {
        let places = Places {
            worktree: self.place.or(self.worktree),
            main_repository: self.main_repo,
            base: self.base,
            look: Look::AtOnce,
        };
        let subject = match AgentId::parse(&self.what) {
            Ok(id) if !context.directory.join(&self.what).is_file() => {
                let id = agent_names::require(context, &id)?;
                Subject::of_agent(context, &id, &places)?
            }
            _ => Subject::of_task(context, &PathBuf::from(&self.what), None, &places)?,
        };
        subject.require_worktree()?;
        subject.recover()?;
        let mut live = Live::start(self.format.format == Format::Json);
        let verification = subject.verify(self.mode.into(), self.manner, &self.only, &mut live)?;
        drop(live);
        let agent = subject.agent.as_ref().map(ToString::to_string);
        let shown = Shown::new(agent, &verification);
        subject.record(&shown)?;
        Ok((subject, shown))
    }
}
