//! `bailiwick land`: advances the base branch to exactly the tree that was verified.

use bailiwick_engine::agent_names;
use bailiwick_engine::context::Context;
use bailiwick_engine::landing::{self, LandFailure, LandRequest, LandStage, LandedRecord};
use bailiwick_lifecycle::commit_subject::CommitTitle;
use bailiwick_lifecycle::ports::Method;
use bailiwick_model::AgentId;
use clap::{Args, ValueEnum};

use super::options::CheckArguments;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Format, FormatOption};
use crate::view::verification::Live;

/// Verify an agent's work on the target branch and land exactly that tree
///
/// The branch moves by compare-and-swap: if it moved meanwhile, the new merge is verified first. A
/// checkout of the branch with uncommitted changes is refused; a clean one is updated. With
/// --branch the target branch does not move, and a branch is created for a pull request.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick land fix-42\n  bailiwick land fix-42 --method \
                        squash --title 'Fix the lexer'\n  bailiwick land fix-42 --branch \
                        agents/fix-42")]
pub struct Land {
    /// The agent
    agent: AgentId,
    /// Create this branch instead of moving the target branch
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// How to merge; default: the setting in .bailiwick/settings.toml, else merge
    #[arg(long, value_name = "METHOD")]
    method: Option<MethodOption>,
    /// Subject of the commit; default: `run --title`, else the first sentence of the task's body
    #[arg(long, value_name = "TEXT")]
    title: Option<CommitTitle>,
    /// The target branch; default: the setting, else the one that was checked out at the spawn
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    #[command(flatten)]
    checks: CheckArguments,
    #[command(flatten)]
    format: FormatOption,
}

/// What becomes of the agent's commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodOption {
    /// A merge commit.
    Merge,
    /// One commit on the target branch.
    Squash,
    /// Each commit again, on the target branch.
    Rebase,
}

impl From<MethodOption> for Method {
    fn from(option: MethodOption) -> Self {
        match option {
            MethodOption::Merge => Self::Merge,
            MethodOption::Squash => Self::Squash,
            MethodOption::Rebase => Self::Rebase,
        }
    }
}

/// How much is printed when work lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandOutput {
    /// Nothing.
    Nothing,
    /// The result: the person has seen the change.
    Result,
    /// The result, and a summary of the changed files.
    Change,
}

impl Land {
    /// With the methods of the settings, for the demo and tests.
    pub(crate) fn plain(agent: AgentId) -> Self {
        let (checks, format) = (CheckArguments::default(), FormatOption::default());
        Self { agent, branch: None, method: None, title: None, base: None, checks, format }
    }

    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        interrupt::begin();
        let agent = agent_names::require(context, &self.agent)?;
        interrupt::set_notice(format!(
            "stopped; the work is kept, and the same command continues: bailiwick land {agent}"
        ));
        let request = LandRequest {
            agent,
            branch: self.branch,
            method: self.method.map(Method::from),
            title: self.title,
            base: self.base,
            checks: self.checks.into(),
        };
        land_and_print(context, &request, LandOutput::Change, self.format.format)
    }
}

/// Lands work and prints the result.
pub(crate) fn land_and_print(
    context: &Context,
    request: &LandRequest,
    printed: LandOutput,
    format: Format,
) -> Result<(), Failure> {
    let quiet = printed == LandOutput::Nothing;
    let json = quiet || format == Format::Json;
    let mut live = None;
    let landed = landing::land(context, request, &mut |stage| match stage {
        LandStage::Checking(subject) => {
            if !json && printed == LandOutput::Change {
                match subject.diffstat(output::width()) {
                    Ok(stat) => output::aside(stat.trim_end()),
                    Err(error) => {
                        output::note(format_args!("the change cannot be shown: {error}"));
                    }
                }
            }
            live = Some(Live::start(json));
        }
        LandStage::Progress(progress) => {
            if let Some(live) = &mut live {
                live.tell(&progress);
            }
        }
    });
    drop(live);
    match landed {
        Err(LandFailure::Other(failure)) => Err(failure.into()),
        Err(LandFailure::ChecksFailed(shown)) => {
            if json {
                return Err(output::json(&shown).err().unwrap_or(Failure::AlreadyReported(2)));
            }
            output::print_verification(&shown);
            let agent = &request.agent;
            output::next_step(format_args!(
                "bailiwick respawn {agent}, or bailiwick reject {agent}"
            ));
            Err(Failure::AlreadyReported(2))
        }
        Ok(_) if quiet => Ok(()),
        Ok(landed) if format == Format::Json => output::json(&landed.record),
        Ok(landed) => {
            if let Some(tests) = &landed.test_changes {
                output::note(tests);
            }
            print(&landed.record, request.branch.is_some());
            Ok(())
        }
    }
}

fn print(record: &LandedRecord, proposed: bool) {
    let short = record.branch.strip_prefix("refs/heads/").unwrap_or(&record.branch);
    output::line(format_args!("landed    {} as {:.12} on {short}", record.agent_id, record.commit));
    output::line(format_args!("tree      {:.12}, verified on {:.12}", record.tree, record.onto));
    for checkout in &record.checkouts {
        output::line(format_args!("checkout  {} is up to date with it", checkout.display()));
    }
    if proposed {
        output::next_step(format_args!("git push origin {short}"));
    } else {
        output::next_step(format_args!("to undo: bailiwick rollback {}", record.agent_id));
    }
}
