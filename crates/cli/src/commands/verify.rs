//! `bailiwick verify`: what an agent made, measured on its own tree and on the tree that would land.

use std::path::PathBuf;

use bailiwick_engine::agent_names;
use bailiwick_engine::agent_state::{AgentState, SupervisorState};
use bailiwick_engine::context::Context;
use bailiwick_engine::verifying::{AgentWork, SnapshotStart, VerificationReport, WorkOptions};
use bailiwick_lifecycle::verification::Progress;
use bailiwick_model::capability::RunMode;
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, CapabilityName, Run, RunStatus};
use clap::{Args, ValueEnum};

use super::options::CheckArguments;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Format, FormatOption};
use crate::view::verification::Live;

/// Check an agent's work, on its own tree and merged onto the target branch
///
/// Runs every check of the agent's role on a copy of its work: first as it is, then merged onto the
/// target branch. The agent's worktree is not changed. Exits with 0 if all checks pass and with 2
/// if one fails.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick verify fix-42\n  bailiwick verify fix-42 --mode \
                        worktree\n  bailiwick verify task.toml ../worktree -o json\n  bailiwick \
                        verify fix-42 --only quality::tests-green --fresh")]
pub struct Verify {
    /// An agent of the ledger, or a task file
    #[arg(value_name = "AGENT|TASK")]
    pub(crate) what: String,
    /// The worktree, if not the one in the ledger
    #[arg(value_name = "WORKTREE", conflicts_with = "worktree")]
    pub(crate) place: Option<PathBuf>,
    /// The same
    #[arg(long, value_name = "DIR")]
    pub(crate) worktree: Option<PathBuf>,
    /// The repository to land in
    #[arg(long, value_name = "DIR")]
    pub(crate) main_repo: Option<PathBuf>,
    /// The target branch; default: the setting, else the one that was checked out at the spawn
    #[arg(long, value_name = "BRANCH")]
    pub(crate) base: Option<String>,
    /// The trees to check
    #[arg(long, default_value = "both")]
    pub(crate) mode: Mode,
    /// Run only the checks of these capabilities
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) only: Vec<CapabilityName>,
    #[command(flatten)]
    pub(crate) options: CheckArguments,
    #[command(flatten)]
    pub(crate) format: FormatOption,
}

/// The trees that are checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// What the agent made, on its base commit.
    Worktree,
    /// The same, merged onto the target branch.
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
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        interrupt::begin();
        interrupt::set_notice("the checks were stopped; nothing has changed".to_owned());
        let format = self.format.format;
        let what = self.what.clone();
        let (subject, shown) = self.verify(context)?;
        match format {
            Format::Json => output::json(&shown)?,
            Format::Human => {
                output::print_verification(&shown);
                if let Some(run) = &subject.run {
                    let has_work = shown.work.as_ref().is_some_and(|work| *work != subject.base);
                    let work = if has_work { Work::Some } else { Work::None };
                    let state = state(context, run, work)?;
                    let passed = shown.failed.is_empty();
                    if let Some(step) = next_step(state, &what, passed, &context.global_options) {
                        output::next_step(step);
                    }
                }
            }
        }
        output::verification_outcome(&shown)
    }

    /// Verifies, and records the result.
    pub(crate) fn verify(
        self,
        context: &Context,
    ) -> Result<(AgentWork, VerificationReport), Failure> {
        let work_options = WorkOptions {
            worktree: self.place.or(self.worktree),
            main_repository: self.main_repo,
            base: self.base,
            snapshot_start: SnapshotStart::Immediate,
            ..WorkOptions::default()
        };
        let subject = match AgentId::parse(&self.what) {
            Ok(id) if !context.directory.join(&self.what).is_file() => {
                let id = agent_names::require(context, &id)?;
                AgentWork::of_agent(context, &id, &work_options)?
            }
            _ => AgentWork::of_task(context, &PathBuf::from(&self.what), None, &work_options)?,
        };
        subject.require_worktree()?;
        subject.recover()?;
        let mut live = Live::start(self.format.format == Format::Json);
        let mut tell = |progress: Progress<'_>| live.tell(&progress);
        let checks = self.options.into();
        let shown = subject.verify_and_record(self.mode.into(), checks, &self.only, &mut tell)?;
        drop(live);
        Ok((subject, shown))
    }
}

/// The state of an agent, by what can be done with it.
fn state(context: &Context, run: &Run, work: Work) -> Result<AgentState, Failure> {
    let attempts = context.with_store(async |store| Ok(store.attempts(Some(&run.id)).await?))?;
    let state = AgentState::of(run, attempts.last(), SupervisorState::observe(context, run).0);
    Ok(match (state, work) {
        // The worktree was used without a supervisor.
        (AgentState::Ready, Work::Some) => AgentState::Running,
        (AgentState::Failed, _) if run.status == RunStatus::Failed => {
            AgentState::Ended(ExitReason::Failed)
        }
        (state, _) => state,
    })
}

/// Whether there is anything in a worktree that its base has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Some,
    None,
}

/// The next step for an agent with checked work; none if it is finished.
fn next_step(state: AgentState, agent: &str, passed: bool, global_options: &str) -> Option<String> {
    let command = |verb: &str| format!("bailiwick {verb} {agent}{global_options}");
    Some(match state {
        AgentState::AtWork | AgentState::Asks => format!(
            "it is still running. See what it does: {}; watch it: {}; end it: {}",
            command("logs -f"),
            command("attach"),
            command("stop")
        ),
        AgentState::Ended(
            ExitReason::Stopped
            | ExitReason::TimedOut
            | ExitReason::BudgetExhausted
            | ExitReason::CutOff,
        ) => format!(
            "it is {state} and was stopped before its end. See what it did: {}; resume it: {}",
            command("logs"),
            command("resume")
        ),
        AgentState::Failed => {
            format!("it failed. See why: {}; resume it: {}", command("logs"), command("resume"))
        }
        AgentState::Ready => format!("it was never started: {}", command("run")),
        AgentState::HalfSpawned => {
            format!(
                "its spawn was interrupted: bailiwick spawn TASK --agent-id {agent}{global_options}"
            )
        }
        AgentState::Running | AgentState::Done | AgentState::Ended(ExitReason::Completed)
            if passed =>
        {
            command("land")
        }
        AgentState::Running
        | AgentState::Done
        | AgentState::Ended(
            ExitReason::Completed
            | ExitReason::Failed
            | ExitReason::EnforcementLost
            | ExitReason::Denied,
        ) => format!("{}, or {}", command("respawn"), command("reject")),
        AgentState::Merged | AgentState::RolledBack | AgentState::Rejected => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_step_depends_on_the_agent_state() {
        let step = |state, passed| next_step(state, "one", passed, "").unwrap_or_default();
        for passed in [true, false] {
            let running = step(AgentState::AtWork, passed);
            for verb in ["logs -f one", "attach one", "stop one"] {
                assert!(running.contains(verb), "{running}");
            }
            for ending in [ExitReason::Stopped, ExitReason::CutOff, ExitReason::TimedOut] {
                let stopped = step(AgentState::Ended(ending), passed);
                assert!(stopped.contains("bailiwick logs one"), "{stopped}");
                assert!(stopped.contains("bailiwick resume one"), "{stopped}");
                assert!(!stopped.contains("land") && !stopped.contains("respawn"), "{stopped}");
            }
        }
        assert_eq!(step(AgentState::Done, true), "bailiwick land one");
        assert_eq!(step(AgentState::Done, false), "bailiwick respawn one, or bailiwick reject one");
        assert_eq!(step(AgentState::Merged, true), "");
    }
}
